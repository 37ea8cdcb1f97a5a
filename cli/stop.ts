/** What ends a command before its end. */
export interface Stop extends Disposable {
  readonly signal: AbortSignal;
  now(why: Error): void;
}

/** Stops at the first SIGINT or SIGTERM; a second one ends the process. */
export function stopOnSignals(): Stop {
  const controller = new AbortController();
  const onSignal = (signal: NodeJS.Signals): void => controller.abort(new Error(`${signal} came.`));
  const signals = ["SIGINT", "SIGTERM"] as const;
  for (const signal of signals) process.once(signal, onSignal);
  return {
    signal: controller.signal,
    now: (why) => controller.abort(why),
    [Symbol.dispose]() {
      for (const signal of signals) process.off(signal, onSignal);
    },
  };
}
