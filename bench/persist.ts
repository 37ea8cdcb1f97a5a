import { parseArgs } from "node:util";

import { type StoredEvent } from "#core/event.ts";
import { termsOf } from "#core/terms.ts";
import { type Claim, persistBatch, takeOver } from "#postgres/claims.ts";
import { COPY_EVENTS, encodeRows } from "#postgres/event-columns.ts";
import { type Database } from "#postgres/pool.ts";
import { mergeTerms } from "#postgres/term-index.ts";
import { transaction } from "#postgres/tx.ts";
import { WORKERS } from "#runtime/settings/workers.ts";
import { createTelemetry } from "#runtime/telemetry.ts";

import { silentLogger } from "../test/support/logger.ts";
import { createIndexTerms } from "../workers/index-terms.ts";
import { cpuSeconds } from "./child-task.ts";
import { createEvents, LOG_PARTITIONS } from "./persist-events.ts";
import { type Server, sizesOf, startServer, type Store } from "./persist-store.ts";
import { describeLoad, describeRatio, describeSpread, printRow } from "./report.ts";
import { spreadOf, spreadOfAll } from "./statistics.ts";

// `npm run bench -- persist`: a backlog of events goes into PostgreSQL over one connection, as the persist role stores it,
// batch by batch, while the index role works on a connection of its own; against binary COPY of the same rows and columns
// into the same table with nothing but the key. Rounds of both take turns.

/** What a round is given. */
interface Backlog {
  readonly events: readonly StoredEvent[];
  /** By partition of the log, in batches. */
  readonly lanes: readonly (readonly (readonly StoredEvent[])[])[];
}

/** What a round came to. */
interface Round {
  readonly perSecond: number;
  /** CPU time an event in microseconds, where the system tells. */
  readonly client: number;
  readonly writer: number | undefined;
  readonly index: number | undefined;
}

/** The benchmark; the arguments are those of the command line after its name. */
export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: "string", default: "5" },
      events: { type: "string", default: "500000" },
      batch: { type: "string", default: WORKERS.settings.persistBatchRecords.default },
      "grow-to": { type: "string", default: "0" },
    },
  });
  const [rounds, count, batch, growTo] = [values.rounds, values.events, values.batch, values["grow-to"]].map(
    Number,
  ) as [number, number, number, number];
  const events = createEvents(0, count);
  const sample = events.slice(0, 1_000);
  const terms = sample.reduce((sum, { event }) => sum + termsOf(event).length, 0) / sample.length;
  process.stdout.write(
    `${rounds} rounds of ${count} events of 600 B (${terms.toFixed(1)} terms each) in batches of ${batch} over one connection; load ${describeLoad()}; Node.js ${process.version}\n\n`,
  );
  await using server = await startServer();
  await compare(server, { events, lanes: lanesOf(events, batch) }, rounds);
  if (growTo > 0) await grow(server, growTo, batch);
}

async function compare(server: Server, backlog: Backlog, rounds: number): Promise<void> {
  const now = new Date(backlog.events[0]!.acceptTime);
  const bare = await server.createStore("bare", now);
  for (const index of ["event_page_idx", "event_log_idx", "event_terms_idx"])
    await bare.query(`drop index events.${index}`);
  const whole = await server.createStore("whole", now);

  const limits: Round[] = [];
  const bulks: Round[] = [];
  const ours: Round[] = [];
  let [bytes, drainSeconds]: [ReadonlyMap<string, number>, number] = [new Map(), 0];
  for (let round = 0; round < rounds; round++) {
    limits.push(await measure(bare, backlog, copyBatch));
    bulks.push(await measure(bare, inOneLane(backlog), copyBatch));
    ours.push(await measure(whole, backlog, await persistInto(whole), true));
    const began = performance.now();
    await using db = whole.open(1);
    await mergeTerms(db);
    drainSeconds = (performance.now() - began) / 1_000;
    bytes = await sizesOf(whole);
  }
  report(backlog, { limits, bulks, ours }, bytes, drainSeconds);
}

function report(
  { events }: Backlog,
  { limits, bulks, ours }: Record<"limits" | "bulks" | "ours", readonly Round[]>,
  bytes: ReadonlyMap<string, number>,
  drainSeconds: number,
): void {
  const ratioTo = (others: readonly Round[]): ReturnType<typeof spreadOf> =>
    spreadOf(ours.map(({ perSecond }, index) => perSecond / others[index]!.perSecond));
  const rate = (of: readonly Round[]): string =>
    `${describeSpread(spreadOf(of.map(({ perSecond }) => perSecond)))} events/s`;
  const cpu = (of: readonly Round[]): string => {
    const part = (name: string, values: readonly (number | undefined)[]): string => {
      const spread = spreadOfAll(values);
      return spread === undefined ? "" : `, ${name} ${spread.median.toFixed(1)}`;
    };
    return (
      `client ${spreadOf(of.map(({ client }) => client)).median.toFixed(1)}` +
      part(
        "its backend",
        of.map(({ writer }) => writer),
      ) +
      part(
        "the index role's",
        of.map(({ index }) => index),
      )
    );
  };
  const ratio = ratioTo(limits);
  printRow({
    what: "storing a backlog with every index, one connection",
    measured: rate(ours),
    limit: `${rate(limits)}: binary COPY of the same batches, the key alone`,
    ratio: describeRatio(ratio),
    target: "≥ 60 %",
    isMet: ratio.median >= 0.6,
    notes: [
      `to one COPY of 10,000 rows a transaction: ${describeRatio(ratioTo(bulks))} of ${rate(bulks)}`,
      `CPU of an event in µs: ${cpu(ours)}; of the limit: ${cpu(limits)}`,
      `merging what was pending at the end took ${drainSeconds.toFixed(2)} s`,
    ],
  });
  const perEvent = [...bytes].map(([what, size]) => [what, size / events.length] as const);
  const total = perEvent.reduce((sum, [, size]) => sum + size, 0);
  printRow({
    what: "disk of an event, all in",
    measured: `${total.toFixed(0)} B: ${perEvent.map(([what, size]) => `${what} ${size.toFixed(0)}`).join(", ")}`,
    ratio: `${(total / 1_500).toFixed(2)} of the target`,
    target: "≤ 1,500 B",
    isMet: total <= 1_500,
  });
}

type StoreBatch = (db: Database, batch: readonly StoredEvent[]) => Promise<unknown>;

/** The limit: nothing but the rows, a transaction for each batch. */
function copyBatch(db: Database, batch: readonly StoredEvent[]): Promise<void> {
  const rows = encodeRows(batch);
  return transaction(db, (tx) => tx.copy(COPY_EVENTS, rows));
}

/** What a worker does with a batch once it is decoded. */
async function persistInto(store: Store): Promise<StoreBatch> {
  await using db = store.open(1);
  const claims: Claim[] = [];
  for (let partition = 0; partition < LOG_PARTITIONS; partition++)
    claims.push(
      await takeOver(db, { group: "weir.persist.v1", topic: "weir.events.v1", partition, owner: "bench" }),
    );
  return async (at, batch) => {
    const { partition, offset } = batch.at(-1)!.position;
    const result = await persistBatch(at, claims[partition]!, {
      events: batch,
      deadLetters: [],
      skips: [],
      nextOffset: offset + 1n,
    });
    if (result.outcome !== "stored" || result.written !== batch.length)
      throw new Error(`A batch of the benchmark was not stored: ${JSON.stringify(result)}`);
  };
}

/** One round into an empty table: the partitions beside each other, the batches of each one after another. */
async function measure(
  store: Store,
  { events, lanes }: Backlog,
  storeBatch: StoreBatch,
  isIndexed = false,
): Promise<Round> {
  await store.query("truncate events.event");
  await store.query("checkpoint");
  return load(store, { events, lanes }, storeBatch, isIndexed);
}

async function load(
  store: Store,
  { events, lanes }: Backlog,
  storeBatch: StoreBatch,
  isIndexed: boolean,
): Promise<Round> {
  await using db = store.open(1);
  await using indexing = store.open(1);
  const [writer, indexer] = [await pidOf(db), await pidOf(indexing)];
  const stopping = new AbortController();
  const role = createIndexTerms({
    db: indexing,
    telemetry: createTelemetry(silentLogger),
    log: silentLogger,
  });
  const indexed = isIndexed ? role.run(stopping.signal) : Promise.resolve();
  const before = [cpuSeconds([writer]), cpuSeconds([indexer])];
  const cpu = process.cpuUsage();
  const began = performance.now();
  await Promise.all(
    lanes.map(async (batches) => {
      for (const batch of batches) await storeBatch(db, batch);
    }),
  );
  const seconds = (performance.now() - began) / 1_000;
  const { user, system } = process.cpuUsage(cpu);
  stopping.abort();
  await indexed;
  const micros = (after: number | undefined, from: number | undefined): number | undefined =>
    after === undefined || from === undefined ? undefined : ((after - from) * 1e6) / events.length;
  return {
    perSecond: events.length / seconds,
    client: (user + system) / events.length,
    writer: micros(cpuSeconds([writer]), before[0]),
    index: isIndexed ? micros(cpuSeconds([indexer]), before[1]) : undefined,
  };
}

async function pidOf(db: Database): Promise<number> {
  const { rows } = await db.pool.query<{ pid: number }>("select pg_backend_pid() as pid");
  return rows[0]!.pid;
}

/** Fills one table, and tells what each million costs. */
async function grow(server: Server, upTo: number, batch: number): Promise<void> {
  const step = 250_000;
  const store = await server.createStore("growing", new Date(Date.UTC(2026, 10, 1)));
  const storeBatch = await persistInto(store);
  const rates: number[] = [];
  for (let first = 0; first < upTo; first += step) {
    const events = createEvents(first, step);
    const round = await load(store, { events, lanes: lanesOf(events, batch) }, storeBatch, true);
    rates.push(round.perSecond);
    const sizes = await sizesOf(store);
    const bytes = [...sizes.values()].reduce((sum, size) => sum + size, 0) / (first + step);
    process.stdout.write(
      `${(first + step).toLocaleString("en")} rows: ${round.perSecond.toFixed(0)} events/s; CPU µs: client ${round.client.toFixed(1)}, its backend ${round.writer?.toFixed(1)}, the index role's ${round.index?.toFixed(1)}; ${bytes.toFixed(0)} B an event; load ${describeLoad()}\n`,
    );
  }
  const million = (from: number): number => spreadOf(rates.slice(from, from + 4)).median;
  const ratio = million(rates.length - 4) / million(0);
  printRow({
    what: `the cost stays: the last million of ${upTo.toLocaleString("en")} against the first`,
    measured: `${million(rates.length - 4).toFixed(0)} events/s`,
    limit: `${million(0).toFixed(0)} events/s`,
    ratio: `${(ratio * 100).toFixed(1)} %`,
    target: "≥ 90 %",
    isMet: ratio >= 0.9,
  });
}

function lanesOf(events: readonly StoredEvent[], batch: number): Backlog["lanes"] {
  return Array.from({ length: LOG_PARTITIONS }, (_, lane) => {
    const mine = events.filter(({ position }) => position.partition === lane);
    return batchesOf(mine, batch);
  });
}

function inOneLane({ events }: Backlog): Backlog {
  return { events, lanes: [batchesOf(events, 10_000)] };
}

function batchesOf(events: readonly StoredEvent[], batch: number): StoredEvent[][] {
  return Array.from({ length: Math.ceil(events.length / batch) }, (_, index) =>
    events.slice(index * batch, (index + 1) * batch),
  );
}
