import { type LogPosition } from "#core/event.ts";
import { type LogOffsets } from "#core/tail-cursor.ts";
import { type Progress } from "#postgres/progress.ts";
import { type Telemetry } from "#runtime/telemetry.ts";

/** A place of the watched topic. */
export type Place = Pick<LogPosition, "partition" | "offset">;

/** How long to wait. */
export interface WaitBounds {
  /** In milliseconds. */
  readonly timeoutMs: number;
  /** Raised when nobody waits any more. */
  readonly signal: AbortSignal;
}

/** Waits for records to come to a stage. */
export interface StageWatch<R> {
  /**
   * What became of each record, by its index, once that is known of all; undefined where the stage was not reached by then, or as
   * many wait as may. Never rejects.
   */
  wait(places: readonly Place[], bounds: WaitBounds): Promise<readonly (R | undefined)[]>;
  /** How many records are waited for. */
  readonly waiting: number;
}

/** A stage, and what watching it needs. */
export interface StageWatchOptions<R> {
  /** How far the stage has come. */
  readonly progress: Pick<Progress, "follow">;
  /**
   * What became of records that the stage has passed; undefined of one that it has passed by. Asked once for all that it has
   * passed since the last time; where it rejects it is asked again.
   */
  readonly judge: (places: readonly Place[]) => Promise<readonly (R | undefined)[]>;
  /** How many records may be waited for at once. */
  readonly capacity: number;
  readonly telemetry: Pick<Telemetry, "record">;
  /** Raised when waits are to end as they are. */
  readonly stopping: AbortSignal;
}

interface Waiter<R> extends Place {
  readonly settle: (reached: R | undefined) => void;
}

/** Records that one statement judges at most. */
const MOST_JUDGED = 1_000;

/** A stage that passes the records of each partition in their order: it is followed as a whole, and no record costs a query. */
export function createStageWatch<R>({
  progress,
  judge,
  capacity,
  telemetry,
  stopping,
}: StageWatchOptions<R>): StageWatch<R> {
  const waiting = new Set<Waiter<R>>();
  let following: Disposable | undefined;
  let isJudging = false;
  const ends = new Set<() => void>();
  stopping.addEventListener("abort", () => ends.forEach((end) => end()));

  function heard(passed: LogOffsets): void {
    if (isJudging) return;
    const ready: Waiter<R>[] = [];
    for (const waiter of waiting) {
      if (waiter.offset < (passed.get(waiter.partition) ?? 0n)) ready.push(waiter);
      if (ready.length === MOST_JUDGED) break;
    }
    if (ready.length > 0) void settle(ready, passed);
  }

  async function settle(ready: readonly Waiter<R>[], passed: LogOffsets): Promise<void> {
    isJudging = true;
    try {
      const reached = await judge(ready);
      ready.forEach((waiter, index) => waiter.settle(reached[index]));
    } catch {
      // The database was lost in between: they are ready still when progress is heard of again.
      return;
    } finally {
      isJudging = false;
    }
    // What had to wait for its turn, and what came meanwhile.
    heard(passed);
  }

  return {
    get waiting() {
      return waiting.size;
    },
    wait(places, { timeoutMs, signal }) {
      const { promise, resolve } = Promise.withResolvers<readonly (R | undefined)[]>();
      const reached: (R | undefined)[] = places.map(() => undefined);
      const began = performance.now();
      const measure = (outcome: "reached" | "not_reached" | "capacity", records: number): void => {
        const seconds = (performance.now() - began) / 1_000;
        for (let count = 0; count < records; count += 1)
          telemetry.record("weir.ingest.wait.duration", { outcome }, seconds);
      };
      if (stopping.aborted || signal.aborted || places.length === 0) return Promise.resolve(reached);
      if (waiting.size + places.length > capacity) {
        measure("capacity", places.length);
        return Promise.resolve(reached);
      }
      const mine = new Set<Waiter<R>>();
      const end = (): void => {
        clearTimeout(timer);
        signal.removeEventListener("abort", end);
        ends.delete(end);
        measure("not_reached", mine.size);
        for (const waiter of mine) waiting.delete(waiter);
        if (waiting.size === 0) {
          following?.[Symbol.dispose]();
          following = undefined;
        }
        resolve(reached);
      };
      places.forEach((place, index) => {
        const waiter: Waiter<R> = {
          ...place,
          settle(found) {
            if (!mine.delete(waiter)) return;
            waiting.delete(waiter);
            reached[index] = found;
            measure(found === undefined ? "not_reached" : "reached", 1);
            if (mine.size === 0) end();
          },
        };
        mine.add(waiter);
        waiting.add(waiter);
      });
      const timer = setTimeout(end, timeoutMs);
      signal.addEventListener("abort", end, { once: true });
      ends.add(end);
      following ??= progress.follow(heard);
      return promise;
    },
  };
}
