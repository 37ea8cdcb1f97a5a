import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import pg from "pg";

import { takeOver } from "#postgres/claims.ts";
import { migrate, MigrationError } from "#postgres/migrate.ts";
import { keepNumberIndexes } from "#postgres/number-indexes.ts";
import { createDatabase, type Database, type DatabaseOptions } from "#postgres/pool.ts";
import { rollUp } from "#postgres/roll-up.ts";
import { mergeTerms } from "#postgres/term-index.ts";

import { cacheFolder } from "../dev/kafka-jars.ts";
import { acquireLock } from "../dev/lock.ts";
import { choosePostgresPlace, type PostgresPlace } from "../dev/postgres-place.ts";
import { POSTGRES_DATABASE, postgresUrl, startPostgres } from "../dev/postgres.ts";
import { freePort } from "../dev/ports.ts";
import { silentLogger } from "../test/support/logger.ts";
import { runClient } from "./child-task.ts";
import { DAYS, END, GENERATOR_VERSION, GROUP, LOG_PARTITIONS, TOPIC } from "./search-events.ts";
import type { FillOrder, FillResult } from "./search-fill.ts";

/** A PostgreSQL with the events of the benchmark; disposing stops it and keeps the data. */
export interface SearchStore extends AsyncDisposable {
  /** Of a superuser. */
  readonly url: string;
  /** Connects to it anew. */
  open(options: Partial<DatabaseOptions>): Database;
}

/** What rows consist of: where it changed, those that were made before are made anew. */
const MADE_BY = ["core/terms.ts", "core/words.ts", "core/searchable.ts", "postgres/event-columns.ts"];
const FILLERS = 2;
/** Whose numbers have an index. */
const NUMBER_PATHS = [["amount"]];
const ROOT = join(import.meta.dirname, "..");

// A crash while the data are made costs making them again, no more.
const WHILE_MADE = {
  fsync: "off",
  full_page_writes: "off",
  synchronous_commit: "off",
  wal_level: "minimal",
  max_wal_senders: "0",
  max_wal_size: "8GB",
  checkpoint_timeout: "30min",
  shared_buffers: "1GB",
  maintenance_work_mem: "512MB",
  autovacuum: "off",
};

// PostgreSQL comes with 128 MB, and its documentation advises a quarter of the memory.
const WHILE_ASKED = { shared_buffers: "4GB" };

/**
 * Starts a PostgreSQL with so many events, as it is by default but for its buffers. They are made once and kept in the cache folder that clones
 * share; where the schema has gone on since it is migrated, and where it or what makes the rows was changed, they are made anew.
 *
 * @throws Error where another process has them.
 */
export async function openSearchStore(rows: number): Promise<SearchStore> {
  const folder = join(cacheFolder(), `bench-search-${rows}`);
  mkdirSync(join(folder, "log"), { recursive: true });
  const lock = acquireLock(join(folder, "lock"), "");
  if (!("release" in lock))
    throw new Error(`Process ${lock.pid} has the events in ${folder}: wait for its end.`);
  await using stack = new AsyncDisposableStack();
  stack.defer(() => lock.release());
  const place = await choosePostgresPlace(folder);
  const start = async (settings: Readonly<Record<string, string>>): Promise<Running> => {
    const port = await freePort();
    const child = await startPostgres({
      ...place,
      logFile: join(folder, "log", "postgres.log"),
      port,
      settings,
    });
    return { url: postgresUrl(port, place.password, POSTGRES_DATABASE), stop: () => child.stop() };
  };
  const stamp = join(folder, "made");
  const wanted = fingerprint();
  if (!(await isGood(stamp, wanted, start))) {
    rmSync(stamp, { force: true });
    await make(place, start, rows);
    writeFileSync(stamp, wanted);
  }
  const { url, stop } = await start(WHILE_ASKED);
  stack.defer(stop);
  await keepUp(url);
  const owned = stack.move();
  return { url, open: (options) => open(url, options), [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

interface Running {
  readonly url: string;
  readonly stop: () => Promise<void>;
}

type Start = (settings: Readonly<Record<string, string>>) => Promise<Running>;

function fingerprint(): string {
  const hash = createHash("sha256").update(`${GENERATOR_VERSION}`);
  for (const file of MADE_BY) hash.update(readFileSync(join(ROOT, file)));
  return hash.digest("hex");
}

/** Whether the data are whole and of this code; if they can be brought to its schema they are. */
async function isGood(stamp: string, wanted: string, start: Start): Promise<boolean> {
  try {
    if (readFileSync(stamp, "utf8") !== wanted) return false;
  } catch {
    return false;
  }
  const { url, stop } = await start({});
  try {
    await migrate({ url, logger: silentLogger, now: new Date(END) });
    return true;
  } catch (error) {
    if (!(error instanceof MigrationError)) throw error;
    return false;
  } finally {
    await stop();
  }
}

function open(url: string, options: Partial<DatabaseOptions>): Database {
  return createDatabase({
    url,
    poolSize: 1,
    applicationName: "weir bench",
    statementTimeoutMs: 3_600_000,
    connectTimeoutMs: 60_000,
    logger: silentLogger,
    ...options,
  });
}

async function make(place: PostgresPlace, start: Start, rows: number): Promise<void> {
  rmSync(place.dataDir, { recursive: true, force: true });
  const began = performance.now();
  const say = (line: string): void => {
    const seconds = ((performance.now() - began) / 1_000).toFixed(0);
    process.stdout.write(`${seconds.padStart(6)} s  ${line}\n`);
  };
  say(`${rows.toLocaleString("en")} events of ${DAYS} days are made once, and kept in ${place.dataDir}`);
  const { url, stop } = await start(WHILE_MADE);
  try {
    await migrate({ url, logger: silentLogger, now: new Date(END) });
    await fill(url, rows, say);
    await passCheckpoints(url, rows);
    say("vacuuming and analyzing");
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query("vacuum (analyze) events.event");
    await client.query("checkpoint");
    await client.end();
    say("made\n");
  } finally {
    await stop();
  }
}

/** Some processes copy the events in, while the terms are merged beside them as the index role does. */
async function fill(url: string, rows: number, say: (line: string) => void): Promise<void> {
  await using db = open(url, {});
  const filled = new AbortController();
  const merged = (async () => {
    while (!filled.signal.aborted) {
      await mergeTerms(db);
      const { rows: counted } = await db.pool.query<{ rows: string }>(
        "select sum(n_live_tup)::text as rows from pg_stat_all_tables where schemaname = 'events' and relname ~ '^event_2'",
      );
      say(`${Number(counted[0]!.rows).toLocaleString("en")} rows`);
      await sleep(5_000, undefined, { signal: filled.signal }).catch(() => undefined);
    }
    await mergeTerms(db);
  })();
  try {
    await Promise.all(
      Array.from({ length: FILLERS }, (_, index) =>
        runClient<FillResult>("search-fill.ts", { url, rows, index, of: FILLERS } satisfies FillOrder),
      ),
    );
  } finally {
    filled.abort();
    await merged;
  }
}

/** As if the persist role had stored them. */
async function passCheckpoints(url: string, rows: number): Promise<void> {
  await using db = open(url, {});
  for (let partition = 0; partition < LOG_PARTITIONS; partition++) {
    await takeOver(db, { group: GROUP, topic: TOPIC, partition, owner: "bench" });
    await db.pool.query(
      "update consumer.checkpoint set next_offset = $3, high_water = $3, records = $3 where topic = $1 and partition = $2",
      [TOPIC, partition, Math.ceil((rows - partition) / LOG_PARTITIONS)],
    );
  }
}

/** As the maintain role does it. */
async function keepUp(url: string): Promise<void> {
  await using db = open(url, {});
  await keepNumberIndexes(db, NUMBER_PATHS);
  while (((await rollUp(db))?.lag ?? 0) > 0);
}
