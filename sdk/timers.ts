/** A timer cannot be set further ahead, in milliseconds. */
const MAX_MS = 2 ** 31 - 1;

/** What was set to happen later. */
export type Timer = ReturnType<typeof setTimeout>;

/** Timers that can be stopped together, so that none outlives what it is for. */
export interface Timers {
  set(ms: number, ring: () => void): Timer;
  clear(timer: Timer | undefined): void;
  clearAll(): void;
}

/** No timers yet. */
export function createTimers(): Timers {
  const running = new Set<Timer>();
  const clear = (timer: Timer | undefined): void => {
    clearTimeout(timer);
    running.delete(timer!);
  };
  return {
    set(ms, ring) {
      const timer = setTimeout(
        () => {
          running.delete(timer);
          ring();
        },
        Math.min(ms, MAX_MS),
      );
      running.add(timer);
      return timer;
    },
    clear,
    clearAll: () => running.forEach(clear),
  };
}
