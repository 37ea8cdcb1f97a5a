import { describeEnd, type Child } from "./child.ts";
import { type Progress } from "./progress.ts";

/** Looks after the processes that were started, from the first to the last. */
export interface Supervisor {
  /** Raised when everything is to end: its reason is undefined where somebody asked for that, else what went wrong. */
  readonly signal: AbortSignal;
  /** Asks for the end, in order. */
  readonly end: () => void;
  /** Starts processes beside each other and looks after them. Where one fails, the others are stopped. */
  readonly start: (...starts: readonly ((signal: AbortSignal) => Promise<Child>)[]) => Promise<void>;
  /** Stops what was started, the last first, a line each. */
  readonly stop: () => Promise<void>;
  /** Does not wait for anyone any more. */
  readonly kill: () => void;
}

/** A supervisor of nothing yet. A process that ends unasked is the end of all. */
export function createSupervisor(progress: Progress): Supervisor {
  const ending = new AbortController();
  const children: Child[] = [];

  const adopt = (child: Child): void => {
    children.push(child);
    void child.exited.then(() => ending.abort(new Error(describeEnd(child))));
  };

  return {
    signal: ending.signal,
    end: () => ending.abort(new Stopped()),
    async start(...starts) {
      const failing = new AbortController();
      const signal = AbortSignal.any([ending.signal, failing.signal]);
      const outcomes = await Promise.allSettled(
        starts.map((start) =>
          start(signal).catch((error: unknown) => {
            failing.abort(error);
            throw error;
          }),
        ),
      );
      for (const outcome of outcomes) if (outcome.status === "fulfilled") adopt(outcome.value);
      signal.throwIfAborted();
    },
    async stop() {
      ending.abort(new Stopped());
      for (const child of children.toReversed()) {
        if (child.exit() === undefined)
          await progress.step(
            () => child.stop(),
            () => `${child.name} stopped${child.stopRemark === undefined ? "" : ` (${child.stopRemark})`}`,
          );
      }
    },
    kill() {
      for (const child of children) child.kill();
    },
  };
}

/** Somebody asked for the end. */
export class Stopped extends Error {
  override readonly name = "Stopped";
}
