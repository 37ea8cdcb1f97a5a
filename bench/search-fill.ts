import { COPY_EVENTS, encodeRows } from "#postgres/event-columns.ts";
import { createDatabase } from "#postgres/pool.ts";
import { transaction } from "#postgres/tx.ts";

import { silentLogger } from "../test/support/logger.ts";
import { answer, order } from "./child-task.ts";
import { CHUNK, createChunk } from "./search-events.ts";

// One of the processes that make the events which searches are measured on.

/** What it is told. */
export interface FillOrder {
  readonly url: string;
  /** Events in all. */
  readonly rows: number;
  /** Which of the processes it is, and of how many: they take turns by chunks. */
  readonly index: number;
  readonly of: number;
}

/** What it answers at the end. */
export interface FillResult {
  readonly chunks: number;
}

const { url, rows, index, of } = await order<FillOrder>();
answer({});
await using db = createDatabase({
  url,
  poolSize: 1,
  applicationName: "weir bench fill",
  statementTimeoutMs: 3_600_000,
  connectTimeoutMs: 60_000,
  logger: silentLogger,
});
const chunks = Math.ceil(rows / CHUNK);
let copied: Promise<void> = Promise.resolve();
let done = 0;
for (let chunk = index; chunk < chunks; chunk += of) {
  const encoded = encodeRows(createChunk(chunk, rows));
  // The next is encoded while PostgreSQL takes this one.
  await copied;
  copied = transaction(db, (tx) => tx.copy(COPY_EVENTS, encoded));
  done += 1;
}
await copied;
answer({ chunks: done } satisfies FillResult);
