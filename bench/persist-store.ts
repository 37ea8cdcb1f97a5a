import pg from "pg";

import { migrate } from "#postgres/migrate.ts";
import { createDatabase, type Database } from "#postgres/pool.ts";

import { createServiceFolder, startLocalPostgres } from "../test/support/local-services.ts";
import { silentLogger } from "../test/support/logger.ts";

/** A PostgreSQL of the benchmark's own, as it is by default, fsync on. */
export interface Server extends AsyncDisposable {
  /** A database of this name, migrated, with the partitions of the events' time. */
  createStore(name: string, now: Date): Promise<Store>;
}

/** A database that is measured. */
export interface Store {
  /** Connects to it anew. */
  open(connections: number): Database;
  /** One statement, on a connection of its own. */
  query<R extends pg.QueryResultRow>(text: string): Promise<readonly R[]>;
}

/** Starts it, in a temporary folder that goes when it stops. */
export async function startServer(): Promise<Server> {
  const { folder, remove } = createServiceFolder("weir-bench-");
  const { urlOf, stop } = await startLocalPostgres(folder);
  async function query<R extends pg.QueryResultRow>(database: string, text: string): Promise<readonly R[]> {
    const client = new pg.Client({ connectionString: urlOf(database) });
    await client.connect();
    try {
      return (await client.query<R>(text)).rows;
    } finally {
      await client.end();
    }
  }
  return {
    async createStore(name, now) {
      await query("postgres", `create database ${name}`);
      const url = urlOf(name);
      await migrate({ url, logger: silentLogger, now });
      return {
        open: (poolSize) =>
          createDatabase({
            url,
            poolSize,
            applicationName: "weir bench",
            statementTimeoutMs: 600_000,
            connectTimeoutMs: 600_000,
            logger: silentLogger,
          }),
        query: (text) => query(name, text),
      };
    },
    async [Symbol.asyncDispose]() {
      await stop();
      remove();
    },
  };
}

/** Bytes of the table of events and of each of its indexes, over all partitions. */
export async function sizesOf(store: Store): Promise<ReadonlyMap<string, number>> {
  const sizes = await store.query<{ what: string; bytes: string }>(`
    with leaf as (select relid from pg_partition_tree('events.event') where isleaf)
    select 'table' as what, sum(pg_table_size(relid))::text as bytes from leaf
    union all
    select regexp_replace(parent.relname, '^event_', ''), sum(pg_relation_size(indexrelid))::text
    from leaf join pg_index on indrelid = relid join pg_inherits on inhrelid = indexrelid join pg_class parent on parent.oid = inhparent
    group by 1`);
  return new Map(sizes.map(({ what, bytes }) => [what, Number(bytes)]));
}
