import { setTimeout as sleep } from "node:timers/promises";

import { type Database } from "#postgres/pool.ts";
import { mergeTerms } from "#postgres/term-index.ts";
import { type Logger } from "#runtime/log.ts";
import { type Telemetry } from "#runtime/telemetry.ts";

import { type Role } from "./role.ts";

/** What the index role needs. */
export interface IndexTermsOptions {
  readonly db: Database;
  readonly telemetry: Telemetry;
  readonly log: Logger;
  /** The pause between two rounds, in milliseconds; a second by default. */
  readonly intervalMs?: number;
}

/** The pause after a round that failed, and after one that found much, as parts of the usual one. */
const FAILED_PAUSE = 10;
const BUSY_PAUSE = 0.25;
/** A search reads so much pending in some milliseconds; less often merged, a row costs less. */
const MUCH_BYTES = 8 * 1024 * 1024;

/**
 * Merges every second, and more often under load, what inserts have left in the pending lists of the term index. Searches
 * find what is pending too, but read all of it each time, so they slow down where no process has the role. Several may have
 * it: an advisory lock keeps them apart, and whoever finds it taken has nothing to do in that round.
 */
export function createIndexTerms({ db, telemetry, log, intervalMs = 1_000 }: IndexTermsOptions): Role {
  let fault: string | undefined = "the pending lists were not looked at yet";
  let pending: number | undefined;
  return {
    name: "index",
    ready: Promise.resolve(),
    dependencies: ["postgresql"],
    get fault() {
      return fault;
    },
    // What keeps it from its work is tried again.
    failed: false,
    async run(signal) {
      using _pending = telemetry.observe("weir.store.terms.pending", () =>
        pending === undefined ? [] : [[{}, pending]],
      );
      while (!signal.aborted) {
        let pauseMs = intervalMs;
        try {
          pending = (await mergeTerms(db))?.bytes;
          if (pending !== undefined && pending > MUCH_BYTES) pauseMs = intervalMs * BUSY_PAUSE;
          fault = undefined;
        } catch (error) {
          pending = undefined;
          pauseMs = intervalMs * FAILED_PAUSE;
          fault = error instanceof Error ? error.message : String(error);
          log.warn("The index of terms could not be merged; it is tried again", { error, inMs: pauseMs });
        }
        await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
      }
    },
  };
}
