import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";

import { type StoredEvent } from "#core/event.ts";
import { type Claim, persistBatch, takeOver } from "#postgres/claims.ts";
import { ensureMonth } from "#postgres/partitions.ts";
import { type Database } from "#postgres/pool.ts";
import { retirePartitions } from "#postgres/retention.ts";
import { MAX_VALUES, rollUp } from "#postgres/roll-up.ts";

import { createTestDatabase } from "../support/database.ts";
import { createProxy, type EventSketch, openDatabase, sketchEvent } from "./fixture.ts";

const DAY_MS = 24 * 3_600_000;

interface Bench {
  readonly url: string;
  readonly db: Database;
}

const opened: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of opened.splice(0).toReversed()) await each[Symbol.asyncDispose]();
});

async function openBench(): Promise<Bench> {
  const database = await createTestDatabase();
  opened.push(database);
  const db = openDatabase(database.url);
  opened.push(db);
  return { url: database.url, db };
}

const claim = (db: Database, partition = 0, group = "persist"): Promise<Claim> =>
  takeOver(db, { group, topic: "events", partition, owner: "test" });

/** Stores events as the persist role does, up to an offset. */
async function store(
  db: Database,
  held: Claim,
  events: readonly StoredEvent[],
  nextOffset: bigint,
): Promise<void> {
  const result = await persistBatch(db, held, { events, deadLetters: [], skips: [], nextOffset });
  expect(result.outcome).toBe("stored");
}

function sketches(
  from: number,
  to: number,
  each: (index: number) => Partial<EventSketch> = () => ({}),
): StoredEvent[] {
  return Array.from({ length: to - from }, (_, index) =>
    sketchEvent({ offset: BigInt(from + index), ...each(from + index) }),
  );
}

/** Rolls up until nothing is left to do; answers the rows of each step. */
async function rollUpAll(db: Database): Promise<number[]> {
  for (const steps: number[] = []; ;) {
    const { rows, lag } = (await rollUp(db))!;
    steps.push(rows);
    if (lag === 0) return steps;
  }
}

const ROWS = `select kind, date_trunc('hour', occurred_at, 'UTC') as hour, value,
  case when severity is null then 0 else ceil(severity / 4.0)::int end as severity, count(*) as count
  from events.event cross join lateral (values (0, ''), (1, type), (2, source)) as one (kind, value) group by 1, 2, 3, 4`;
const SUMS = "select kind, hour, value, severity, count from events.rollup";

/** What is in one and not in the other, of what the table has and what the sums say. */
async function differences(db: Database): Promise<unknown[]> {
  const { rows } = await db.pool.query(
    `(${ROWS} except ${SUMS}) union all (${SUMS} except ${ROWS}) order by 1 limit 10`,
  );
  return rows;
}

async function countSums(db: Database): Promise<number> {
  const { rows } = await db.pool.query<{ count: number }>(
    "select coalesce(sum(count), 0)::int as count from events.rollup where kind = 0",
  );
  return rows[0]!.count;
}

const restart = (db: Database, offset: number): Promise<unknown> =>
  db.pool.query("update consumer.checkpoint set generation = generation + 1, next_offset = $1", [offset]);

test("the sums are those of the rows, by hour, type, source and range of severity, however late an event is", async () => {
  const { db } = await openBench();
  const held = [await claim(db, 0), await claim(db, 1)];
  const hours = [0, 0, 1, 24 * 30, 24 * 85, 24 * 4_000];
  const events = (partition: number, from: number): StoredEvent[] =>
    sketches(from, from + 240, (index) => ({
      partition,
      time:
        index % 7 === 0
          ? undefined
          : new Date(Date.now() - hours[index % hours.length]! * 3_600_000).toISOString(),
      type: `t${index % 5}`,
      source: `/s${index % 3}`,
      extensions: new Map(index % 25 === 0 ? [] : [["severitynumber", String(index % 25)]]),
    }));
  for (const from of [0, 240, 480]) {
    for (const [partition, each] of held.entries())
      await store(db, each, events(partition, from), BigInt(from + 240));
    expect(await differences(db)).not.toEqual([]);
    expect(await rollUpAll(db)).toEqual([480]);
    expect(await differences(db)).toEqual([]);
  }
  expect(await countSums(db)).toBe(1_440);
  expect(await rollUpAll(db)).toEqual([0]);
  const bySeverity = await db.pool.query<{ severity: number }>(
    "select distinct severity from events.rollup order by 1",
  );
  expect(bySeverity.rows.map(({ severity }) => severity)).toEqual([0, 1, 2, 3, 4, 5, 6]);
});

test("repeats and records that are read again add nothing, nor does what is not committed", async () => {
  const { db } = await openBench();
  const held = await claim(db);
  const events = sketches(0, 10);
  await store(db, held, events, 10n);
  await rollUpAll(db);
  await store(db, held, events, 10n);
  await store(
    db,
    held,
    events.map((each, index) => ({ ...each, position: { ...each.position, offset: BigInt(10 + index) } })),
    20n,
  );
  expect(await rollUpAll(db)).toEqual([0]);
  const writer = await db.pool.connect();
  await writer.query("begin");
  await writer.query("update consumer.checkpoint set next_offset = 30, high_water = 30");
  await writer.query(
    `insert into events.event (occurred_at, receive_time, "offset", partition, data_size, source, id, type, topic, principal, tags, extensions, terms)
     values (now(), now(), 25, 0, 0, '/test', 'open', 't', 'events', 'alice', '{}', '{}', '{}')`,
  );
  expect(await rollUpAll(db)).toEqual([0]);
  await writer.query("commit");
  writer.release();
  expect(await rollUpAll(db)).toEqual([1]);
  expect(await differences(db)).toEqual([]);
});

test.each(["before", "after"] as const)(
  "a roller whose connection breaks %s its COMMIT has added each row once",
  async (when) => {
    const { url, db } = await openBench();
    await store(db, await claim(db), sketches(0, 100), 100n);
    await using proxy = await createProxy(url);
    await using proxied = openDatabase(proxy.url);
    proxy.breakAt("commit", when);
    await expect(rollUp(proxied)).rejects.toThrow(/connection/i);
    expect(await countSums(db)).toBe(when === "before" ? 0 : 100);
    await expect.poll(() => rollUp(db)).toEqual({ rows: when === "before" ? 100 : 0, lag: 0 });
    expect(await differences(db)).toEqual([]);
  },
);

test("a roller that is killed in the middle of a step leaves nothing of it", async () => {
  const { db } = await openBench();
  await store(db, await claim(db), sketches(0, 100), 100n);
  const other = await db.pool.connect();
  await other.query("begin; lock table events.rollup in exclusive mode");
  const broken = rollUp(db).then(
    () => "done",
    () => "broken",
  );
  const waiting =
    "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%with stretch%'";
  await expect.poll(async () => (await db.pool.query(waiting)).rowCount, { timeout: 10_000 }).toBe(1);
  expect(await rollUp(db)).toBeUndefined();
  await db.pool.query(`select pg_terminate_backend(pid) from (${waiting}) as waiting`);
  expect(await broken).toBe("broken");
  await other.query("commit");
  other.release();
  expect(await countSums(db)).toBe(0);
  expect(await rollUpAll(db)).toEqual([100]);
  expect(await differences(db)).toEqual([]);
});

/** Rows as of a large backlog, made in the server. */
async function fill(db: Database, partition: number, rows: number): Promise<void> {
  await db.pool.query(
    `insert into events.event (occurred_at, receive_time, "offset", partition, data_size, severity, source, id, type, topic, principal, tags, extensions, terms)
     select now() - n * interval '1 minute', now(), n * 3, $1::int, 0, n % 24 + 1, '/s' || n % 4, n || '/' || $1::int, 't' || n % 3, 'events', 'alice', '{}', '{}', '{}'
     from generate_series(0, $2::int - 1) as n`,
    [partition, rows],
  );
  await db.pool.query(
    `insert into consumer.checkpoint (group_id, topic, partition, epoch, owner, next_offset, high_water)
     values ('persist', 'events', $1::int, 1, 'test', $2, $2)`,
    [partition, rows * 3],
  );
}

test("a backlog is summed up in bounded steps, by several rollers at once, while rows come in", async () => {
  const { url, db } = await openBench();
  await fill(db, 0, 70_000);
  await fill(db, 1, 5_000);
  const first = (await rollUp(db))!;
  expect(first.rows).toBe(30_000);
  // The smaller partition is through; of the larger one 25,000 rows, every third offset.
  expect(first.lag).toBe(70_000 * 3 - (24_999 * 3 + 1));
  await using another = openDatabase(url);
  const held = await claim(db, 2);
  let done = false;
  const roll = async (own: Database): Promise<void> => {
    while (!done) if ((await rollUp(own))?.lag === 0) await sleep(1);
  };
  const rollers = [roll(db), roll(another), roll(another)];
  for (let from = 0; from < 1_000; from += 50) {
    await store(
      db,
      held,
      sketches(from, from + 50, () => ({ partition: 2 })),
      BigInt(from + 50),
    );
  }
  done = true;
  await Promise.all(rollers);
  await rollUpAll(db);
  expect(await differences(db)).toEqual([]);
  expect(await countSums(db)).toBe(76_000);
}, 60_000);

test("a group that goes back, also over and over, brings rows below: each is added once", async () => {
  const { db } = await openBench();
  const store3 = async (from: number, to: number, next: number): Promise<void> =>
    store(db, await claim(db), sketches(from, to), BigInt(next));
  // The even hundreds are stored at first; what lies between them is passed over.
  await store3(0, 100, 200);
  await store3(200, 300, 400);
  await rollUpAll(db);
  await store3(400, 450, 450);
  await restart(db, 100);
  await store3(100, 150, 150);
  await restart(db, 150);
  await store3(150, 160, 160);
  expect(await rollUpAll(db)).toEqual([110]);
  await store3(160, 200, 450);
  await restart(db, 300);
  await store3(300, 400, 460);
  await rollUpAll(db);
  expect(await differences(db)).toEqual([]);
  expect(await countSums(db)).toBe(450);
});

test("a log that was made anew has other rows at the same offsets, which are added too", async () => {
  const { db } = await openBench();
  await store(db, await claim(db), sketches(0, 100), 100n);
  expect((await rollUp(db))!.rows).toBe(100);
  await store(db, await claim(db), sketches(100, 120), 120n);
  // As an operator does it: with the log, high_water goes back.
  await db.pool.query(
    "update consumer.checkpoint set generation = generation + 1, next_offset = 0, high_water = 0, log_since = clock_timestamp()",
  );
  await store(db, await claim(db), sketches(0, 50), 50n);
  await rollUpAll(db);
  expect(await differences(db)).toEqual([]);
  await db.pool.query("delete from consumer.checkpoint");
  await rollUpAll(db);
  await store(db, await claim(db), sketches(0, 30), 30n);
  await rollUpAll(db);
  expect(await differences(db)).toEqual([]);
  await store(db, await claim(db, 0, "another"), sketches(30, 40), 40n);
  await rollUpAll(db);
  expect(await differences(db)).toEqual([]);
  expect(await countSums(db)).toBe(210);
});

test("the sums can be made anew by two statements", async () => {
  const { db } = await openBench();
  await store(db, await claim(db), sketches(0, 100), 100n);
  await rollUpAll(db);
  await restart(db, 0);
  await store(db, await claim(db), sketches(0, 50), 50n);
  await rollUpAll(db);
  await db.pool.query(
    "begin; update events.rollup_era set next_offset = 0, summed_at = null; delete from events.rollup; commit",
  );
  expect(await rollUpAll(db)).toEqual([150]);
  expect(await differences(db)).toEqual([]);
});

test("an hour keeps so many types and sources apart, the most frequent first, and counts the rest", async () => {
  const { db } = await openBench();
  const held = await claim(db);
  const hour = (index: number): string => new Date(Date.UTC(2026, 10, 20, index, 30)).toISOString();
  const scattered = (from: number, to: number): StoredEvent[] =>
    sketches(from, to, (index) => ({ time: hour(5), type: `t${index % 2}`, source: `/${index}` }));
  const often = (from: number, to: number): StoredEvent[] =>
    sketches(from, to, () => ({ time: hour(5), type: "often", source: "/often" }));
  await store(db, held, [...scattered(0, MAX_VALUES - 100), ...often(600, 603)], 1_000n);
  await rollUpAll(db);
  await store(db, held, [...scattered(1_000, 1_150), ...often(1_200, 1_205)], 2_000n);
  const long = { type: "x".repeat(1_025), source: "y".repeat(1_025) };
  await store(
    db,
    held,
    sketches(2_000, 2_002, (index) => ({ ...long, time: hour(index - 1_996) })),
    2_002n,
  );
  await rollUpAll(db);
  await store(db, held, [...often(2_002, 2_004), ...scattered(2_004, 2_014)], 2_014n);
  await rollUpAll(db);
  const { rows } = await db.pool.query<{ kind: number; hour: number; value: string; count: number }>(
    "select kind, extract(hour from hour at time zone 'UTC')::int as hour, value, sum(count)::int as count from events.rollup group by 1, 2, 3",
  );
  const count = (kind: number, at: number, value: string): number | undefined =>
    rows.find((row) => row.kind === kind && row.hour === at && row.value === value)?.count;
  const total = MAX_VALUES - 100 + 3 + 150 + 5 + 1 + 2 + 10;
  expect(count(0, 5, "")).toBe(total);
  const apart = rows.filter(({ kind, hour: at, value }) => kind === 2 && at === 5 && value !== "");
  expect(apart).toHaveLength(MAX_VALUES);
  expect(count(2, 5, "/often")).toBe(10);
  // 99 of the 150 found room, and neither the long one nor the last ten.
  expect(count(2, 5, "")).toBe(51 + 1 + 10);
  expect(count(1, 5, "often")).toBe(10);
  expect(count(1, 5, "")).toBe(1);
  expect([count(1, 4, ""), count(2, 4, "")]).toEqual([1, 1]);
  expect(await countSums(db)).toBe(total + 1);
});

test("with a month that leaves the table its sums go, and what is behind adds nothing of it", async () => {
  const { db } = await openBench();
  await ensureMonth(db, "2020-01");
  await ensureMonth(db, "2020-02");
  const held = await claim(db);
  const times = [
    "2020-01-31T23:59:59Z",
    "2020-02-01T00:00:00Z",
    "2020-02-29T23:59:59Z",
    "2020-03-01T00:00:00Z",
  ];
  const old = { acceptTime: Date.parse("2020-03-02T00:00:00Z") };
  await store(
    db,
    held,
    sketches(0, 40, (index) => ({ ...old, time: times[index % 4] })),
    40n,
  );
  await rollUpAll(db);
  await store(
    db,
    held,
    sketches(40, 80, (index) => ({ ...old, time: times[index % 4] })),
    80n,
  );
  const plan = {
    cutoff: new Date("2020-03-01T00:00:00Z"),
    loggedSince: new Date(Date.now() - DAY_MS),
    drop: false,
  };
  expect(await retirePartitions(db, plan)).toHaveLength(2);
  expect(await differences(db)).not.toEqual([]);
  await rollUpAll(db);
  expect(await differences(db)).toEqual([]);
  expect(await countSums(db)).toBe(20);
});

test("where no batch was ever stored there is nothing to do", async () => {
  const { db } = await openBench();
  expect(await rollUp(db)).toEqual({ rows: 0, lag: 0 });
  await claim(db);
  expect(await rollUp(db)).toEqual({ rows: 0, lag: 0 });
});
