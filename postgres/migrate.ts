import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import pg from "pg";

import { type Logger } from "#runtime/log.ts";

import { ensurePartitions } from "./partitions.ts";
import { createDatabase, type Database } from "./pool.ts";

/** What {@link migrate} needs. */
export interface MigrateOptions {
  /** `postgres://user:password@host:port/database`, as a user who may create schemas. */
  readonly url: string;
  /** Hears of every file that was applied and every partition that was made. */
  readonly logger: Logger;
  /** The clock that the partitions follow. Default: now. */
  readonly now?: Date;
  /** Where the SQL files are. Default: the project's own migrations/. */
  readonly folder?: string;
  /** How long to wait for another process that migrates, in milliseconds. Default 60,000. */
  readonly lockWaitMs?: number;
}

/** The database and the code do not fit together. The message is one line that says what to do. */
export class MigrationError extends Error {
  override readonly name = "MigrationError";
}

interface Migration {
  readonly name: string;
  readonly text: string;
  readonly sha256: string;
}

/** The project's own. */
const MIGRATIONS = fileURLToPath(new URL("../migrations/", import.meta.url));
const APPLICATION_NAME = "weir migrate";
const CONNECT_TIMEOUT_MS = 10_000;

const HISTORY = `
create schema if not exists migration;
create table if not exists migration.applied (
  name text primary key, sha256 text not null, applied_at timestamptz not null default now()
)`;

/**
 * Brings a database to the schema of this code, makes the partitions of the present, and answers the names of the files
 * that it applied: each .sql file of the folder once, in the order of their names, each in a transaction of its own, one
 * process at a time. A file whose first line is `-- no transaction` runs outside of one; it must be a single statement
 * that may be repeated, since it may have run and not have been noted. A statement runs as long as it takes, but waits
 * no longer than 10 s for a lock, behind which every reader and writer would wait too.
 *
 * @throws MigrationError where a file changed after it ran, where the database is ahead of the code or not in UTF-8, and
 * where a file failed (then with the cause).
 */
export async function migrate(options: MigrateOptions): Promise<readonly string[]> {
  const { url, logger } = options;
  const migrations = await readMigrations(options.folder ?? MIGRATIONS);
  const client = new pg.Client({
    connectionString: url,
    application_name: APPLICATION_NAME,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    lock_timeout: 10_000,
    keepAlive: true,
  });
  client.on("error", () => {}); // the statement under way reports it
  try {
    await client.connect();
    await checkEncoding(client);
    await lock(client, options.lockWaitMs ?? 60_000);
    await client.query(HISTORY);
    const pending = await findPending(client, migrations);
    for (const migration of pending) {
      await apply(client, migration);
      logger.info("Migration applied", { name: migration.name });
    }
    await makePartitions(url, options.now ?? new Date(), logger);
    return pending.map(({ name }) => name);
  } finally {
    await client.end(); // and the lock with it
  }
}

/**
 * The names of the files that the database has not had yet; empty where its schema is that of this code or of a later
 * one. Asks on the connection of the probes, and rejects with what it said where the database does not answer.
 */
export async function pendingMigrations(db: Pick<Database, "probes">): Promise<readonly string[]> {
  return (await compareSchema(db)).pending;
}

/** How the schema of a database differs from that of this code, by the names of the files. */
export interface SchemaDifference {
  /** The database has not had these yet. */
  readonly pending: readonly string[];
  /** It has had these, of a later version. */
  readonly unknown: readonly string[];
}

/** As {@link pendingMigrations}, in both directions. */
export async function compareSchema(db: Pick<Database, "probes">): Promise<SchemaDifference> {
  const names = await migrationNames(MIGRATIONS);
  const history = await db.probes.query<{ there: boolean }>(
    "select to_regclass('migration.applied') is not null as there",
  );
  if (!history.rows[0]!.there) return { pending: names, unknown: [] };
  const { rows } = await db.probes.query<{ name: string }>("select name from migration.applied");
  const applied = new Set(rows.map(({ name }) => name));
  const known = new Set(names);
  return {
    pending: names.filter((name) => !applied.has(name)),
    unknown: [...applied].filter((name) => !known.has(name)).toSorted(),
  };
}

async function makePartitions(url: string, now: Date, logger: Logger): Promise<void> {
  await using db = createDatabase({
    url,
    poolSize: 1,
    applicationName: APPLICATION_NAME,
    statementTimeoutMs: 60_000,
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    logger,
  });
  for (const name of await ensurePartitions(db, now)) logger.info("Partition made", { name });
}

async function checkEncoding(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ encoding: string }>(
    "select current_setting('server_encoding') as encoding",
  );
  if (rows[0]!.encoding !== "UTF8")
    throw new MigrationError(
      `The database's encoding is ${rows[0]!.encoding}, which cannot hold every event: create it with encoding 'UTF8'.`,
    );
}

async function migrationNames(folder: string): Promise<readonly string[]> {
  return (await readdir(folder)).filter((name) => name.endsWith(".sql")).toSorted();
}

async function readMigrations(folder: string): Promise<readonly Migration[]> {
  const read = async (name: string): Promise<Migration> => {
    const text = (await readFile(`${folder}/${name}`, "utf8")).replaceAll("\r\n", "\n");
    return { name, text, sha256: createHash("sha256").update(text).digest("hex") };
  };
  return Promise.all((await migrationNames(folder)).map(read));
}

// Asks again and again: a statement that waits would hold a snapshot, for which the other process's CREATE INDEX
// CONCURRENTLY waits in turn.
async function lock(client: pg.Client, waitMs: number): Promise<void> {
  const deadline = Date.now() + waitMs;
  for (;;) {
    const { rows } = await client.query<{ held: boolean }>(
      "select pg_try_advisory_lock(hashtext('weir.migrate')) as held",
    );
    if (rows[0]!.held) return;
    if (Date.now() >= deadline)
      throw new MigrationError(
        `Another process has been migrating this database for ${waitMs} ms: wait for it to end, then start again.`,
      );
    await sleep(Math.min(200, waitMs));
  }
}

async function findPending(
  client: pg.Client,
  migrations: readonly Migration[],
): Promise<readonly Migration[]> {
  const { rows } = await client.query<{ name: string; sha256: string }>(
    'select name, sha256 from migration.applied order by name collate "C"',
  );
  const applied = new Map(rows.map(({ name, sha256 }) => [name, sha256]));
  const known = new Set(migrations.map(({ name }) => name));
  const unknown = rows.filter(({ name }) => !known.has(name));
  if (unknown.length > 0)
    throw new MigrationError(
      `The database is ahead of this code: it has ${unknown.map(({ name }) => name).join(", ")}. Run the newer version of Weir.`,
    );
  const changed = migrations.filter(({ name, sha256 }) => applied.has(name) && applied.get(name) !== sha256);
  if (changed.length > 0)
    throw new MigrationError(
      `Changed after it ran: ${changed.map(({ name }) => name).join(", ")}. Restore the file and write a new migration instead.`,
    );
  return migrations.filter(({ name }) => !applied.has(name));
}

async function apply(client: pg.Client, { name, text, sha256 }: Migration): Promise<void> {
  const note = (): Promise<unknown> =>
    client.query("insert into migration.applied (name, sha256) values ($1, $2)", [name, sha256]);
  try {
    if (text.startsWith("-- no transaction\n")) {
      await client.query(text);
      await note();
      return;
    }
    // One that fails leaves its transaction open, and the end of the connection rolls it back.
    await client.query("begin");
    await client.query(text);
    await note();
    await client.query("commit");
  } catch (error) {
    throw new MigrationError(
      `Migration ${name} failed: ${error instanceof Error ? error.message : String(error)}`,
      {
        cause: error,
      },
    );
  }
}
