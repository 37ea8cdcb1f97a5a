import { parseArgs } from "node:util";

import { type Database } from "#postgres/pool.ts";
import { type Cursor, SEARCH_SETTINGS } from "#postgres/search.ts";

import { recordStatements } from "../test/support/recorded-statements.ts";
import { cpuSeconds } from "./child-task.ts";
import { describeLoad, printRow } from "./report.ts";
import { underLoad } from "./search-load.ts";
import {
  ask,
  type Asked,
  type Chance,
  createChance,
  cursorOf,
  type Line,
  LINES,
  type Prepared,
  questionOf,
} from "./search-questions.ts";
import { measureServer } from "./search-server.ts";
import { openSearchStore, type SearchStore } from "./search-store.ts";
import { percentile } from "./statistics.ts";

// `npm run bench -- search`: how long searches take among a million events, or ten. Each line asks many questions of one kind,
// each with values of its own and each once before it is measured; what counts is how long 95 of a hundred take at most.

/** What a line came to, in milliseconds. */
export interface Latency {
  readonly p50: number;
  readonly p95: number;
  readonly max: number;
}

/** People who ask at once, each the next question when the last was answered. */
const CROWD = 8;
const LATER_PAGE = 1_000;

/** The benchmark; the arguments are those of the command line after its name. */
export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rows: { type: "string", default: "1000000" },
      times: { type: "string", default: "200" },
      only: { type: "string", default: "" },
      explain: { type: "boolean", default: false },
      "under-load": { type: "boolean", default: false },
    },
  });
  const [rows, times] = [Number(values.rows), Number(values.times)];
  await using store = await openSearchStore(rows);
  process.stdout.write(
    `${times} questions a line among ${rows.toLocaleString("en")} events, the newest 50 of each; load ${describeLoad()}; Node.js ${process.version}\n\n`,
  );
  await using db = openForSearch(store);
  const lines = LINES.filter(({ what }) => what.includes(values.only));
  const prepared = await prepare(db, lines, rows, times);
  for (const [line, asked] of prepared) {
    if (values.explain) await explain(db, line, asked);
    else await report(db, line, asked);
  }
  if (values.explain) return;
  await measureCrowd(db, prepared);
  await measureServer(store, prepared);
  if (values["under-load"]) await compareUnderLoad(store, db, prepared, rows);
}

function openForSearch(store: SearchStore): Database {
  return store.open({ poolSize: CROWD, statementTimeoutMs: 30_000, settings: SEARCH_SETTINGS });
}

async function prepare(db: Database, lines: readonly Line[], rows: number, times: number): Promise<Prepared> {
  const chance = createChance(rows, 1);
  const prepared = new Map<Line, readonly Asked[]>();
  for (const line of lines) prepared.set(line, await questionsOf(db, line, chance, times));
  return prepared;
}

async function questionsOf(
  db: Database,
  line: Line,
  chance: Chance,
  times: number,
): Promise<readonly Asked[]> {
  const cursors = new Map<string, Cursor | undefined>();
  const asked: Asked[] = [];
  for (let each = 0; each < Math.min(times, line.most ?? times); each++) {
    const text = line.filterAt(chance);
    const question = questionOf(text);
    if (line.asks === "later page" && !cursors.has(text))
      cursors.set(text, await cursorOf(db, question, LATER_PAGE));
    asked.push({ text, question, after: cursors.get(text) });
  }
  return asked;
}

async function report(db: Database, line: Line, asked: readonly Asked[]): Promise<void> {
  await measure(db, line, asked);
  const { latency, cpu, slowest } = await measure(db, line, asked);
  printRow({
    what: line.what,
    measured: describe(latency),
    ratio: line.target === undefined ? "–" : `${(latency.p95 / line.target).toFixed(2)} of the target`,
    target: line.target === undefined ? "none" : `p95 < ${line.target} ms`,
    isMet: line.target === undefined || latency.p95 < line.target,
    notes: [`CPU of PostgreSQL: ${cpu} ms a question`, `the slowest: ${slowest}`],
  });
}

async function measure(
  db: Database,
  line: Line,
  asked: readonly Asked[],
): Promise<{ readonly latency: Latency; readonly cpu: string; readonly slowest: string }> {
  const backends = await backendsOf(db);
  const before = cpuSeconds(backends);
  const took: { readonly text: string; readonly ms: number }[] = [];
  for (const { text, question, after } of asked) {
    const began = performance.now();
    await ask(db, line, question, after);
    took.push({ text, ms: performance.now() - began });
  }
  const after = cpuSeconds(backends);
  const slowest = took.toSorted((a, b) => b.ms - a.ms).slice(0, 3);
  return {
    latency: latencyOf(took.map(({ ms }) => ms)),
    cpu:
      before === undefined || after === undefined
        ? "?"
        : (((after - before) * 1_000) / took.length).toFixed(1),
    slowest: slowest.map(({ text, ms }) => `${text || "(no filter)"} ${ms.toFixed(1)} ms`).join("; "),
  };
}

async function backendsOf(db: Database): Promise<readonly number[]> {
  const { rows } = await db.pool.query<{ pid: number }>(
    "select pid from pg_stat_activity where application_name = 'weir bench'",
  );
  return rows.map(({ pid }) => pid);
}

function latencyOf(took: readonly number[]): Latency {
  return { p50: percentile(took, 0.5), p95: percentile(took, 0.95), max: Math.max(...took) };
}

function describe({ p50, p95, max }: Latency): string {
  return `p50 ${p50.toFixed(1)} ms, p95 ${p95.toFixed(1)} ms, at most ${max.toFixed(1)} ms`;
}

/** Eight at once, each with pages of every kind in turn. */
async function measureCrowd(db: Database, prepared: Prepared): Promise<void> {
  const pages = [...prepared].filter(([{ asks, target }]) => asks === "page" && target !== undefined);
  const questions = pages.flatMap(([line, asked]) => asked.map((each) => ({ line, ...each })));
  if (questions.length === 0) return;
  const took: number[] = [];
  const began = performance.now();
  await Promise.all(
    Array.from({ length: CROWD }, async (_, person) => {
      for (let at = person; at < questions.length; at += CROWD) {
        // One person's questions are of all kinds.
        const { line, question, after } = questions[(at * 7919) % questions.length]!;
        const asking = performance.now();
        await ask(db, line, question, after);
        took.push(performance.now() - asking);
      }
    }),
  );
  const seconds = (performance.now() - began) / 1_000;
  printRow({
    what: `${CROWD} people at once, first pages of every kind above`,
    measured: describe(latencyOf(took)),
    ratio: `${(took.length / seconds).toFixed(0)} pages/s`,
    target: "none",
    isMet: true,
  });
}

/** The plan of the first question of each shape: with other values it is the same or chosen by how frequent they are. */
async function explain(db: Database, line: Line, asked: readonly Asked[]): Promise<void> {
  process.stdout.write(`## ${line.what}\n`);
  for (const { text, question, after } of asked.slice(0, 8)) {
    const recorded = recordStatements(db);
    await ask(recorded, line, question, after);
    for (const statement of recorded.statements.filter((each) => !each.text.includes("pg_stats"))) {
      const { rows } = await db.pool.query<{ "QUERY PLAN": string }>({
        text: `explain (analyze, buffers, summary) ${statement.text}`,
        values: [...(statement.values ?? [])],
      });
      process.stdout.write(
        `${text || "(no filter)"}\n${rows.map((row) => row["QUERY PLAN"]).join("\n")}\n\n`,
      );
    }
  }
}

async function compareUnderLoad(
  store: SearchStore,
  db: Database,
  prepared: Prepared,
  rows: number,
): Promise<void> {
  for (const [line, asked] of prepared) await measure(db, line, asked);
  const quiet = new Map<Line, Latency>();
  for (const [line, asked] of prepared) quiet.set(line, (await measure(db, line, asked)).latency);
  await underLoad(store, rows, async (rate) => {
    for (const [line, asked] of prepared) {
      const { latency, slowest } = await measure(db, line, asked);
      const before = quiet.get(line)!;
      const ratio = latency.p50 / before.p50;
      printRow({
        what: `under full ingest load: ${line.what}`,
        measured: `${describe(latency)}, beside ${rate().toFixed(0)} events/s`,
        limit: describe(before),
        ratio: `${ratio.toFixed(2)} by p50, ${(latency.p95 / before.p95).toFixed(2)} by p95`,
        target: "≤ 2",
        isMet: latency.p95 / before.p95 <= 2,
        notes: [`the slowest: ${slowest}`],
      });
    }
  });
}
