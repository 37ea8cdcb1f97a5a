import { type Logger } from "#runtime/log.ts";

import { type ProduceError } from "./produce-errors.ts";
import { type Publication } from "./publication.ts";

/** What is known of a broker that answers and takes no record: an outage that nothing else shows. */
export interface Rejections {
  /** The broker has rejected a record for good. Answers why, in words for whoever sent it, and whether for its own sake. */
  add(
    error: ProduceError,
    publication: Publication,
    detail: string,
  ): { readonly said: string; readonly isOfRecord: boolean };
  /** The broker has taken a record. */
  clear(): void;
  /** Why the broker takes no records: none was taken since one was rejected for what is not its own fault; undefined otherwise. */
  readonly fault: string | undefined;
}

/** A record's time is our clock's where it is no further from it; others come with what is sent again. */
const CLOCK_MS = 60_000;
/**
 * Whoever is told of the fault may send no more records, and none would show that it is over: after so long without a
 * further rejection it is taken to be.
 */
const HOLD_MS = 30_000;

/** Watches what a topic's lane is told, and logs each turn. */
export function createRejections(topic: string, log: Logger): Rejections {
  let rejected: { readonly detail: string; readonly at: number } | undefined;
  return {
    add(error, { record }, detail) {
      const isClock =
        error.name === "INVALID_TIMESTAMP" && Math.abs(record.timestamp - Date.now()) < CLOCK_MS;
      if (error.ofRecord && !isClock) return { said: detail, isOfRecord: true };
      const said = isClock
        ? `${detail}: its clock and that of this server (${new Date().toISOString()}) are too far apart, and one must be set right`
        : detail;
      if (rejected === undefined) log.warn("Kafka rejects every record", { topic, reason: said });
      rejected = { detail: said, at: performance.now() };
      return { said, isOfRecord: false };
    },
    clear() {
      if (rejected !== undefined) log.info("Kafka takes records again", { topic });
      rejected = undefined;
    },
    get fault() {
      return rejected !== undefined && performance.now() - rejected.at < HOLD_MS
        ? rejected.detail
        : undefined;
    },
  };
}
