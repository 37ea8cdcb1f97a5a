import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";

import { type StoredEvent } from "#core/event.ts";
import { insertEvents, occurredAt } from "#postgres/events.ts";
import { QueryTimeoutError } from "#postgres/failures.ts";
import { type Cursor, type EventOrder, getEvent, searchEvents } from "#postgres/search.ts";
import { transaction } from "#postgres/tx.ts";

import { openDatabase, sketchEvent, useDatabase } from "./fixture.ts";

const suite = useDatabase();
const insert = (events: readonly StoredEvent[]): Promise<unknown> =>
  transaction(suite.db, (tx) => insertEvents(tx, events));

const ALL = { filter: undefined, now: 0 };

/** Every page of a search, one after another. */
async function allPages(order: EventOrder, limit: number): Promise<string[]> {
  const ids: string[] = [];
  let after: Cursor | undefined;
  for (;;) {
    const page = await searchEvents(suite.db, { ...ALL, order, after, limit });
    ids.push(...page.map(({ event }) => event.id));
    expect(page.length).toBeLessThanOrEqual(limit);
    const last = page.at(-1);
    if (last === undefined) return ids;
    const { partition, offset } = last.position;
    after = { occurredAt: occurredAt(last), partition, offset };
  }
}

test("pages in either order are the whole list, each event once, equal times by partition and offset", async () => {
  // Few moments, so that many events share one, and some in other months and in the default partition.
  const moments = [
    "2026-11-30T10:00:00Z",
    "2026-11-30T10:00:00.000001Z",
    "2026-10-31T23:59:59.999999Z",
    "1980-01-01T00:00:00Z",
  ];
  const place = fc.record({
    time: fc.constantFrom(...moments, undefined),
    acceptTime: fc.constantFrom(1_796_000_000_000, 1_796_000_000_001),
    partition: fc.integer({ min: 0, max: 3 }),
    offset: fc.bigInt({ min: 0n, max: 30n }),
  });
  const places = fc.uniqueArray(place, {
    maxLength: 60,
    selector: ({ partition, offset }) => `${partition} ${offset}`,
  });
  await fc.assert(
    fc.asyncProperty(places, fc.integer({ min: 1, max: 20 }), async (sketches, limit) => {
      await suite.db.pool.query("truncate events.event");
      const events = sketches.map(sketchEvent);
      await insert(events);
      const expected = events
        .toSorted((a, b) =>
          Number(
            occurredAt(a) - occurredAt(b) ||
              BigInt(a.position.partition - b.position.partition) ||
              a.position.offset - b.position.offset,
          ),
        )
        .map(({ event }) => event.id);
      expect(await allPages("time", limit)).toEqual(expected);
      expect(await allPages("time desc", limit)).toEqual(expected.toReversed());
    }),
    { numRuns: 30 },
  );
});

test("a cursor need not be an event's: an event that came since is neither missed after it nor repeated before it", async () => {
  await suite.db.pool.query("truncate events.event");
  const time = "2026-11-30T10:00:00Z";
  await insert([1n, 3n].map((offset) => sketchEvent({ offset, time, id: `at ${offset}` })));
  const after = { occurredAt: 1_796_032_800_000_000n, partition: 0, offset: 1n };
  await insert([0n, 2n].map((offset) => sketchEvent({ offset, time, id: `at ${offset}` })));
  const page = await searchEvents(suite.db, { ...ALL, order: "time", after, limit: 10 });
  expect(page.map(({ event }) => event.id)).toEqual(["at 2", "at 3"]);
});

test.each([2n ** 63n - 1n, 2n ** 70n, 9_224_318_016_000_000_000n])(
  "a time that PostgreSQL cannot hold (%s) is before or after everything",
  async (time) => {
    await suite.db.pool.query("truncate events.event");
    const event = sketchEvent({ offset: 1n, source: "/now", id: "x" });
    await insert([event]);
    const from = (occurredAt: bigint, order: EventOrder): Promise<readonly unknown[]> =>
      searchEvents(suite.db, { ...ALL, order, after: { occurredAt, partition: 0, offset: 0n }, limit: 10 });
    expect(await from(time, "time")).toEqual([]);
    expect(await from(time, "time desc")).toHaveLength(1);
    expect(await from(-time, "time")).toHaveLength(1);
    expect(await from(-time, "time desc")).toEqual([]);
    expect(await getEvent(suite.db, { source: "/now", id: "x", time })).toBeUndefined();
  },
);

test("of events that share a name the first accepted is given, with the others' times, oldest first", async () => {
  const named = (time: string, acceptTime: number, offset: bigint): StoredEvent =>
    sketchEvent({ source: "/named", id: "x", time, acceptTime, offset });
  const [late, early, tied] = [
    named("2026-11-01T00:00:00Z", 2_000, 1n),
    named("2026-11-03T00:00:00.000001Z", 1_000, 7n),
    named("2026-11-02T00:00:00Z", 1_000, 8n),
  ];
  await insert([late, early, tied]);
  const first = await getEvent(suite.db, { source: "/named", id: "x" });
  expect(first).toEqual({ event: early, dataSize: 0, otherTimes: [occurredAt(late), occurredAt(tied)] });
  const other = await getEvent(suite.db, { source: "/named", id: "x", time: occurredAt(late) });
  expect(other).toEqual({ event: late, dataSize: 0, otherTimes: [occurredAt(tied), occurredAt(early)] });
});

test("at most 100 other times are listed, the oldest", async () => {
  const seconds = Array.from({ length: 120 }, (_, index) => 1_796_000_000 + index);
  await insert(
    seconds.map((second, index) =>
      sketchEvent({
        source: "/many",
        id: "x",
        offset: BigInt(index),
        time: new Date(second * 1_000).toISOString(),
      }),
    ),
  );
  const found = await getEvent(suite.db, {
    source: "/many",
    id: "x",
    time: BigInt(seconds[0]!) * 1_000_000n,
  });
  expect(found?.otherTimes).toEqual(seconds.slice(1, 101).map((second) => BigInt(second) * 1_000_000n));
});

test("what is not there is undefined", async () => {
  await insert([sketchEvent({ source: "/there", id: "x", offset: 0n })]);
  for (const key of [
    { source: "/there", id: "y" },
    { source: "/the", id: "rex" },
    { source: "/there", id: "x", time: 1n },
  ])
    expect(await getEvent(suite.db, key)).toBeUndefined();
});

test("lists read no payload", async () => {
  await using db = openDatabase(suite.url, { poolSize: 1 }); // one connection, whose counters are flushed below
  const event = sketchEvent({ source: "/large", id: "x", offset: 0n, data: randomBytes(200_000) });
  await insert([event]);
  const payloadBlocks = async (): Promise<number> => {
    await db.pool.query("select pg_stat_force_next_flush()");
    const { rows } = await db.pool.query<{ blocks: number }>(
      `select sum(toast_blks_read + toast_blks_hit)::int as blocks from pg_statio_all_tables
       where schemaname = 'events'`,
    );
    return rows[0]!.blocks;
  };
  const before = await payloadBlocks();
  const page = await searchEvents(db, { ...ALL, order: "time desc", after: undefined, limit: 500 });
  expect(page.map(({ dataSize }) => dataSize)).toContain(200_000);
  expect(await payloadBlocks()).toBe(before);
  expect((await getEvent(db, { source: "/large", id: "x" }))?.event).toEqual(event);
  expect(await payloadBlocks()).toBeGreaterThan(before);
});

test("a search that runs into the pool's bound fails as a timeout, as does a read of one event", async () => {
  await using db = openDatabase(suite.url, { readOnly: true, statementTimeoutMs: 200 });
  const holder = await suite.db.pool.connect();
  await holder.query("begin");
  await holder.query("lock table events.event in access exclusive mode");
  const searched = searchEvents(db, { ...ALL, order: "time", after: undefined, limit: 1 });
  await expect(searched).rejects.toBeInstanceOf(QueryTimeoutError);
  await expect(getEvent(db, { source: "/a", id: "b" })).rejects.toBeInstanceOf(QueryTimeoutError);
  await holder.query("rollback");
  holder.release();
  expect(await searchEvents(db, { ...ALL, order: "time", after: undefined, limit: 1 })).toHaveLength(1);
});
