import { setTimeout as sleep } from "node:timers/promises";

import { keepNumberIndexes } from "#postgres/number-indexes.ts";
import { type NumberPath } from "#postgres/number-paths.ts";
import { type Database } from "#postgres/pool.ts";
import { type Logger } from "#runtime/log.ts";

/** What keeping the indexes of numbers needs. */
export interface NumberIndexesOptions {
  /** Its statements are bounded by hours: making an index reads all events of a month. */
  readonly db: Database;
  /** The paths into payloads whose numbers have an index. */
  readonly paths: readonly NumberPath[];
  readonly log: Logger;
  /** The pause between two looks for months without, in milliseconds. */
  readonly intervalMs: number;
}

/** Keeps the indexes of numbers while it runs. */
export interface NumberIndexes {
  /** Why it does not at the moment; undefined while it does. */
  readonly fault: string | undefined;
  /** Returns when the signal is raised; an index that is being made then is given up, and made later. */
  run(signal: AbortSignal): Promise<void>;
}

/** Makes the indexes of each month that comes, and drops those of paths that are named no more. Several processes may do it. */
export function createNumberIndexes({ db, paths, log, intervalMs }: NumberIndexesOptions): NumberIndexes {
  // To make them takes minutes, in which nothing is wrong.
  let fault: string | undefined;
  return {
    get fault() {
      return fault;
    },
    async run(signal) {
      while (!signal.aborted) {
        try {
          const { made, dropped } = await keepNumberIndexes(db, paths, signal);
          for (const index of made) log.info("An index of numbers was made", { index });
          for (const index of dropped) log.info("An index of numbers was dropped", { index });
          fault = undefined;
        } catch (error) {
          if (signal.aborted) return;
          fault = `indexes of numbers: ${error instanceof Error ? error.message : String(error)}`;
          log.warn("Indexes of numbers could not be kept; it is tried again", { error, inMs: intervalMs });
        }
        await sleep(intervalMs, undefined, { signal }).catch(() => undefined);
      }
    },
  };
}
