import pg from "pg";

import { copyInto } from "./copy.ts";
import { classify } from "./failures.ts";
import { type Database } from "./pool.ts";

declare const open: unique symbol;

/** A transaction that is open. What must commit together with other writes demands one and so cannot run alone. */
export interface Tx {
  readonly [open]: true;
  /** Runs one statement within the transaction. */
  query<R extends pg.QueryResultRow>(statement: pg.QueryConfig): Promise<pg.QueryResult<R>>;
  /** Runs a `COPY … FROM STDIN` with all of its data, and what may stand before it in the text. */
  copy(text: string, data: Uint8Array): Promise<void>;
}

/**
 * The connection was lost while the transaction committed: its writes may be durable or not. The writes of this folder
 * are made so that the same call again is right in both cases.
 */
export class CommitUnknownError extends Error {
  override readonly name = "CommitUnknownError";
  constructor(cause: unknown) {
    super("The connection to PostgreSQL was lost during COMMIT: the writes may be durable or not.", {
      cause,
    });
  }
}

/**
 * Runs `work` in one transaction and commits it. Where `work` throws, nothing is written and the error goes on to the
 * caller. A connection that failed in any way is closed, never used again.
 *
 * @throws CommitUnknownError where the answer to COMMIT did not come.
 */
export async function transaction<T>(db: Database, work: (tx: Tx) => Promise<T>): Promise<T> {
  const span = db.startSpan?.();
  try {
    const value = await run(db, work);
    span?.end();
    return value;
  } catch (error) {
    if (error instanceof pg.DatabaseError && error.code !== undefined)
      span?.set({ "db.response.status_code": error.code });
    span?.end(error instanceof pg.DatabaseError ? (error.code ?? error.name) : nameOf(error));
    throw error;
  }
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : "Error";
}

async function run<T>(db: Database, work: (tx: Tx) => Promise<T>): Promise<T> {
  const client = await db.pool.connect();
  let ended = false;
  const refuseEnded = (): void => {
    if (ended) throw new Error("The transaction has ended: nothing more can be written in it.");
  };
  const tx = {
    query: (statement: pg.QueryConfig) => {
      refuseEnded();
      return client.query(statement);
    },
    copy: (text: string, data: Uint8Array) => {
      refuseEnded();
      return copyInto(client, text, data);
    },
  } as Tx;
  try {
    await client.query("begin");
    const value = await work(tx);
    ended = true;
    await commit(client);
    client.release();
    return value;
  } catch (error) {
    ended = true;
    client.release(await rollBack(client, error));
    throw error;
  }
}

async function commit(client: pg.PoolClient): Promise<void> {
  let command: string;
  try {
    ({ command } = await client.query("commit"));
  } catch (error) {
    throw classify(error) === "unavailable" ? new CommitUnknownError(error) : error;
  }
  // PostgreSQL answers the COMMIT of a failed transaction with success and the tag ROLLBACK.
  if (command !== "COMMIT")
    throw new Error("PostgreSQL rolled the transaction back: a statement in it had failed.");
}

/** Answers whether the connection must be closed: only one that PostgreSQL answers on may be used again. */
async function rollBack(client: pg.PoolClient, error: unknown): Promise<boolean> {
  if (!(error instanceof pg.DatabaseError)) return true;
  return client.query("rollback").then(
    () => false,
    () => true,
  );
}
