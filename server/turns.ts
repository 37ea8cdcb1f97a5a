/** What holds a number of things back to so many at once. Times are milliseconds. */
export interface TurnsOptions {
  /** How many run at once. */
  readonly concurrency: number;
  /** How many may wait for their turn. */
  readonly queue: number;
  /** How long one may wait. */
  readonly waitMs: number;
}

/** What may wait: whatever is "later" goes after all that is "soon". */
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

/** Turns, none of which is taken. */
export function createTurns({ concurrency, queue, waitMs }: TurnsOptions): Turns {
  let running = 0;
  type Queue = Set<(turn: Disposable) => void>;
  const waiting: Readonly<Record<Urgency, Queue>> = { soon: new Set(), later: new Set() };
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
      if (waitingCount() >= queue) return undefined;
      return new Promise((resolve, reject) => {
        const leave = (): void => {
          waiting[urgency].delete(enter);
          clearTimeout(timer);
          signal.removeEventListener("abort", giveUp);
        };
        const enter = (turn: Disposable): void => {
          leave();
          resolve(turn);
        };
        const giveUp = (): void => {
          leave();
          reject(signal.reason as Error);
        };
        const timer = setTimeout(() => {
          leave();
          resolve(undefined);
        }, waitMs);
        signal.addEventListener("abort", giveUp, { once: true });
        waiting[urgency].add(enter);
      });
    },
    get waiting() {
      return waitingCount();
    },
  };
}
