import { Code } from "@connectrpc/connect";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";

import { Severity } from "#gen/weir/v1/event_pb.ts";
import { type GetOverviewResponse } from "#gen/weir/v1/overview_pb.ts";
import { type Claim, persistBatch, takeOver } from "#postgres/claims.ts";
import { type Database } from "#postgres/pool.ts";
import { MAX_VALUES, rollUp } from "#postgres/roll-up.ts";
import { MAX_TAIL } from "#postgres/rollup-counts.ts";

import { type EventSketch, openDatabase, sketchEvent } from "../postgres/fixture.ts";
import { startWeir, type Weir } from "../support/weir.ts";
import { type Clients, createClients, PROTOCOLS, refusalOf } from "./clients.ts";

const HOUR_MS = 3_600_000;
/** The end of the present hour. */
const endNow = (): number => Math.ceil(Date.now() / HOUR_MS) * HOUR_MS;
const END = endNow();
const LAST_DAY = { endTime: timestampFromMs(END) };

let weir: Weir;
let database: Database;
let clients: Clients;
beforeAll(async () => {
  weir = await startWeir();
  database = openDatabase(weir.databaseUrl);
  clients = createClients(weir.baseUrl, await weir.token({ scope: "events.read" }));
});
afterAll(async () => {
  await database[Symbol.asyncDispose]();
  await weir[Symbol.asyncDispose]();
});

let claim: Claim;
let next = 0n;
beforeEach(async () => {
  await database.pool.query("truncate events.event, events.rollup, events.rollup_era, consumer.checkpoint");
  claim = await takeOver(database, { group: "g", topic: "events", partition: 0, owner: "test" });
  next = 0n;
});

/** Stores events as the persist role does. */
async function store(sketches: readonly Omit<EventSketch, "offset">[], skipped = 0): Promise<void> {
  const events = sketches.map((each, index) => sketchEvent({ ...each, offset: next + BigInt(index) }));
  next += BigInt(events.length + skipped);
  await persistBatch(database, claim, { events, deadLetters: [], skips: [], nextOffset: next });
}

async function rollUpAll(): Promise<void> {
  while ((await rollUp(database))!.lag > 0) continue;
}

/** So many hours before the end of the present one. */
const at = (hours: number): string => new Date(END - hours * HOUR_MS).toISOString();
const severity = (text: string): ReadonlyMap<string, string> => new Map([["severitytext", text]]);
const values = (list: GetOverviewResponse["types"]): [string, bigint][] =>
  list.map(({ value, count }) => [value, count]);

const SOME: readonly Omit<EventSketch, "offset">[] = [
  {
    time: at(0.5),
    type: "a",
    source: "/1",
    id: "newest",
    extensions: severity("ERROR"),
    data: Buffer.from("x"),
  },
  { time: at(1.5), type: "a", source: "/2", extensions: severity("WARN") },
  { time: at(1.2), type: "b", source: "/2" },
  { time: at(23.5), type: "a", source: "/2", id: "oldest", extensions: severity("FATAL2") },
  { time: at(24.5), type: "c", source: "/3", extensions: severity("ERROR") },
];

describe.each([
  ["nothing was summed up", async (): Promise<void> => store(SOME)],
  [
    "some was",
    async (): Promise<void> => {
      await store(SOME.slice(0, 2));
      await rollUpAll();
      await store(SOME.slice(2));
    },
  ],
  [
    "all was",
    async (): Promise<void> => {
      await store(SOME);
      await rollUpAll();
    },
  ],
])("where %s", (_, fill) => {
  beforeEach(fill);

  test("it has the 24 hours before the end, every event counted", async () => {
    const overview = await clients.overview.getOverview(LAST_DAY);
    expect([overview.startTime, overview.endTime].map((time) => timestampMs(time!))).toEqual([
      END - 24 * HOUR_MS,
      END,
    ]);
    expect(overview).toMatchObject({ count: 4n, errorCount: 2n, otherTypesCount: 0n, otherSourcesCount: 0n });
    expect(overview.staleness).toMatchObject({ seconds: 0n, nanos: 0 });
    expect(values(overview.types)).toEqual([
      ["a", 3n],
      ["b", 1n],
    ]);
    expect(values(overview.sources)).toEqual([
      ["/2", 3n],
      ["/1", 1n],
    ]);
    expect(overview.alerts.map(({ cloudEvent }) => cloudEvent!.id)).toEqual(["newest", "oldest"]);
    expect(overview.alerts[0]).toMatchObject({ dataSize: 1n, cloudEvent: { data: { case: undefined } } });

    const { interval, buckets } = overview.histogram!;
    expect(interval).toMatchObject({ seconds: 3_600n });
    expect(buckets.map(({ startTime }) => timestampMs(startTime!))).toEqual(
      Array.from({ length: 24 }, (_hour, index) => END - (24 - index) * HOUR_MS),
    );
    const filled = buckets.flatMap(({ count, countBySeverity }, index) =>
      count === 0n ? [] : [[index, count, countBySeverity.map((each) => [each.severity, each.count])]],
    );
    expect(filled).toEqual([
      [0, 1n, [[Severity.FATAL, 1n]]],
      [
        22,
        2n,
        [
          [Severity.UNSPECIFIED, 1n],
          [Severity.WARN, 1n],
        ],
      ],
      [23, 1n, [[Severity.ERROR, 1n]]],
    ]);
  });

  test("it has another range, in whole hours", async () => {
    const { count, errorCount, startTime, endTime, alerts } = await clients.overview.getOverview({
      startTime: timestampFromMs(END - 24.2 * HOUR_MS),
      endTime: timestampFromMs(END - 1.1 * HOUR_MS),
    });
    expect([startTime, endTime].map((time) => (END - timestampMs(time!)) / HOUR_MS)).toEqual([25, 1]);
    expect({ count, errorCount, alerts: alerts.length }).toEqual({ count: 4n, errorCount: 2n, alerts: 2 });
  });

  test("a long range has longer intervals, and a range without events nothing", async () => {
    const long = await clients.overview.getOverview({
      ...LAST_DAY,
      startTime: timestampFromMs(END - 400 * 24 * HOUR_MS),
    });
    expect(long).toMatchObject({ count: 5n, errorCount: 3n });
    expect(long.histogram!.interval).toMatchObject({ seconds: 7n * 86_400n });
    expect(long.histogram!.buckets.length).toBeLessThanOrEqual(59);
    expect(long.histogram!.buckets.reduce((sum, { count }) => sum + count, 0n)).toBe(5n);
    const none = await clients.overview.getOverview({
      startTime: timestampFromMs(END - 100 * HOUR_MS),
      endTime: timestampFromMs(END - 90 * HOUR_MS),
    });
    expect(none).toMatchObject({
      count: 0n,
      errorCount: 0n,
      types: [],
      sources: [],
      alerts: [],
      staleness: { seconds: 0n },
    });
    expect(none.histogram!.buckets).toHaveLength(10);
  });
});

test("without a range it has the hours up to now", async () => {
  const before = endNow();
  const { startTime, endTime } = await clients.overview.getOverview({});
  expect([before, endNow()]).toContain(timestampMs(endTime!));
  expect(timestampMs(endTime!) - timestampMs(startTime!)).toBe(24 * HOUR_MS);
});

test("types and sources are 20 at most, the most frequent first, and so are the alerts", async () => {
  await store(
    Array.from({ length: 25 * 13 }, (_, index) => {
      const kind = Math.floor((Math.sqrt(8 * index + 1) - 1) / 2);
      return { time: at(1.5), type: `t${kind}`, source: `/${kind}`, extensions: severity("FATAL") };
    }),
  );
  const { types, sources, alerts } = await clients.overview.getOverview(LAST_DAY);
  const expected = Array.from({ length: 20 }, (_, index) => 24 - index);
  expect(values(types)).toEqual(expected.map((kind) => [`t${kind}`, BigInt(kind + 1)]));
  expect(values(sources)).toEqual(expected.map((kind) => [`/${kind}`, BigInt(kind + 1)]));
  expect(alerts).toHaveLength(20);
});

test("sources that are not kept apart are counted beside", async () => {
  await store(
    Array.from({ length: MAX_VALUES + 7 }, (_, index) => ({ time: at(1.5), type: "t", source: `/${index}` })),
  );
  await rollUpAll();
  const { count, types, otherTypesCount, otherSourcesCount } = await clients.overview.getOverview(LAST_DAY);
  expect({ count, types: values(types), otherTypesCount, otherSourcesCount }).toEqual({
    count: BigInt(MAX_VALUES + 7),
    types: [["t", BigInt(MAX_VALUES + 7)]],
    otherTypesCount: 0n,
    otherSourcesCount: 7n,
  });
});

test("behind a backlog it says how old it is, or that nothing was ever complete", async () => {
  await store([{ time: at(1.5) }], MAX_TAIL);
  const never = await clients.overview.getOverview(LAST_DAY);
  expect(never.count).toBe(0n);
  expect(never.staleness).toBeUndefined();

  await rollUpAll();
  await database.pool.query("update events.rollup_era set summed_at = summed_at - interval '1 hour'");
  await store([{ time: at(1.5) }, { time: at(2.5) }], MAX_TAIL);
  const stale = await clients.overview.getOverview(LAST_DAY);
  expect(stale.count).toBe(1n);
  expect(Number(stale.staleness!.seconds)).toBeGreaterThanOrEqual(3_600);
  expect(Number(stale.staleness!.seconds)).toBeLessThan(3_700);

  await rollUpAll();
  expect(await clients.overview.getOverview(LAST_DAY)).toMatchObject({
    count: 3n,
    staleness: { seconds: 0n, nanos: 0 },
  });
});

test.each(PROTOCOLS)("it is served over %s", async (protocol) => {
  await store(SOME);
  const { overview } = createClients(weir.baseUrl, await weir.token({ scope: "events.read" }), protocol);
  expect(await overview.getOverview(LAST_DAY)).toMatchObject({ count: 4n });
});

test.each([
  ["a range that is empty", { startTime: timestampFromMs(END), endTime: timestampFromMs(END) }, "empty"],
  ["a start in the future", { startTime: timestampFromMs(END + HOUR_MS) }, "empty"],
  [
    "a range of more than 400 days",
    { startTime: timestampFromMs(END - 9_601 * HOUR_MS), endTime: timestampFromMs(END) },
    "longer than 400 days",
  ],
  ["a time beyond the year 9999", { endTime: { seconds: 2n ** 40n, nanos: 0 } }, "years 0001 to 9999"],
] as const)("%s is refused", async (_, request, text) => {
  const refusal = await refusalOf(clients.overview.getOverview(request));
  expect(refusal).toMatchObject({ code: Code.InvalidArgument, reason: "INVALID_REQUEST" });
  expect(JSON.stringify(refusal.violations)).toContain(text);
});

test("it wants the scope events.read", async () => {
  const { overview } = createClients(weir.baseUrl, await weir.token({ scope: "events.write" }));
  expect(await refusalOf(overview.getOverview(LAST_DAY))).toMatchObject({ code: Code.PermissionDenied });
});
