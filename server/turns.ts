/** What holds a number of things back to so many at once. Times are milliseconds. */
export interface TurnsOptions {
  /** How many run at once. */
  readonly concurrency: number;
  /** How many may wait for their turn. */
  readonly queue: number;
  /** How long one may wait. */
  readonly waitMs: number;
}

/** What may wait: whatever is "later" goes after all that is "soon", and gives its place in a full queue to it. */
export type Urgency = "soon" | "later";

/** Gives turns in the order of asking, the urgent ones first. */
export interface Turns {
  /**
   * Waits for a turn, which lasts until it is disposed of; undefined where the queue is full or the wait was too long.
   * Rejects with the signal's reason where that is raised first.
   *
   * @param urgency "soon" unless said otherwise.
   */
  take(signal: AbortSignal, urgency?: Urgency): Promise<Disposable | undefined>;
  /** How many wait now. */
  readonly waiting: number;
}

/** Ends a wait, with a turn or without. */
type End = (turn?: Disposable) => void;

/** Turns, none of which is taken. */
export function createTurns({ concurrency, queue, waitMs }: TurnsOptions): Turns {
  let running = 0;
  const waiting: Readonly<Record<Urgency, Set<End>>> = { soon: new Set(), later: new Set() };
  const waitingCount = (): number => waiting.soon.size + waiting.later.size;

  const createTurn = (): Disposable => {
    let held = true;
    return {
      [Symbol.dispose]() {
        if (!held) return;
        held = false;
        const [next] = waiting.soon.size > 0 ? waiting.soon : waiting.later;
        if (next === undefined) running -= 1;
        else next(createTurn());
      },
    };
  };

  return {
    async take(signal, urgency = "soon") {
      signal.throwIfAborted();
      if (running < concurrency) {
        running += 1;
        return createTurn();
      }
      if (waitingCount() >= queue) {
        const last = urgency === "soon" ? [...waiting.later].at(-1) : undefined;
        if (last === undefined) return undefined;
        last();
      }
      return new Promise((resolve, reject) => {
        const leave = (): void => {
          waiting[urgency].delete(end);
          clearTimeout(timer);
          signal.removeEventListener("abort", giveUp);
        };
        const end: End = (turn) => {
          leave();
          resolve(turn);
        };
        const giveUp = (): void => {
          leave();
          reject(signal.reason as Error);
        };
        const timer = setTimeout(end, waitMs);
        signal.addEventListener("abort", giveUp, { once: true });
        waiting[urgency].add(end);
      });
    },
    get waiting() {
      return waitingCount();
    },
  };
}
