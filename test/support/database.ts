import { randomBytes } from "node:crypto";
import pg from "pg";
import { inject } from "vitest";

import { migrate } from "#postgres/migrate.ts";

import { silentLogger } from "./logger.ts";

/** A database of its own for a suite. */
export interface TestDatabase extends AsyncDisposable {
  readonly url: string;
}

/** An empty database with a name of its own on the run's PostgreSQL, dropped when it is disposed of. */
export async function createEmptyDatabase(): Promise<TestDatabase> {
  const admin = inject("databaseUrl");
  const name = `weir_test_${randomBytes(8).toString("hex")}`;
  await runOnce(admin, `create database ${name}`);
  const url = new URL(admin);
  url.pathname = `/${name}`;
  return {
    url: url.href,
    // Forced: a suite that failed may have left connections behind.
    [Symbol.asyncDispose]: () => runOnce(admin, `drop database ${name} with (force)`),
  };
}

/** As {@link createEmptyDatabase}, migrated, with the partitions of the present. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const database = await createEmptyDatabase();
  try {
    await migrate({ url: database.url, logger: silentLogger });
    return database;
  } catch (error) {
    await database[Symbol.asyncDispose]();
    throw error;
  }
}

async function runOnce(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
