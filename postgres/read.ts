import pg from "pg";

import { isQueryTimeout, QueryTimeoutError } from "./failures.ts";
import { type Database } from "./pool.ts";

/**
 * The rows of one statement that only reads.
 *
 * @param signal when it is raised PostgreSQL is told to stop, and the read rejects with the signal's reason.
 * @throws QueryTimeoutError where PostgreSQL did not answer within the pool's statement timeout.
 */
export async function read<R extends pg.QueryResultRow>(
  db: Database,
  statement: pg.QueryConfig,
  signal?: AbortSignal,
): Promise<readonly R[]> {
  signal?.throwIfAborted();
  const client: pg.PoolClient & { readonly processID?: number } = await db.pool.connect();
  let cancelled: Promise<unknown> | undefined;
  const cancel = (): void => {
    cancelled = db.probes.query("select pg_cancel_backend($1)", [client.processID]).catch(() => {});
  };
  let isBroken = false;
  try {
    signal?.throwIfAborted();
    signal?.addEventListener("abort", cancel);
    return (await client.query<R>(statement)).rows;
  } catch (error) {
    isBroken = !(error instanceof pg.DatabaseError);
    signal?.throwIfAborted();
    throw isQueryTimeout(error) ? new QueryTimeoutError(error) : error;
  } finally {
    signal?.removeEventListener("abort", cancel);
    // Or the one who has the connection next would be told to stop.
    await cancelled;
    client.release(isBroken);
  }
}
