import { expect, test } from "vitest";

import { insertEvents } from "#postgres/events.ts";
import { type Database } from "#postgres/pool.ts";
import { mergeTerms } from "#postgres/term-index.ts";
import { transaction } from "#postgres/tx.ts";
import { wordTerms } from "#core/terms.ts";
import { createTelemetry } from "#runtime/telemetry.ts";

import { createIndexTerms } from "../../workers/index-terms.ts";
import { createKeptLog } from "../kafka/broker.ts";
import { openDatabase, sketchEvent } from "../postgres/fixture.ts";
import { createTestDatabase } from "../support/database.ts";

const soon = { timeout: 15_000, interval: 25 };

async function store(db: Database, count: number): Promise<void> {
  const events = Array.from({ length: count }, (_, index) =>
    sketchEvent({ offset: BigInt(index), subject: "findable" }),
  );
  await transaction(db, (tx) => insertEvents(tx, events));
}

async function countFound(db: Database): Promise<number> {
  const { rows } = await db.pool.query<{ count: number }>(
    "select count(*)::int as count from events.event where terms @> $1::int4[]",
    [wordTerms("findable")],
  );
  return rows[0]!.count;
}

test("what inserts leave pending is merged, and found before and after", async () => {
  await using database = await createTestDatabase();
  await using db = openDatabase(database.url);
  await db.pool.query(
    "alter database current set enable_seqscan = off".replace(
      "current",
      new URL(database.url).pathname.slice(1),
    ),
  );
  await using searching = openDatabase(database.url);
  expect(await mergeTerms(db)).toEqual({ bytes: 0 });
  await store(db, 500);
  expect(await countFound(searching)).toBe(500);
  expect((await mergeTerms(db))!.bytes).toBeGreaterThan(8_192);
  expect(await countFound(searching)).toBe(500);
  expect(await mergeTerms(db)).toEqual({ bytes: 0 });
});

test("a writer never merges: its transactions leave all of it to the role", async () => {
  await using database = await createTestDatabase();
  await using db = openDatabase(database.url);
  // 4 MiB is where PostgreSQL's own default would have a writer merge.
  for (let round = 0; round < 24; round += 1) await store(db, 2_000);
  expect((await mergeTerms(db))!.bytes).toBeGreaterThan(6 * 1024 * 1024);
});

test("one process merges at a time", async () => {
  await using database = await createTestDatabase();
  await using db = openDatabase(database.url);
  const other = await db.pool.connect();
  await other.query("select pg_advisory_lock(hashtext('weir.terms'))");
  expect(await mergeTerms(db)).toBeUndefined();
  await other.query("select pg_advisory_unlock(hashtext('weir.terms'))");
  other.release();
  expect(await mergeTerms(db)).toEqual({ bytes: 0 });
});

test("the role merges round after round, tells how much it found, and why it cannot", async () => {
  await using database = await createTestDatabase();
  await using db = openDatabase(database.url);
  const log = createKeptLog();
  const telemetry = createTelemetry(log);
  const role = createIndexTerms({ db, telemetry, log, intervalMs: 200 });
  const stopping = new AbortController();
  const running = role.run(stopping.signal);
  const pending = async (): Promise<number | undefined> => {
    const { body } = await telemetry.page();
    const line = body.split("\n").find((each) => each.startsWith("weir_store_terms_pending "));
    return line === undefined ? undefined : Number(line.split(" ")[1]);
  };
  await expect.poll(pending, soon).toBe(0);
  await store(db, 500);
  await expect.poll(pending, soon).toBeGreaterThan(0);
  await expect.poll(pending, soon).toBe(0);
  await db.pool.query("alter index events.event_terms_idx rename to other_idx");
  await expect.poll(() => role.fault, soon).toMatch(/event_terms_idx/);
  await db.pool.query("alter index events.other_idx rename to event_terms_idx");
  await expect.poll(() => role.fault, soon).toBeUndefined();
  stopping.abort();
  await running;
});
