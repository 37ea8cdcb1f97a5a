import { setTimeout as sleep } from "node:timers/promises";

import { type Logger } from "#runtime/log.ts";
import { type Database } from "./pool.ts";

/** The channel of PostgreSQL on which it is said that a checkpoint has moved. */
export const PROGRESS_CHANNEL = "weir_progress";

/** Tells whoever listens that checkpoints have moved. */
export interface ProgressHints {
  /** That the checkpoint of a partition has moved to an offset, and is committed. Returns at once and never throws. */
  passed(partition: number, nextOffset: bigint): void;
}

/** From one statement of hints to the next, in milliseconds. */
const INTERVAL_MS = 25;

// On its own, after the transaction that it tells of: NOTIFY takes a lock of the whole server until its commit, and a hint that
// is lost costs nobody more than a poll's interval, so nothing waits for the disk either.
const NOTIFY = `select set_config('synchronous_commit', 'off', true), pg_notify('${PROGRESS_CHANNEL}', hint) from unnest($1::text[]) as hint`;

/**
 * Sends hints, `partition:offset` each: the first at once, then what came together every 25 ms, by the connection of the probes.
 * What cannot be sent is let go: whoever listens looks for itself from time to time.
 */
export function createProgressHints(db: Pick<Database, "probes">, log: Pick<Logger, "debug">): ProgressHints {
  const due = new Map<number, bigint>();
  let isResting = false;

  async function send(): Promise<void> {
    isResting = true;
    while (due.size > 0) {
      const hints = Array.from(due, ([partition, offset]) => `${String(partition)}:${String(offset)}`);
      due.clear();
      const rest = sleep(INTERVAL_MS, undefined, { ref: false });
      await db.probes
        .query({ name: "progress.notify", text: NOTIFY, values: [hints] })
        .catch((error: unknown) => log.debug("A hint of progress was not sent", { error }));
      await rest;
    }
    isResting = false;
  }

  return {
    passed(partition, nextOffset) {
      due.set(partition, nextOffset);
      if (!isResting) void send();
    },
  };
}
