import { expect, test } from "vitest";

import { persistBatch, takeOver } from "#postgres/claims.ts";
import { createTelemetry } from "#runtime/telemetry.ts";

import { createMaintain } from "../../workers/maintain.ts";
import { createProxy, openDatabase, sketchEvent } from "../postgres/fixture.ts";
import { createKeptLog, type KeptLog } from "../kafka/broker.ts";
import { createTestDatabase } from "../support/database.ts";
import { type Role } from "../../workers/role.ts";
import { type Database } from "#postgres/pool.ts";

const soon = { timeout: 15_000, interval: 25 };

interface Running extends AsyncDisposable {
  readonly role: Role;
  readonly log: KeptLog;
  metric(name: string): Promise<number | undefined>;
}

function maintain(db: Database, now: () => Date): Running {
  const log = createKeptLog();
  const telemetry = createTelemetry(log);
  const role = createMaintain({ db, telemetry, log, now, intervalMs: 50, rollUpMs: 50 });
  const stopping = new AbortController();
  const running = role.run(stopping.signal);
  return {
    role,
    log,
    async metric(name) {
      const line = (await telemetry.page()).body.split("\n").find((each) => each.startsWith(`${name} `));
      return line === undefined ? undefined : Number(line.slice(name.length + 1));
    },
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await running;
    },
  };
}

async function partitions(db: Database): Promise<string[]> {
  const { rows } = await db.pool.query<{ name: string }>(
    "select relname as name from pg_inherits join pg_class on oid = inhrelid where inhparent = 'events.event'::regclass order by 1",
  );
  return rows.map(({ name }) => name);
}

test("makes the partitions of the present at once, and of the next months when their time has come", async () => {
  await using database = await createTestDatabase();
  await using db = openDatabase(database.url);
  let now = new Date("2031-03-31T12:00:00Z");
  await using one = maintain(db, () => now);
  await using other = maintain(db, () => now);
  await expect.poll(() => [one.role.fault, other.role.fault], soon).toEqual([undefined, undefined]);
  expect(await partitions(db)).toEqual(
    expect.arrayContaining(["event_2030_11", "event_2031_03", "event_2031_06"]),
  );
  expect(await one.metric("weir_store_partitions_ahead")).toBe(3);

  now = new Date("2031-04-01T11:59:59Z");
  await expect.poll(() => one.metric("weir_store_partitions_ahead"), soon).toBe(2);
  expect(await partitions(db)).not.toContain("event_2031_07");
  now = new Date("2031-04-01T12:00:00Z");
  await expect.poll(() => partitions(db), soon).toContain("event_2031_07");
});

test("counts the rows that fell into the default partition, and says so once", async () => {
  await using database = await createTestDatabase();
  await using db = openDatabase(database.url);
  await using running = maintain(db, () => new Date());
  await expect.poll(() => running.metric("weir_store_default_partition_rows"), soon).toBe(0);
  await db.pool.query(
    `insert into events.event (occurred_at, receive_time, "offset", partition, data_size, source, id, type, topic, principal, tags, extensions, terms)
     values ('2001-01-01', now(), 0, 0, 0, '/test', '1', 't', 'events', 'alice', '{}', '{}', '{}')`,
  );
  await expect.poll(() => running.metric("weir_store_default_partition_rows"), soon).toBe(1);
  const alarms = (): number => running.log.lines.filter(([level]) => level === "error").length;
  expect(alarms()).toBe(1);
});

test("sums up what is stored, and tells how much is left and why it cannot", async () => {
  await using database = await createTestDatabase();
  await using db = openDatabase(database.url);
  await using running = maintain(db, () => new Date());
  await expect.poll(() => running.metric("weir_store_rollups_lag"), soon).toBe(0);
  const held = await takeOver(db, { group: "g", topic: "events", partition: 0, owner: "test" });
  await db.pool.query("alter table events.rollup rename to other");
  const events = [sketchEvent({ offset: 0n }), sketchEvent({ offset: 1n })];
  await persistBatch(db, held, { events, deadLetters: [], skips: [], nextOffset: 2n });
  await expect.poll(() => running.role.fault, soon).toMatch(/summing up events: .*rollup/);
  expect(await running.metric("weir_store_rollups_lag")).toBeUndefined();
  await db.pool.query("alter table events.other rename to rollup");
  await expect.poll(() => running.metric("weir_store_rollups_lag"), soon).toBe(0);
  expect(running.role.fault).toBeUndefined();
  expect((await db.pool.query("select count::int from events.rollup where kind = 0")).rows).toEqual([
    { count: 2 },
  ]);
});

test("waits for a database that is away, says so, and shows no number that it does not know", async () => {
  await using database = await createTestDatabase();
  await using proxy = await createProxy(database.url);
  await using db = openDatabase(proxy.url, { connectTimeoutMs: 500 });
  await proxy.cut();
  await using running = maintain(db, () => new Date("2031-03-15T12:00:00Z"));
  await expect.poll(() => running.role.fault, soon).toMatch(/ECONNREFUSED|connect/i);
  expect(await running.metric("weir_store_default_partition_rows")).toBeUndefined();
  await proxy.restore();
  await expect.poll(() => running.role.fault, soon).toBeUndefined();
  await using direct = openDatabase(database.url);
  expect(await partitions(direct)).toContain("event_2031_06");
  await proxy.cut();
  await expect.poll(() => running.metric("weir_store_default_partition_rows"), soon).toBeUndefined();
});
