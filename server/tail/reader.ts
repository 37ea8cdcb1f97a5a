import { type LogOffsets } from "#core/tail-cursor.ts";
import { readLog } from "#postgres/log-reader.ts";
import { type Database } from "#postgres/pool.ts";
import { type Progress } from "#postgres/progress.ts";
import { type Logger } from "#runtime/log.ts";
import { type Telemetry } from "#runtime/telemetry.ts";
import { furthest, hasReached } from "./places.ts";
import { createRing, type Ring } from "./ring.ts";
import { createStretch } from "./stretch.ts";

/** The one reader of all tails of a process. */
export interface TailReader {
  readonly ring: Ring;
  /** How many follow. */
  readonly tails: number;
  /** Keeps it reading until the answer is disposed of. While nobody follows it reads nothing and holds nothing. */
  follow(): Disposable;
}

/** What the reader needs. */
export interface TailReaderOptions {
  readonly database: Database;
  readonly progress: Pick<Progress, "follow">;
  readonly topic: string;
  /** What its ring may take, in bytes. */
  readonly ringBytes: number;
  readonly telemetry: Pick<Telemetry, "count">;
  readonly log: Logger;
}

/** About what one statement brings at most. */
const READ_BYTES = 4 * 1024 * 1024;

/** Reads each new row once, as soon as its checkpoint has passed it, in one statement for all partitions. */
export function createTailReader(options: TailReaderOptions): TailReader {
  const { database, progress, topic, telemetry, log } = options;
  const ring = createRing(options.ringBytes);
  let tails = 0;
  let following: Disposable | undefined;
  let target: LogOffsets = new Map();
  let reading: Disposable | undefined;

  function heard(passed: LogOffsets): void {
    target = furthest(target, passed);
    if (ring.end === undefined) ring.begin(target);
    void read();
  }

  async function read(): Promise<void> {
    if (reading !== undefined && reading === following) return;
    const own = (reading = following);
    try {
      while (following === own && ring.end !== undefined && !hasReached(ring.end, target)) {
        const from = ring.end;
        const stretch = await readLog(database, topic, { from, to: target, bytes: READ_BYTES });
        telemetry.count("weir.tail.reads", { by: "reader" });
        // Whoever reads for others by now has a ring of its own.
        if (following === own) ring.push(createStretch(from, stretch));
      }
    } catch (error) {
      log.warn("New events cannot be read for tails at the moment; tried again soon", { error });
    } finally {
      if (reading === own) reading = undefined;
    }
  }

  return {
    ring,
    get tails() {
      return tails;
    },
    follow() {
      let isFollowing = true;
      tails += 1;
      following ??= progress.follow(heard);
      return {
        [Symbol.dispose]() {
          if (!isFollowing) return;
          isFollowing = false;
          tails -= 1;
          if (tails > 0) return;
          following?.[Symbol.dispose]();
          following = undefined;
          target = new Map();
          ring.clear();
        },
      };
    },
  };
}
