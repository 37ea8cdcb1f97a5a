import { expect, test } from "vitest";

import { ensureMonth } from "#postgres/partitions.ts";
import { keepNumberIndexes } from "#postgres/number-indexes.ts";
import { type Database } from "#postgres/pool.ts";

import { createNumberIndexes } from "../../workers/number-indexes.ts";
import { createKeptLog } from "../kafka/broker.ts";
import { openDatabase } from "../postgres/fixture.ts";
import { createTestDatabase } from "../support/database.ts";

const soon = { timeout: 15_000, interval: 25 };
const PATHS = [["amount"], ["risk", "score"]];

/** How many indexes of numbers there are of each month, without those that are half made. */
async function indexes(db: Database): Promise<Readonly<Record<string, number>>> {
  const { rows } = await db.pool.query<{ month: string; count: number }>(
    `select c.relname as month, count(i.relname)::int as count from pg_inherits join pg_class c on c.oid = inhrelid
     left join pg_index on indrelid = c.oid and indisvalid left join pg_class i on i.oid = indexrelid and i.relname like '%number%'
     where inhparent = 'events.event'::regclass group by 1`,
  );
  return Object.fromEntries(rows.map(({ month, count }) => [month, count]));
}

test("months get their indexes, those that come later too, and lose those of paths that are named no more", async () => {
  await using database = await createTestDatabase();
  await using db = openDatabase(database.url);
  const log = createKeptLog();
  for (const paths of [PATHS, PATHS.slice(1), []]) {
    const stopping = new AbortController();
    const keeping = createNumberIndexes({ db, paths, log, intervalMs: 25 });
    const running = keeping.run(stopping.signal);
    const counts = async (): Promise<readonly number[]> => [...new Set(Object.values(await indexes(db)))];
    await expect.poll(counts, soon).toEqual([paths.length]);
    const month = `2040-0${paths.length + 1}`;
    await ensureMonth(db, month);
    const name = `event_${month.replace("-", "_")}`;
    await expect.poll(async () => (await indexes(db))[name], soon).toBe(paths.length);
    expect(keeping.fault).toBeUndefined();
    stopping.abort();
    await running;
  }
  expect(log.lines.filter(([level]) => level === "warn")).toEqual([]);
});

test("no writer waits for an index that is made; it is given up by a signal, and made anew later", async () => {
  await using database = await createTestDatabase();
  await using db = openDatabase(database.url);
  const insert = (offset: number): string =>
    `insert into events.event (occurred_at, receive_time, "offset", partition, data_size, source, id, type, topic, principal, tags, extensions, terms)
     values (now(), now(), ${offset}, 0, 0, '/test', '${offset}', 't', 'events', 'alice', '{}', '{}', '{}')`;
  const isWaiting = async (): Promise<boolean> => {
    const { rows } = await db.pool.query(
      "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like 'create index concurrently%'",
    );
    return rows.length === 1;
  };
  const writer = await db.pool.connect();
  await writer.query("begin");
  await writer.query(insert(1));
  const stopping = new AbortController();
  const keeping = keepNumberIndexes(db, PATHS, stopping.signal);
  await expect.poll(isWaiting, soon).toBe(true);
  expect(await keepNumberIndexes(db, PATHS)).toEqual({ made: [], dropped: [] });
  await db.pool.query(insert(2));
  expect(await isWaiting()).toBe(true);
  stopping.abort(new Error("stopped"));
  await expect(keeping).rejects.toThrow("stopped");
  await writer.query("commit");
  writer.release();

  await expect.poll(async () => (await keepNumberIndexes(db, PATHS)).dropped.length, soon).toBe(1);
  const counts = Object.values(await indexes(db));
  expect(new Set(counts)).toEqual(new Set([PATHS.length]));
});

test("where one index cannot be made the others are, and the failure is told", async () => {
  await using database = await createTestDatabase();
  await using db = openDatabase(database.url);
  await db.pool.query("create table events.other (n int)");
  const { made } = await keepNumberIndexes(db, PATHS.slice(0, 1));
  await keepNumberIndexes(db, []);
  await db.pool.query(`create index ${made[0]} on events.other (n)`);
  await expect(keepNumberIndexes(db, PATHS)).rejects.toThrow(/already exists/);
  const counts = Object.values(await indexes(db));
  expect(counts.toSorted((a, b) => a - b)).toEqual([
    1,
    ...Array.from({ length: counts.length - 1 }, () => 2),
  ]);
});
