import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterEach, beforeEach, expect, inject, test, vi } from "vitest";

import { migrate, type MigrateOptions, MigrationError, pendingMigrations } from "#postgres/migrate.ts";

import { createEmptyDatabase, createTestDatabase, type TestDatabase } from "../support/database.ts";
import { silentLogger } from "../support/logger.ts";
import { openDatabase } from "./fixture.ts";

let database: TestDatabase;
let client: pg.Client;
let folder: string;

beforeEach(async () => {
  database = await createEmptyDatabase();
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
  folder = mkdtempSync(join(tmpdir(), "weir-migrations-"));
  // What every migrated database has, as the partitions hang on it.
  writeFile(
    "0001_events.sql",
    "create schema events; create table events.event (occurred_at timestamptz not null, at int, terms int[]) partition by range (occurred_at); create table events.event_default partition of events.event default;",
  );
});
afterEach(async () => {
  await client.end();
  await database[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

const writeFile = (name: string, text: string): void => writeFileSync(join(folder, name), text);
const run = (options: Partial<MigrateOptions> = {}): Promise<readonly string[]> =>
  migrate({ url: database.url, folder, logger: silentLogger, ...options });
const tableExists = async (name: string): Promise<boolean> =>
  (await client.query<{ there: boolean }>("select to_regclass($1) is not null as there", [name])).rows[0]!
    .there;
const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => "none",
    (error: unknown) => error,
  );

test("files run once each, in order, with the partitions of the present after them", async () => {
  writeFile("0003_c.sql", "insert into b values (1)");
  writeFile("0002_b.sql", "create table b (n int)");
  writeFile("notes.txt", "not SQL");
  const now = new Date("2026-11-30T00:00:00Z");
  expect(await run({ now })).toEqual(["0001_events.sql", "0002_b.sql", "0003_c.sql"]);
  expect(await run({ now })).toEqual([]);
  expect((await client.query("select from b")).rowCount).toBe(1);
  expect(await tableExists("events.event_2026_07")).toBe(true);
  expect(await tableExists("events.event_2027_02")).toBe(true);
  writeFile("0004_d.sql", "insert into b values (2)");
  expect(await run({ now })).toEqual(["0004_d.sql"]);
});

test("several processes at once apply each file once", async () => {
  writeFile("0002_b.sql", "create table b (n int)");
  writeFile("0003_c.sql", "insert into b select 1 from pg_sleep(0.2)");
  const applied = await Promise.all([run(), run(), run()]);
  expect(applied.flat()).toEqual(["0001_events.sql", "0002_b.sql", "0003_c.sql"]);
  expect((await client.query("select from b")).rowCount).toBe(1);
});

test("a file that changed after it ran is refused, and nothing more is applied", async () => {
  writeFile("0002_b.sql", "create table b (n int)");
  await run();
  writeFile("0002_b.sql", "create table b (n bigint)");
  writeFile("0003_c.sql", "create table c ()");
  const failure = await failureOf(run());
  expect(failure).toBeInstanceOf(MigrationError);
  expect(failure).toMatchObject({
    message: "Changed after it ran: 0002_b.sql. Restore the file and write a new migration instead.",
  });
  expect(await tableExists("c")).toBe(false);
  writeFile("0002_b.sql", "create table b (n int)\r\n".trimEnd());
  expect(await run()).toEqual(["0003_c.sql"]);
});

test("line ends that a checkout changed are no change", async () => {
  writeFile("0002_b.sql", "create table b (\n  n int\n)");
  await run();
  writeFile("0002_b.sql", "create table b (\r\n  n int\r\n)");
  expect(await run()).toEqual([]);
});

test("a database that is ahead of the code is refused", async () => {
  writeFile("0002_b.sql", "create table b (n int)");
  await run();
  rmSync(join(folder, "0002_b.sql"));
  await expect(run()).rejects.toThrow(
    "The database is ahead of this code: it has 0002_b.sql. Run the newer version of Weir.",
  );
});

test("a file that fails leaves nothing of itself, and says which and why", async () => {
  writeFile("0002_b.sql", "create table b (n int); insert into b values (1 / 0);");
  writeFile("0003_c.sql", "create table c ()");
  const failure = await failureOf(run());
  expect(failure).toBeInstanceOf(MigrationError);
  expect(failure).toMatchObject({
    message: "Migration 0002_b.sql failed: division by zero",
    cause: { code: "22012" },
  });
  expect([await tableExists("b"), await tableExists("c")]).toEqual([false, false]);
  writeFile("0002_b.sql", "create table b (n int)");
  expect(await run()).toEqual(["0002_b.sql", "0003_c.sql"]);
});

test("a file and the note of it are one transaction", async () => {
  writeFile(
    "0002_b.sql",
    "create table b (); insert into migration.applied (name, sha256) values ('0002_b.sql', 'in the way')",
  );
  await expect(run()).rejects.toMatchObject({ cause: { code: "23505" } });
  expect(await tableExists("b")).toBe(false);
});

test("a file marked so runs outside a transaction, while another process waits for its turn", async () => {
  writeFile("0002_b.sql", "create table b (n int)");
  writeFile("0003_c.sql", "-- no transaction\ncreate index concurrently b_n_idx on b (n)");
  const applied = await Promise.all([run(), run()]);
  expect(applied.flat()).toEqual(["0001_events.sql", "0002_b.sql", "0003_c.sql"]);
  const { rows } = await client.query(
    "select indisvalid from pg_index where indexrelid = 'b_n_idx'::regclass",
  );
  expect(rows).toEqual([{ indisvalid: true }]);
});

test("the wait for another process has a bound", async () => {
  await client.query("select pg_advisory_lock(hashtext('weir.migrate'))");
  await expect(run({ lockWaitMs: 300 })).rejects.toThrow(/^Another process has been migrating .* for 300 ms/);
  await client.query("select pg_advisory_unlock(hashtext('weir.migrate'))");
  expect(await run({ lockWaitMs: 300 })).toEqual(["0001_events.sql"]);
});

test("a migrator that is killed leaves no lock and no half of a file", async () => {
  writeFile("0002_b.sql", "create table b (n int); select pg_sleep(60);");
  const running = failureOf(run());
  const terminate = async (): Promise<void> => {
    const { rowCount } = await client.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and query like '%pg_sleep(60)%' and pid <> pg_backend_pid()",
    );
    expect(rowCount).toBe(1);
  };
  await vi.waitFor(terminate);
  expect(await running).toMatchObject({ cause: { code: "57P01" } });
  writeFile("0002_b.sql", "create table b (n int)");
  expect(await run()).toEqual(["0002_b.sql"]);
});

test("a database that cannot hold every event is refused", async () => {
  const name = `weir_test_ascii_${process.pid}`;
  const admin = new pg.Client({ connectionString: inject("databaseUrl") });
  await admin.connect();
  await admin.query(
    `create database ${name} encoding 'SQL_ASCII' locale 'C' locale_provider libc template template0`,
  );
  const url = new URL(database.url);
  url.pathname = `/${name}`;
  await expect(run({ url: url.href })).rejects.toThrow(/encoding is SQL_ASCII.*'UTF8'/);
  await admin.query(`drop database ${name}`);
  await admin.end();
});

test("what a database lacks is told, before it was ever migrated and after", async () => {
  await using db = openDatabase(database.url);
  const all = readdirSync(new URL("../../migrations/", import.meta.url));
  expect(await pendingMigrations(db)).toEqual(all.filter((name) => name.endsWith(".sql")).toSorted());
  await using migrated = await createTestDatabase();
  await using other = openDatabase(migrated.url);
  expect(await pendingMigrations(other)).toEqual([]);
});

test("the project's own files have a number each", () => {
  const names = readdirSync(join(import.meta.dirname, "../../migrations"));
  const numbers = names.map((name) => /^(\d{4})_\w+\.sql$/.exec(name)?.[1]);
  expect(new Set(numbers).size).toBe(names.length);
  expect(numbers).not.toContain(undefined);
});
