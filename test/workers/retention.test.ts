import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";

import { describe, expect, test } from "vitest";

import { insertEvents } from "#postgres/events.ts";
import { ensureMonth, ensurePartitions } from "#postgres/partitions.ts";
import { type Database } from "#postgres/pool.ts";
import { before } from "#postgres/retention.ts";
import { transaction } from "#postgres/tx.ts";
import { createTelemetry } from "#runtime/telemetry.ts";

import { createMaintain, type Retention } from "../../workers/maintain.ts";
import { createKeptLog, type KeptLog } from "../kafka/broker.ts";
import { openDatabase, sketchEvent } from "../postgres/fixture.ts";
import { createTestDatabase } from "../support/database.ts";

const soon = { timeout: 15_000, interval: 25 };
const NOW = new Date("2031-06-15T12:00:00Z");
const KEEP: Retention = { age: { months: 5, days: 0 }, drop: false, logMs: 7 * 24 * 3_600_000 };

interface Running extends AsyncDisposable {
  readonly log: KeptLog;
  readonly fault: string | undefined;
  metric(name: string): Promise<number>;
}

function maintain(db: Database, retention?: Retention, now: () => Date = () => NOW): Running {
  const log = createKeptLog();
  const telemetry = createTelemetry(log);
  const role = createMaintain({ db, telemetry, log, retention, now, intervalMs: 25 });
  const stopping = new AbortController();
  const running = role.run(stopping.signal);
  return {
    log,
    get fault() {
      return role.fault;
    },
    async metric(name) {
      const line = (await telemetry.page()).body.split("\n").find((each) => each.startsWith(`${name} `));
      return Number(line?.slice(name.length + 1) ?? Number.NaN);
    },
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await running;
    },
  };
}

/** Months of events.event, and those tables that are in it no more. */
async function months(db: Database): Promise<{ attached: string[]; detached: string[] }> {
  const { rows } = await db.pool.query<{ name: string; attached: boolean }>(
    `select relname as name, relispartition as attached from pg_class
     where relnamespace = 'events'::regnamespace and relkind = 'r' and relname ~ '^event_2' order by 1`,
  );
  const named = (attached: boolean): string[] =>
    rows.filter((row) => row.attached === attached).map(({ name }) => name.slice(6));
  return { attached: named(true), detached: named(false) };
}

async function insert(db: Database, time: string, acceptTime: Date): Promise<void> {
  const event = sketchEvent({ time, offset: BigInt(acceptTime.getTime()), acceptTime: acceptTime.getTime() });
  await transaction(db, (tx) => insertEvents(tx, [event]));
}

/** A database with the months from October 2030 on, and an event in each of the first four. */
async function filled(stack: AsyncDisposableStack): Promise<Database> {
  const database = stack.use(await createTestDatabase());
  const db = stack.use(openDatabase(database.url));
  // Not those of the real present.
  for (const name of (await months(db)).attached) await db.pool.query(`drop table events.event_${name}`);
  for (const month of ["2030-10", "2030-11", "2030-12"]) await ensureMonth(db, month);
  await ensurePartitions(db, NOW);
  for (const month of ["2030-10", "2030-11", "2030-12", "2031-01"])
    await insert(db, `${month}-10T00:00:00Z`, new Date(`${month}-11T00:00:00Z`));
  await ensureMonth(db, "2031-01");
  return db;
}

test("months that are older as a whole leave the table, once, and their tables stay", async () => {
  await using stack = new AsyncDisposableStack();
  const db = await filled(stack);
  await using one = maintain(db, KEEP);
  await using other = maintain(db, KEEP);
  await expect.poll(() => one.metric("weir_store_partitions_detached"), soon).toBe(3);
  await expect.poll(() => other.metric("weir_store_partitions_detached"), soon).toBe(3);
  const { attached, detached } = await months(db);
  expect(detached).toEqual(["2030_10", "2030_11", "2030_12"]);
  expect(attached[0]).toBe("2031_01");
  const detachedBy = 'weir_store_retention_partitions_total{outcome="detached"}';
  expect(((await one.metric(detachedBy)) || 0) + ((await other.metric(detachedBy)) || 0)).toBe(3);
  const kept = await db.pool.query("select from events.event_2030_10");
  expect(kept.rowCount).toBe(1);
  expect((await db.pool.query("select from events.event where occurred_at < '2031-01-01'")).rowCount).toBe(0);
});

test("nothing leaves it unless retention is set", async () => {
  await using stack = new AsyncDisposableStack();
  const db = await filled(stack);
  await using running = maintain(db);
  await expect.poll(() => running.fault, soon).toBeUndefined();
  expect((await months(db)).detached).toEqual([]);
  expect((await months(db)).attached).toContain("2030_10");
});

test("what is detached is dropped where that is asked for", async () => {
  await using stack = new AsyncDisposableStack();
  const db = await filled(stack);
  await using running = maintain(db, { ...KEEP, drop: true });
  await expect
    .poll(() => running.metric('weir_store_retention_partitions_total{outcome="dropped"}'), soon)
    .toBe(3);
  expect(await months(db)).toMatchObject({ detached: [] });
  expect((await months(db)).attached[0]).toBe("2031_01");
});

test("a month stays that has an event which may be on the log still", async () => {
  await using stack = new AsyncDisposableStack();
  const db = await filled(stack);
  await insert(db, "2030-11-12T00:00:00Z", new Date("2031-06-08T00:00:00Z"));
  let now = NOW;
  await using running = maintain(db, KEEP, () => now);
  await expect.poll(() => running.metric("weir_store_partitions_detached"), soon).toBe(2);
  expect((await months(db)).detached).toEqual(["2030_10", "2030_12"]);
  expect(running.log.lines).toContainEqual([
    "warn",
    expect.stringContaining("stays"),
    { partition: "event_2030_11" },
  ]);
  now = new Date("2031-06-16T12:00:00Z");
  await expect.poll(() => running.metric("weir_store_partitions_detached"), soon).toBe(3);
});

test("an open reader puts it off, and it is tried again", async () => {
  await using stack = new AsyncDisposableStack();
  const db = await filled(stack);
  const reader = await db.pool.connect();
  await reader.query("begin");
  await reader.query("select from events.event limit 1");
  await using running = maintain(db, KEEP);
  try {
    await expect
      .poll(() => running.fault, soon)
      .toContain("retention: canceling statement due to lock timeout");
  } finally {
    await reader.query("rollback");
    reader.release();
  }
  await expect.poll(() => running.metric("weir_store_partitions_detached"), soon).toBe(3);
  expect(running.fault).toBeUndefined();
});

test("rows of repeats go with their time, and those of the log's stay", async () => {
  await using stack = new AsyncDisposableStack();
  const db = await filled(stack);
  await db.pool.query(
    `insert into events.duplicate (occurred_at, recorded_at, "offset", partition, differs, topic, source, id)
     select now(), '2031-01-15T11:00:00Z'::timestamptz + n * interval '1 hour', n, 0, false, 'events', '/test', 'x'
     from generate_series(-25000, 3) as n`,
  );
  await using running = maintain(db, KEEP);
  await expect.poll(() => running.metric("weir_store_retention_duplicates_total"), soon).toBe(25_001);
  const left = await db.pool.query<{ offset: string }>(`select "offset" from events.duplicate order by 1`);
  expect(left.rows.map(({ offset }) => offset)).toEqual(["1", "2", "3"]);
});

describe("an age", () => {
  test.each([
    ["2031-06-15T12:00:00Z", { months: 5, days: 0 }, "2031-01-15T12:00:00.000Z"],
    ["2031-03-31T12:00:00Z", { months: 4, days: 0 }, "2030-11-30T12:00:00.000Z"],
    ["2032-03-31T12:00:00Z", { months: 13, days: 0 }, "2031-02-28T12:00:00.000Z"],
    ["2031-06-15T12:00:00Z", { months: 0, days: 400 }, "2030-05-11T12:00:00.000Z"],
  ])("before %s is %o", (time, age, expected) => {
    expect(before(new Date(time), age).toISOString()).toBe(expected);
  });
});

test("npm run partition tells the months of the default partition's rows, and moves those of a month", async () => {
  await using database = await createTestDatabase();
  await using db = openDatabase(database.url);
  for (const time of ["2001-02-03T00:00:00Z", "2001-02-04T00:00:00Z", "2003-01-01T00:00:00Z"])
    await insert(db, time, new Date(time));
  const run = async (...args: readonly string[]): Promise<string> => {
    const { stdout } = await promisify(execFile)(process.execPath, ["workers/partition.ts", ...args], {
      cwd: join(import.meta.dirname, "../.."),
      env: { PATH: process.env["PATH"], WEIR_DATABASE_URL: database.url },
    });
    return stdout;
  };
  expect(await run()).toBe("2001-02 2\n2003-01 1\n");
  expect(await run("2001-02", "2001-03")).toBe("2001-02 made\n2001-03 made\n");
  expect(await run("2001-02")).toBe("2001-02 is there already\n");
  expect(await run()).toBe("2003-01 1\n");
  expect((await db.pool.query("select from events.event_2001_02")).rowCount).toBe(2);
  await expect(run("2001-13")).rejects.toThrow("No month: 2001-13");
});
