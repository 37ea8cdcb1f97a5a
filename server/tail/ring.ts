import { type LogOffsets } from "#core/tail-cursor.ts";
import { hasReached } from "./places.ts";
import { type Stretch } from "./stretch.ts";

/** The newest stretches of the log, one after the other, numbered. */
export interface Ring {
  /** Where the newest ends; undefined while it is not known where the log stands. */
  readonly end: LogOffsets | undefined;
  /** The number that the next stretch will have. */
  readonly next: number;
  /** What the stretches take, in bytes. */
  readonly weight: number;
  /** Begins at a place, without a stretch. */
  begin(place: LogOffsets): void;
  /** Adds the stretch that begins at the end, and lets the oldest go where there is no room; wakes all who wait. */
  push(stretch: Stretch): void;
  /** Lets all go. */
  clear(): void;
  /** A stretch by its number; undefined where it was let go or is still to come. */
  get(number: number): Stretch | undefined;
  /**
   * The number of the stretch with which one goes on who has come to a place, so that it misses nothing; events before the place
   * may be among those that follow. undefined where that was let go.
   */
  numberFor(place: LogOffsets): number | undefined;
  /** Resolves when something has changed, after a time in milliseconds, or once the signal is raised. */
  wait(ms: number, signal: AbortSignal): Promise<void>;
}

/** @param capacity what the stretches may take, in bytes; the newest is kept in any case. */
export function createRing(capacity: number): Ring {
  let stretches: Stretch[] = [];
  let first = 0;
  let weight = 0;
  let end: LogOffsets | undefined;
  const waiting = new Set<() => void>();
  const wake = (): void => {
    waiting.forEach((each) => each());
  };
  const clear = (): void => {
    first += stretches.length;
    stretches = [];
    weight = 0;
    end = undefined;
  };

  return {
    get end() {
      return end;
    },
    get next() {
      return first + stretches.length;
    },
    get weight() {
      return weight;
    },
    begin(place) {
      clear();
      end = place;
      wake();
    },
    push(stretch) {
      stretches.push(stretch);
      weight += stretch.weight;
      end = stretch.end;
      let excess = 0;
      for (; weight > capacity && excess < stretches.length - 1; excess += 1)
        weight -= stretches[excess]!.weight;
      stretches.splice(0, excess);
      first += excess;
      wake();
    },
    clear,
    get: (number) => stretches[number - first],
    numberFor(place) {
      if (end === undefined) return undefined;
      if (hasReached(place, end)) return first + stretches.length;
      const index = stretches.findLastIndex(({ start }) => hasReached(place, start));
      return index < 0 ? undefined : first + index;
    },
    wait(ms, signal) {
      return new Promise((resolve) => {
        const done = (): void => {
          waiting.delete(done);
          clearTimeout(timer);
          signal.removeEventListener("abort", done);
          resolve();
        };
        const timer = setTimeout(done, ms);
        signal.addEventListener("abort", done, { once: true });
        waiting.add(done);
        if (signal.aborted) done();
      });
    },
  };
}
