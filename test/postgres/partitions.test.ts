import { expect, test } from "vitest";

import { type StoredEvent } from "#core/event.ts";
import { insertEvents } from "#postgres/events.ts";
import {
  countDefaultRows,
  countMonthsAhead,
  defaultMonths,
  ensureMonth,
  ensurePartitions,
} from "#postgres/partitions.ts";
import { getEvent } from "#postgres/search.ts";
import { transaction } from "#postgres/tx.ts";

import { openDatabase, sketchEvent, useDatabase } from "./fixture.ts";

const suite = useDatabase();
const insert = (events: readonly StoredEvent[]): Promise<unknown> =>
  transaction(suite.db, (tx) => insertEvents(tx, events));
const partitionOf = async ({ event }: StoredEvent): Promise<string | undefined> => {
  const { rows } = await suite.db.pool.query<{ name: string }>(
    "select tableoid::regclass::text as name from events.event where source = $1 and id = $2",
    [event.source, event.id],
  );
  return rows[0]?.name;
};

test("eight months are made, from four back to three ahead, and only once", async () => {
  const now = new Date("2031-01-31T23:59:59Z");
  const names = ["2030_09", "2030_10", "2030_11", "2030_12", "2031_01", "2031_02", "2031_03", "2031_04"];
  expect(await ensurePartitions(suite.db, now)).toEqual(names.map((name) => `event_${name}`));
  expect(await ensurePartitions(suite.db, now)).toEqual([]);
  expect(await countMonthsAhead(suite.db, now)).toBe(3);
  expect(await countMonthsAhead(suite.db, new Date("2031-04-01T00:00:00Z"))).toBe(0);
  expect(await ensurePartitions(suite.db, new Date("2031-02-01T00:00:00Z"))).toEqual(["event_2031_05"]);
});

test("a month begins and ends with UTC, whatever the time zone of the database", async () => {
  await using db = openDatabase(`${suite.url}?options=-c%20TimeZone=Asia/Kolkata`);
  await ensurePartitions(db, new Date("2041-06-15T00:00:00Z"));
  const at = (time: string, offset: bigint): StoredEvent => sketchEvent({ time, offset });
  const events = [
    at("2041-05-31T23:59:59.999999999Z", 0n),
    at("2041-06-01T00:00:00Z", 1n),
    at("2041-06-30T23:59:59.999999Z", 2n),
    at("2041-07-01T05:29:59+05:30", 3n),
    at("2041-07-01T05:30:00+05:30", 4n),
  ];
  await insert(events);
  expect(await Promise.all(events.map(partitionOf))).toEqual([
    "events.event_2041_05",
    "events.event_2041_06",
    "events.event_2041_06",
    "events.event_2041_06",
    "events.event_2041_07",
  ]);
});

test("processes that make them at once make each once", async () => {
  const now = new Date("2051-06-15T00:00:00Z");
  const made = await Promise.all([1, 2, 3, 4].map(() => ensurePartitions(suite.db, now)));
  expect(made.flat().toSorted()).toEqual([2, 3, 4, 5, 6, 7, 8, 9].map((month) => `event_2051_0${month}`));
});

test("rows that fell into the default partition are counted, and move once their month is made", async () => {
  const events = [
    "2061-05-31T23:59:59Z",
    "2061-06-01T00:00:00Z",
    "2061-06-30T12:00:00Z",
    "2071-01-01T00:00:00Z",
  ].map((time, index) => sketchEvent({ time, offset: BigInt(index), data: new Uint8Array([index]) }));
  const before = await countDefaultRows(suite.db);
  await insert(events);
  expect(await countDefaultRows(suite.db)).toBe(before + 4);
  await ensurePartitions(suite.db, new Date("2061-10-01T00:00:00Z")); // from June on
  expect(await Promise.all(events.map(partitionOf))).toEqual([
    "events.event_default",
    "events.event_2061_06",
    "events.event_2061_06",
    "events.event_default",
  ]);
  expect(await countDefaultRows(suite.db)).toBe(before + 2);
  for (const stored of events) {
    const { source, id } = stored.event;
    expect((await getEvent(suite.db, { source, id }))?.event).toEqual(stored);
  }
  const again = await transaction(suite.db, (tx) => insertEvents(tx, events));
  expect(again.written).toEqual([]);
});

test("the months of the first and the last years are theirs, and no others", async () => {
  const months = ["0001-01", "0050-06", "0099-12", "9999-12"];
  const events = months.map((month, index) =>
    sketchEvent({ time: `${month}-15T00:00:00Z`, offset: BigInt(index) }),
  );
  // Of a record without a time, whose own timestamp is years before our era.
  const ancient = sketchEvent({
    time: undefined,
    offset: 9n,
    acceptTime: Date.parse("-000043-03-15T00:00:00Z"),
  });
  await insert([...events, ancient]);
  const found = (await defaultMonths(suite.db)).filter(({ month }) => /BC$|^0|^9/.test(month));
  expect(found).toEqual(["0044-03 BC", ...months].map((month) => ({ month, rows: 1n })));
  for (const month of months) expect(await ensureMonth(suite.db, month)).toBe("made");
  expect(await Promise.all(events.map(partitionOf))).toEqual(
    months.map((month) => `events.event_${month.replace("-", "_")}`),
  );
});

test("a month whose table was detached is told from one that is there", async () => {
  expect(await ensureMonth(suite.db, "2101-01")).toBe("made");
  expect(await ensureMonth(suite.db, "2101-01")).toBe("attached");
  await suite.db.pool.query("alter table events.event detach partition events.event_2101_01");
  expect(await ensureMonth(suite.db, "2101-01")).toBe("detached");
});

test("a partition that cannot be made for a lock is given up after 5 s, and what was made stays", async () => {
  const now = new Date("2081-06-15T00:00:00Z");
  const holder = await suite.db.pool.connect();
  try {
    await holder.query("begin");
    await holder.query("select from events.event_default"); // an open reader
    await expect(ensurePartitions(suite.db, now)).rejects.toMatchObject({ code: "55P03" });
  } finally {
    await holder.query("rollback");
    holder.release();
  }
  expect(await ensurePartitions(suite.db, now)).toHaveLength(8);
});

test("a writer with an open transaction does not hold up a new partition, nor it the writer", async () => {
  const now = new Date("2091-06-15T00:00:00Z");
  await transaction(suite.db, async (tx) => {
    await insertEvents(tx, [sketchEvent({ offset: 0n })]);
    expect(await ensurePartitions(suite.db, now)).toHaveLength(8);
    await insertEvents(tx, [sketchEvent({ offset: 1n })]);
  });
});
