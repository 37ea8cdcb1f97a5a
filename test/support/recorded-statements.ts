import type pg from "pg";

import { type Database } from "#postgres/pool.ts";

/** A database that remembers what it was asked. */
export interface RecordedDatabase extends Database {
  /** The statements so far, in their order. */
  readonly statements: readonly pg.QueryConfig[];
}

/** The same database, whose statements that only read are remembered (`postgres/read.ts` connects for each). */
export function recordStatements(db: Database): RecordedDatabase {
  const statements: pg.QueryConfig[] = [];
  const connect = async (): Promise<pg.PoolClient> => {
    const client = await db.pool.connect();
    return new Proxy(client, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        return (...args: unknown[]): unknown => {
          if (name === "query") statements.push(args[0] as pg.QueryConfig);
          return Reflect.apply(value, target, args);
        };
      },
    });
  };
  const pool = new Proxy(db.pool, {
    get: (target, name) => (name === "connect" ? connect : Reflect.get(target, name, target)),
  });
  return { ...db, pool, statements };
}
