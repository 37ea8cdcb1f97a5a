import { beforeAll, expect, test } from "vitest";

import { parseFilter } from "#core/filter/parse.ts";
import { takeOver } from "#postgres/claims.ts";
import { insertEvents } from "#postgres/events.ts";
import { type Database } from "#postgres/pool.ts";
import { getEvent, type Question, SEARCH_SETTINGS, searchEvents } from "#postgres/search.ts";
import { rollUp } from "#postgres/roll-up.ts";
import { countEvents, type FacetField, facetEvents, histogramEvents } from "#postgres/summaries.ts";
import { mergeTerms } from "#postgres/term-index.ts";
import { transaction } from "#postgres/tx.ts";

import { recordStatements } from "../support/recorded-statements.ts";
import { openDatabase, sketchEvent, useDatabase } from "./fixture.ts";

// Which indexes serve the questions of people who look for events, on a table that is large enough that it matters: 60,000
// events of 90 days. What PostgreSQL would do is asked of it with the very statements that are sent.

const suite = useDatabase();

const NOW = Date.now();
const DAY_MS = 86_400_000;
const TEMPLATES = 2_000;
/** Each template happens again every three days. */
const COPIES = 30;

let db: Database;

beforeAll(async () => {
  db = openDatabase(suite.url, { settings: SEARCH_SETTINGS });
  const events = Array.from({ length: TEMPLATES }, (_, index) =>
    sketchEvent({
      offset: BigInt(index),
      partition: index % 12,
      id: `id${index}`,
      type: index % 3 === 0 ? "com.acme.order.paid" : `com.acme.stock${index % 90}.moved`,
      source: `/acme/shop-${index % 60}`,
      time: new Date(NOW - ((index + 1) * 3 * DAY_MS) / TEMPLATES).toISOString(),
      extensions: new Map([
        ["severitytext", index % 100 === 0 ? "ERROR" : "INFO"],
        ["tags", index % 500 === 1 ? "rare" : "usual"],
        ["tenant", `t${index % 120}`],
      ]),
      datacontenttype: "application/json",
      data: Buffer.from(
        JSON.stringify({
          amount: index % 1_000,
          weight: index,
          status: index % 2 === 0 ? "open" : "paid",
          voucher: `v${index}`,
          note: `parcel ${index % 400 === 7 ? "zeppelin" : "bicycle"} ${index % 300 === 7 ? "quartz" : "granite"} ${index === 77 ? "needlehay" : ""}`,
        }),
      ),
    }),
  );
  await transaction(suite.db, (tx) => insertEvents(tx, events));
  const { rows } = await suite.db.pool.query<{ name: string }>(
    "select attname as name from pg_attribute where attrelid = 'events.event'::regclass and attnum > 0 and not attisdropped",
  );
  const again = new Map([
    ["occurred_at", "occurred_at - copy * interval '3 days'"],
    ["offset", `"offset" + copy * ${TEMPLATES}`],
    ["id", "id || '-' || copy"],
  ]);
  const columns = rows.map(({ name }) => `"${name}"`).join(", ");
  const values = rows.map(({ name }) => again.get(name) ?? `"${name}"`).join(", ");
  await suite.db.pool.query(
    `insert into events.event (${columns}) select ${values} from events.event, generate_series(1, ${COPIES - 1}) as copy`,
  );
  await mergeTerms(suite.db);
  await suite.db.pool.query("analyze events.event");
  return () => db[Symbol.asyncDispose]();
}, 60_000);

interface Node {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Index Name"?: string;
  readonly "Actual Loops": number;
  /** On average of a loop. */
  readonly "Actual Rows": number;
  readonly "Rows Removed by Filter"?: number;
  readonly Plans?: readonly Node[];
}

/** What ran of the plans of the statements that something sends: a part of a statement may have nothing left to do. */
async function nodesOf(asking: (db: Database) => Promise<unknown>): Promise<readonly Node[]> {
  const recorded = recordStatements(db);
  await asking(recorded);
  const nodes: Node[] = [];
  for (const { text, values } of recorded.statements.filter((each) => !each.text.includes("pg_stats"))) {
    const { rows } = await db.pool.query<{ "QUERY PLAN": readonly { readonly Plan: Node }[] }>({
      text: `explain (analyze, timing off, format json) ${text}`,
      values: [...(values ?? [])],
    });
    visit(rows[0]!["QUERY PLAN"][0]!.Plan);
  }
  function visit(node: Node): void {
    if (node["Actual Loops"] === 0) return;
    nodes.push(node);
    node.Plans?.forEach(visit);
  }
  expect(nodes.length).toBeGreaterThan(0);
  return nodes;
}

/** The indexes of events that are used, by the names that those of the whole table have, each once. */
async function indexesOf(nodes: readonly Node[]): Promise<readonly string[]> {
  expect(
    nodes.filter((node) => node["Node Type"] === "Seq Scan" && node["Relation Name"]?.startsWith("event")),
  ).toEqual([]);
  const names = nodes.flatMap((node) => node["Index Name"] ?? []).filter((name) => !isEmptyMonth(name));
  const { rows } = await suite.db.pool.query<{ name: string }>({
    text: `select distinct parent.relname as name from pg_class c join pg_inherits on inhrelid = c.oid join pg_class parent on parent.oid = inhparent
      where c.relname = any($1) order by 1`,
    values: [names],
  });
  return rows.map(({ name }) => name);
}

/** Of partitions without rows, any index is as good. */
function isEmptyMonth(index: string): boolean {
  return (
    index.startsWith("event_default") || monthsOf().every((month) => !index.startsWith(`event_${month}`))
  );
}

/** The months that have events, newest first. */
function monthsOf(days = 90): readonly string[] {
  const months = Array.from({ length: days + 1 }, (_, day) =>
    new Date(NOW - day * DAY_MS).toISOString().slice(0, 7).replace("-", "_"),
  );
  return [...new Set(months)];
}

/** The months of events that are looked into, newest first. */
function looked(nodes: readonly Node[]): readonly string[] {
  const names = nodes.flatMap((node) => node["Relation Name"] ?? []);
  return monthsOf().filter((month) => names.includes(`event_${month}`));
}

/** How many events were read. */
function rowsRead(nodes: readonly Node[]): number {
  return nodes
    .filter((node) => node["Relation Name"]?.startsWith("event_"))
    .reduce(
      (sum, node) =>
        sum + (node["Actual Rows"] + (node["Rows Removed by Filter"] ?? 0)) * node["Actual Loops"],
      0,
    );
}

function question(filter: string): Question {
  const parsed = parseFilter(filter);
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.faults));
  return { filter: parsed.value, now: NOW };
}

const page =
  (filter: string, days?: number) =>
  (at: Database): Promise<unknown> => {
    const after =
      days === undefined
        ? undefined
        : { occurredAt: BigInt(NOW - days * DAY_MS) * 1_000n, partition: 0, offset: 0n };
    return searchEvents(at, { ...question(filter), order: "time desc", after, limit: 51 });
  };

const FIELDS: readonly FacetField[] = ["type", "source", "subject", "severity", "tags", "ext.tenant"];

// At the start of each month one event is read, to see that the newest is not there.
const MONTHS = 10;

test.each([
  ["a frequent type", 'type = "com.acme.order.paid"'],
  ["a frequent tag", "tags:usual"],
  ["a frequent value of a payload", 'data.status = "open"'],
  ["two frequent words", "parcel bicycle"],
  ["everything", ""],
  ["what an event has not", "NOT tags:rare"],
])("a page of %s is walked to in its order, and no further", async (_, filter) => {
  const nodes = await nodesOf(page(filter));
  expect(await indexesOf(nodes)).toEqual(["event_page_idx"]);
  expect(rowsRead(nodes)).toBeLessThan(1_000);
});

test.each([
  ["a rare type", 'type = "com.acme.stock7.moved"'],
  ["a source", 'source = "/acme/shop-7"'],
  ["a severity", "severity >= ERROR"],
  ["a rare tag", "tags:rare"],
  ["an extension", 'ext.tenant = "t7"'],
  ["a value of a payload", 'data.voucher = "v7"'],
  ["a number of a payload", "data.weight = 7"],
  ["two words of which one is rare", "parcel zeppelin"],
  ["a phrase", '"zeppelin quartz"'],
  ["a needle", "needlehay"],
  ["a word that no event has", "nobodyeversaidthis"],
  ["an event by its id", 'id = "id77"'],
])("a page of %s is gathered by the index of terms", async (_, filter) => {
  expect(await indexesOf(await nodesOf(page(filter)))).toEqual(["event_terms_idx"]);
});

test.each([
  ["a frequent type", 'type = "com.acme.order.paid"', ["event_page_idx"]],
  ["a source", 'source = "/acme/shop-7"', ["event_terms_idx"]],
  ["everything", "", ["event_page_idx"]],
])("a later page of %s leaves out the months that are newer", async (_, filter, indexes) => {
  const nodes = await nodesOf(page(filter, 65));
  const used = await indexesOf(nodes);
  expect(used.filter((name) => name !== "event_page_idx")).toEqual(
    indexes.filter((name) => name !== "event_page_idx"),
  );
  const newer = monthsOf(64).slice(0, -1);
  expect(looked(nodes).filter((month) => newer.includes(month))).toEqual([]);
  expect(looked(nodes)).not.toEqual([]);
});

test.each([
  ["a type by a glob", 'type = "com.acme.order.*"'],
  ["a source by a glob", 'source = "/acme/shop-*"'],
  ["a type that is rare, by a glob", 'type = "com.acme.stock7.*"'],
  ["a number that is compared", "data.amount > 900"],
  ["an element of any array", "data.items[*].qty > 3"],
])("a page of %s in a stretch of time looks into its months alone", async (_, condition) => {
  const [from, before] = [50, 45].map((days) => new Date(NOW - days * DAY_MS).toISOString());
  const nodes = await nodesOf(page(`${condition} time >= "${from}" time < "${before}"`));
  await indexesOf(nodes);
  const months = [from!, before!].map((moment) => moment.slice(0, 7).replace("-", "_"));
  expect(looked(nodes)).toEqual([...new Set(months)].toSorted().toReversed());
});

test("facets, histogram and total of a day look into its months alone, by an index", async () => {
  const day = question('type = "com.acme.order.paid" time >= now-1d');
  const nodes = [
    ...(await nodesOf((at) => facetEvents(at, { ...day, fields: FIELDS, candidates: 50_000, values: 20 }))),
    ...(await nodesOf((at) => histogramEvents(at, day))),
    ...(await nodesOf((at) => countEvents(at, { ...day, limit: 10_001 }))),
  ];
  await indexesOf(nodes);
  const months = monthsOf(1);
  expect(looked(nodes).filter((month) => !months.includes(month))).toEqual([]);
});

test("facets and total of everything walk no further than they count", async () => {
  const all = question("");
  const total = await nodesOf((at) => countEvents(at, { ...all, limit: 101 }));
  expect(await indexesOf(total)).toEqual(["event_page_idx"]);
  expect(rowsRead(total)).toBeLessThanOrEqual(101 + MONTHS);
  const facets = await nodesOf((at) =>
    facetEvents(at, { ...all, fields: FIELDS, candidates: 100, values: 20 }),
  );
  expect(await indexesOf(facets)).toEqual(["event_page_idx"]);
  expect(rowsRead(facets)).toBeLessThanOrEqual(101 + MONTHS);
});

test("a histogram of everything reads the sums by hour alone", async () => {
  for (let partition = 0; partition < 12; partition++) {
    await takeOver(suite.db, { group: "test", topic: "events", partition, owner: "test" });
    await suite.db.pool.query({
      text: "update consumer.checkpoint set next_offset = $1, high_water = $1 where partition = $2",
      values: [TEMPLATES * COPIES, partition],
    });
  }
  while ((await rollUp(suite.db))!.lag > 0);
  await suite.db.pool.query("analyze events.rollup");
  const nodes = await nodesOf((at) => histogramEvents(at, question("")));
  expect(rowsRead(nodes)).toBe(0);
  expect(nodes.map((node) => node["Index Name"])).toContain("rollup_pkey");
});

test("an event is got by the term of its id, and with its time by the key", async () => {
  const { rows } = await suite.db.pool.query<{ source: string; micros: string }>(
    "select source, (extract(epoch from occurred_at) * 1000000)::int8 as micros from events.event where id = 'id7-3'",
  );
  const { source, micros } = rows[0]!;
  expect(await indexesOf(await nodesOf((at) => getEvent(at, { source, id: "id7" })))).toEqual([
    "event_terms_idx",
  ]);
  const keyed = await nodesOf((at) => getEvent(at, { source, id: "id7-3", time: BigInt(micros) }));
  expect(await indexesOf(keyed)).toEqual(["event_pkey", "event_terms_idx"]);
});
