import { setTimeout as sleep } from "node:timers/promises";

import { type Database } from "#postgres/pool.ts";
import { rollUp } from "#postgres/roll-up.ts";
import { type Logger } from "#runtime/log.ts";
import { type Telemetry } from "#runtime/telemetry.ts";

/** What keeping the sums by hour needs. */
export interface RollUpOptions {
  readonly db: Database;
  readonly telemetry: Telemetry;
  readonly log: Logger;
  /** The pause after everything was summed up, in milliseconds. */
  readonly intervalMs: number;
}

/** Keeps the sums by hour while it runs. */
export interface RollUp {
  /** Why it does not at the moment; undefined while it does. */
  readonly fault: string | undefined;
  /** Returns when the signal is raised and its step is done. */
  run(signal: AbortSignal): Promise<void>;
}

/** The pause after a round that failed, as a multiple of the usual one. */
const FAILED_PAUSE = 5;

/**
 * Sums up what was stored, step by step. Behind a backlog it works half of the time, so that readers and writers have the
 * other. Several processes may do it: whoever finds another at it has nothing to do in that round.
 */
export function createRollUp({ db, telemetry, log, intervalMs }: RollUpOptions): RollUp {
  let fault: string | undefined = "nothing was summed up yet";
  let lag: number | undefined;
  return {
    get fault() {
      return fault;
    },
    async run(signal) {
      using _lag = telemetry.observe("weir.store.rollups.lag", () => (lag === undefined ? [] : [[{}, lag]]));
      while (!signal.aborted) {
        let pauseMs = intervalMs;
        const startedAt = performance.now();
        try {
          lag = (await rollUp(db))?.lag;
          fault = undefined;
          if (lag !== undefined && lag > 0) pauseMs = Math.min(intervalMs, performance.now() - startedAt);
        } catch (error) {
          // What is not known is not shown.
          lag = undefined;
          pauseMs = intervalMs * FAILED_PAUSE;
          fault = `summing up events: ${error instanceof Error ? error.message : String(error)}`;
          log.warn("Events could not be summed up; it is tried again", { error, inMs: pauseMs });
        }
        await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
      }
    },
  };
}
