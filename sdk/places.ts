import { type Timer, type Timers } from "./timers.ts";

/**
 * How long a place is kept for a producer that was told of it and has not published yet, in milliseconds; and before an
 * event was seen, when there is but one place at a time.
 */
const KEPT_MS = 1_000;
const FIRST_KEPT_MS = 10;

/** How much a buffer holds, or may hold. */
interface Size {
  readonly events: number;
  readonly bytes: number;
}

/** Places in a buffer, given to those who wait for one in the order of their asking. */
export interface Places {
  /** Whether the buffer itself has no room, whatever is kept. */
  readonly isFull: boolean;
  /** Resolves when there is a place, which is then kept for a while. Never rejects. */
  ready(): Promise<void>;
  /** To be called when an event of so many bytes has taken a place: the longest kept, where one is. */
  take(bytes: number): void;
  /** To be called when the buffer has become emptier. */
  free(): void;
  /** Lets everybody through, from now on. */
  open(): void;
}

/** The places of a buffer, whose size is asked for when it matters. */
export function createPlaces(bounds: Size, size: () => Size, timers: Timers): Places {
  const waiters = new Set<() => void>();
  /** Until when each place that was given is kept, by Date.now(). */
  const kept: number[] = [];
  /** Of the largest event that was seen: what an event that is yet to come may have. Before the first, all there is. */
  let largest = bounds.bytes;
  let hasSeenOne = false;
  let isOpen = false;
  let timer: Timer | undefined;

  const hasRoom = (own: number): boolean => {
    const { events, bytes } = size();
    return events + own < bounds.events && bytes + own * largest < bounds.bytes;
  };
  const give = (): void => {
    const now = Date.now();
    for (const pass of waiters) {
      if (!isOpen && !hasRoom(kept.length)) break;
      waiters.delete(pass);
      kept.push(now + (hasSeenOne ? KEPT_MS : FIRST_KEPT_MS));
      pass();
    }
    timers.clear(timer);
    timer = waiters.size > 0 && kept.length > 0 ? timers.set(Math.max(0, kept[0]! - now), lapse) : undefined;
  };
  /** By a timer alone: whoever was given a place in the turn before has had the time to take it, however long that took. */
  const lapse = (): void => {
    const now = Date.now();
    while (kept.length > 0 && kept[0]! <= now) kept.shift();
    give();
  };

  return {
    get isFull() {
      return !hasRoom(0);
    },
    ready: () =>
      new Promise((resolve) => {
        waiters.add(resolve);
        give();
      }),
    take(bytes) {
      largest = hasSeenOne ? Math.max(largest, bytes) : bytes;
      hasSeenOne = true;
      kept.shift();
      give();
    },
    free: give,
    open() {
      isOpen = true;
      give();
    },
  };
}
