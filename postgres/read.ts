import type pg from "pg";

import { isQueryTimeout, QueryTimeoutError } from "./failures.ts";
import { type Database } from "./pool.ts";

/**
 * The rows of one statement that only reads.
 *
 * @throws QueryTimeoutError where PostgreSQL did not answer within the pool's statement timeout.
 */
export async function read<R extends pg.QueryResultRow>(
  db: Database,
  statement: pg.QueryConfig,
): Promise<readonly R[]> {
  try {
    return (await db.pool.query<R>(statement)).rows;
  } catch (error) {
    throw isQueryTimeout(error) ? new QueryTimeoutError(error) : error;
  }
}
