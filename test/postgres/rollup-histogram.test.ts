import { beforeAll, describe, expect, test } from "vitest";

import { type Filter } from "#core/filter/tree.ts";
import { parseFilter } from "#core/filter/parse.ts";
import { type Claim, persistBatch, takeOver } from "#postgres/claims.ts";
import { compileFilter } from "#postgres/filter.ts";
import { createParameters } from "#postgres/parameters.ts";
import { MAX_VALUES, rollUp } from "#postgres/roll-up.ts";
import { MAX_TAIL } from "#postgres/rollup-counts.ts";
import { histogramFromRollups, type HistogramRow, type Ladder } from "#postgres/rollup-histogram.ts";

import { sketchEvent, useDatabase } from "./fixture.ts";

const suite = useDatabase();
const DAY = 86_400;
const LADDER: Ladder = {
  intervals: [1_800, 3_600, 10_800, 21_600, 43_200, DAY, 7 * DAY, 30 * DAY],
  maxBuckets: 120,
};
const NOW = Date.UTC(2026, 10, 28, 10, 20, 30);

let claim: Claim;
let next = 0;
beforeAll(async () => {
  claim = await takeOver(suite.db, { group: "g", topic: "events", partition: 0, owner: "test" });
});

/** Stores events of the last days, each at a time of its own, the same ones for the same count. */
async function store(count: number, days = 30): Promise<void> {
  const events = Array.from({ length: count }, (_, index) => {
    const at = next + index;
    return sketchEvent({
      offset: BigInt(at),
      time: new Date(NOW - ((at * 7_919_777) % (days * DAY * 1_000))).toISOString(),
      type: `t.${at % 5}`,
      source: `/s/${at % 3}`,
      extensions: new Map(at % 26 === 0 ? [] : [["severitynumber", String(at % 26)]]),
    });
  });
  next += count;
  await persistBatch(suite.db, claim, { events, deadLetters: [], skips: [], nextOffset: BigInt(next) });
}

function toFilter(text: string): Filter | undefined {
  const parsed = parseFilter(text);
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.faults));
  return parsed.value;
}

const ask = (text: string): Promise<readonly HistogramRow[] | undefined> =>
  histogramFromRollups(suite.db, { filter: toFilter(text), now: NOW }, LADDER);

/** The same, counted from the events: interval, bucket, severity (0: none), count. */
async function count(text: string): Promise<number[][]> {
  const filter = toFilter(text);
  const parameters = createParameters();
  const matches = filter === undefined ? "true" : compileFilter(filter, { parameters, now: NOW });
  const { rows } = await suite.db.pool.query<{ at: number; severity: number | null }>(
    `select floor(extract(epoch from occurred_at))::float8 as at, severity from events.event where ${matches}`,
    [...parameters.values],
  );
  const times = rows.map(({ at }) => at);
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const interval = LADDER.intervals.find((each) => Math.floor(last / each) - Math.floor(first / each) < 120)!;
  const counts = new Map<string, number>();
  for (const { at, severity } of rows) {
    const key = `${interval} ${Math.floor(at / interval)} ${severity === null ? 0 : severity - ((severity - 1) % 4)}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return [...counts]
    .map(([key, events]) => [...key.split(" ").map(Number), events])
    .toSorted((x, y) => x[1]! - y[1]! || x[2]! - y[2]!);
}

const sorted = (rows: readonly HistogramRow[]): number[][] =>
  rows
    .map(({ interval, bucket, severity, count: events }) => [interval, bucket, severity, events].map(Number))
    .toSorted((a, b) => a[1]! - b[1]! || a[2]! - b[2]!);

const ANSWERED: readonly string[] = [
  "",
  "type = t.1",
  'type = "t.*" AND NOT type = t.2',
  "source = /s/1 OR source > /s/1",
  "source = /s/1 AND (severity >= ERROR OR NOT source = /s/1)",
  "severity >= WARN",
  "severity = ERROR",
  "severity < INFO",
  "NOT severity:*",
  "time >= now-7d",
  "time > now-7d time < now-1d severity > DEBUG",
  "time >= 2026-11-20T00:00:00Z",
  "time >= 2026-11-20T00:30:00.000001Z time <= 2026-11-27T23:59:59.999999Z",
  "type = none",
];

describe.each([
  ["of which nothing is summed up", 0],
  ["of which some are summed up", 1],
  ["of which all are summed up", 2],
] as const)("of events %s", (_, rolled) => {
  beforeAll(async () => {
    await store(700);
    if (rolled > 0) await rollUp(suite.db);
    if (rolled === 1) await store(300);
  });

  test.each(ANSWERED)("%j is answered as by counting the events", async (filter) => {
    expect(sorted((await ask(filter))!)).toEqual(await count(filter));
  });

  test.each([
    "id = x",
    "source = /s/1 OR type > t.3",
    "severity = 13",
    "severity >= 14",
    "severity <= 13",
    "type = t.1 word",
    "receive_time > now-7d",
    "time > now-7d OR type = t.1",
    "NOT time > now-7d",
    "data.x = 1",
    "time >= now-2d",
    "time > now+300d",
    "time >= now-7d time < now-5d",
    "time:*",
  ])("%j is left to the events", async (filter) => {
    expect(await ask(filter)).toBeUndefined();
  });
});

test("an hour of which a part is asked about, and which has many events, is left to them", async () => {
  const insert = (rows: number): Promise<unknown> =>
    suite.db.pool.query(
      `insert into events.event (occurred_at, receive_time, "offset", partition, data_size, source, id, type, topic, principal, tags, extensions, terms)
       select '2026-11-18T10:45:00Z', now(), n, 9, 0, '/edge', n, 'edge', 'events', 'alice', '{}', '{}', '{}' from generate_series(1, $1::int) as n
       on conflict do nothing`,
      [rows],
    );
  await insert(19_000);
  expect(await ask("time >= 2026-11-18T10:30:00Z")).toBeDefined();
  await insert(21_000);
  expect(await ask("time >= 2026-11-18T10:30:00Z")).toBeUndefined();
  expect(await ask("time >= 2026-11-18T11:00:00Z")).toBeDefined();
  await suite.db.pool.query("delete from events.event where source = '/edge'");
});

test("where sources are not kept apart, what asks about them is left to the events", async () => {
  const time = "2026-11-10T10:10:00Z";
  const events = Array.from({ length: MAX_VALUES + 10 }, (_, index) =>
    sketchEvent({ offset: BigInt(next + index), time, type: "many", source: `/m/${index}` }),
  );
  next += events.length;
  await persistBatch(suite.db, claim, { events, deadLetters: [], skips: [], nextOffset: BigInt(next) });
  expect(await ask("source = /s/1")).toBeDefined();
  await rollUp(suite.db);
  expect(await ask("source = /s/1")).toBeUndefined();
  expect(await ask("source = /s/1 time > 2026-11-10T11:00:00Z")).toBeDefined();
  const answer = await ask("type = many OR type = t.1");
  expect(sorted(answer!)).toEqual(await count("type = many OR type = t.1"));
});

test("behind a backlog they are left to the events, until it is summed up", async () => {
  const held = await takeOver(suite.db, { group: "g", topic: "events", partition: 5, owner: "test" });
  const event = sketchEvent({ offset: 0n, partition: 5, time: new Date(NOW).toISOString() });
  const store1 = (nextOffset: number): Promise<unknown> =>
    persistBatch(suite.db, held, {
      events: [event],
      deadLetters: [],
      skips: [],
      nextOffset: BigInt(nextOffset),
    });
  await store1(MAX_TAIL);
  expect(await ask("")).toBeDefined();
  await store1(MAX_TAIL + 1);
  expect(await ask("")).toBeUndefined();
  while ((await rollUp(suite.db))!.lag > 0) continue;
  expect(sorted((await ask(""))!)).toEqual(await count(""));
});

test("a store to which no worker ever came is not asked", async () => {
  await suite.db.pool.query("truncate events.event, events.rollup, events.rollup_era, consumer.checkpoint");
  expect(await ask("")).toBeUndefined();
});
