import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";

import { type Logger } from "#runtime/log.ts";
import { type Span, type Tracer } from "#runtime/tracing.ts";

/** A database, as the modules of this folder use it. Others create it, hand it on and dispose of it. */
export interface Database extends AsyncDisposable {
  /** The connections that the work runs on. */
  readonly pool: pg.Pool;
  /** One connection apart for {@link probe} and what else is short and must not wait for those at work, so that busy is not taken for away. */
  readonly probes: pg.Pool;
  /** Begins the span of a transaction, where it is recorded; absent where tracing is off. */
  readonly startSpan?: () => Span<"transaction"> | undefined;
}

/** What {@link createDatabase} needs. */
export interface DatabaseOptions {
  /** `postgres://user:password@host:port/database`; TLS by `?sslmode=verify-full&sslrootcert=…`. */
  readonly url: string;
  /** Connections at most. A caller that finds none free waits for up to `connectTimeoutMs`. */
  readonly poolSize: number;
  /** What the server shows in pg_stat_activity. */
  readonly applicationName: string;
  /** The bound of every statement, in milliseconds, held by the server; a second later the client gives up by itself. */
  readonly statementTimeoutMs: number;
  /** The bound of the wait for a connection, in milliseconds. */
  readonly connectTimeoutMs: number;
  /** Refuses every write, by the server. Default false. */
  readonly readOnly?: boolean;
  /** Settings of PostgreSQL for every connection of the pool, by name; default none. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Hears of connections that were lost while idle. */
  readonly logger: Logger;
  /** Traces the transactions. */
  readonly tracer?: Tracer | undefined;
}

const PROBE_TIMEOUT_MS = 1_000;
const CLOSE_TIMEOUT_MS = 5_000;

/**
 * Connects when the first statement comes, and again when the database was away: nothing needs to be made anew. Every
 * wait has a bound: for a connection, for a statement, and for a client that holds a transaction and says nothing.
 */
export function createDatabase(options: DatabaseOptions): Database {
  const { logger, settings = {} } = options;
  const parts = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`);
  const createPool = (size: number, connectTimeoutMs: number, statementTimeoutMs: number): pg.Pool => {
    const pool = new pg.Pool({
      connectionString: options.url,
      application_name: options.applicationName,
      max: size,
      connectionTimeoutMillis: connectTimeoutMs,
      statement_timeout: statementTimeoutMs,
      query_timeout: statementTimeoutMs + 1_000,
      idle_in_transaction_session_timeout: statementTimeoutMs,
      idleTimeoutMillis: 30_000,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
      ...(parts.length > 0 && { options: parts.join(" ") }),
      ...(options.readOnly === true && { verify: setReadOnly }),
    });
    // A client in use has no listener of the pool's: without one of ours, the loss of its connection between two
    // statements would end the process. Whoever uses the client hears of it from its next statement.
    pool.on("connect", (client) => client.on("error", () => {}));
    pool.on("error", (error) => logger.warn("An idle connection to PostgreSQL was lost", { error }));
    return pool;
  };
  const pool = createPool(options.poolSize, options.connectTimeoutMs, options.statementTimeoutMs);
  const probes = createPool(1, PROBE_TIMEOUT_MS, PROBE_TIMEOUT_MS);
  const close = async (): Promise<void> => {
    const closed = Promise.all([pool.end(), probes.end()]);
    const timeout = delay(CLOSE_TIMEOUT_MS, "timeout", { ref: false });
    if ((await Promise.race([closed, timeout])) === "timeout")
      logger.warn("PostgreSQL did not close its connections in time", { timeoutMs: CLOSE_TIMEOUT_MS });
  };
  let closing: Promise<void> | undefined;
  return {
    pool,
    probes,
    ...(options.tracer && { startSpan: spansOf(options.tracer, options.url) }),
    [Symbol.asyncDispose]: () => (closing ??= close()),
  };
}

function spansOf(tracer: Tracer, url: string): () => Span<"transaction"> | undefined {
  const database = decodeURIComponent(new URL(url).pathname.slice(1));
  const start = {
    name: `TRANSACTION ${database}`,
    attributes: {
      "db.system.name": "postgresql",
      "db.namespace": database,
      "db.operation.name": "TRANSACTION",
    },
  } as const;
  return () => tracer.start("transaction", start);
}

function setReadOnly(client: pg.PoolClient, done: (error?: Error) => void): void {
  client.query("set default_transaction_read_only = on", (error) => done(error));
}

/** Why the database does not answer, in one line, or undefined where it does; within a second either way. */
export async function probe(db: Database): Promise<string | undefined> {
  const answer = db.probes.query("select 1").then(
    () => undefined,
    (error: unknown) =>
      `PostgreSQL does not answer: ${error instanceof Error ? error.message : String(error)}`,
  );
  const silence = `PostgreSQL does not answer within ${PROBE_TIMEOUT_MS} ms`;
  return Promise.race([answer, delay(PROBE_TIMEOUT_MS, silence, { ref: false })]);
}

/** What the connections of a database do at the moment, and how many callers wait for one. */
export function countConnections(db: Database): { idle: number; used: number; waiting: number } {
  const { idleCount, totalCount, waitingCount } = db.pool;
  return { idle: idleCount, used: totalCount - idleCount, waiting: waitingCount };
}
