import { type StoredEvent } from "#core/event.ts";
import { type Claim, persistBatch, takeOver } from "#postgres/claims.ts";
import { createDatabase } from "#postgres/pool.ts";
import { createTelemetry } from "#runtime/telemetry.ts";

import { silentLogger } from "../test/support/logger.ts";
import { createIndexTerms } from "../workers/index-terms.ts";
import { createRollUp } from "../workers/roll-up.ts";
import { answer, order } from "./child-task.ts";
import { CHUNK, createChunk, GROUP, LOG_PARTITIONS, TOPIC } from "./search-events.ts";

// Stores events until it is ended, as the persist role does, beside the roles that every Weir has.

/** What it is told. */
export interface LoadOrder {
  readonly url: string;
  /** Events that are there. */
  readonly rows: number;
}

/** What it says with each batch. */
export interface LoadReport {
  /** Events so far. */
  readonly stored: number;
}

const BATCH = 500;
const { url, rows } = await order<LoadOrder>();
const open = (): ReturnType<typeof createDatabase> =>
  createDatabase({
    url,
    poolSize: 1,
    applicationName: "weir bench load",
    statementTimeoutMs: 60_000,
    connectTimeoutMs: 60_000,
    logger: silentLogger,
  });
const telemetry = createTelemetry(silentLogger);
const running = new AbortController();
process.on("SIGTERM", () => running.abort());
await using indexing = open();
await using summing = open();
const roles = [
  createIndexTerms({ db: indexing, telemetry, log: silentLogger }).run(running.signal),
  createRollUp({ db: summing, telemetry, log: silentLogger, intervalMs: 10_000 }).run(running.signal),
];
await using db = open();
const claims: Claim[] = [];
for (let partition = 0; partition < LOG_PARTITIONS; partition++)
  claims.push(await takeOver(db, { group: GROUP, topic: TOPIC, partition, owner: "bench load" }));
let stored = 0;
for (let chunk = Math.ceil(rows / CHUNK); !running.signal.aborted; chunk += 1) {
  const lanes = new Map<number, StoredEvent[]>();
  for (const event of createChunk(chunk, rows)) {
    const lane = lanes.get(event.position.partition);
    if (lane === undefined) lanes.set(event.position.partition, [event]);
    else lane.push(event);
  }
  for (const [partition, events] of lanes) {
    for (let at = 0; at < events.length && !running.signal.aborted; at += BATCH) {
      const batch = events.slice(at, at + BATCH);
      const nextOffset = batch.at(-1)!.position.offset + 1n;
      await persistBatch(db, claims[partition]!, { events: batch, deadLetters: [], skips: [], nextOffset });
      stored += batch.length;
      answer({ stored } satisfies LoadReport);
    }
  }
}
await Promise.all(roles);
process.disconnect?.();
