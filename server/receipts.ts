import { formatDeadLetterName } from "#core/dead-letter-name.ts";
import { fatesOf } from "#postgres/fates.ts";
import { type Database } from "#postgres/pool.ts";
import { type Progress } from "#postgres/progress.ts";
import { type Telemetry } from "#runtime/telemetry.ts";
import { createStageWatch, type StageWatch } from "./stage-watch.ts";
import { type Reached } from "./wire.ts";

/** What receipts that wait for the store need. */
export interface StoredWatchOptions {
  /** Where dead letters and skips are looked up. */
  readonly database: Database;
  readonly progress: Pick<Progress, "follow">;
  /** The consumer group that stores events, and the topic that it consumes. */
  readonly group: string;
  readonly topic: string;
  /** How many events may be waited for at once. */
  readonly capacity: number;
  readonly telemetry: Telemetry;
  /** Raised when waits are to end as they are. */
  readonly stopping: AbortSignal;
}

/** Waits until events are stored, or turn out to be dead letters. */
export function createStoredWatch(options: StoredWatchOptions): StageWatch<Reached> {
  const { database, group, topic } = options;
  return createStageWatch<Reached>({
    ...options,
    async judge(places) {
      const fates = await fatesOf(database, { group, topic }, places);
      return places.map((place, index) => {
        switch (fates[index]) {
          case "stored":
            return { stage: "stored" };
          case "dead_lettered":
            return { stage: "dead_lettered", deadLetter: formatDeadLetterName({ group, topic, ...place }) };
          default:
            return undefined;
        }
      });
    },
  });
}

/** Of what is left until a call's deadline, this is kept for the answer to get back: at most so much, at most so large a part. */
const ANSWER_MS = 250;
const ANSWER_PART = 0.25;

/** How long a call may wait that has so long left; both in milliseconds. */
export function waitTime(leftMs: number): number {
  return Math.max(0, leftMs - Math.min(ANSWER_MS, leftMs * ANSWER_PART));
}
