import { setTimeout as sleep } from "node:timers/promises";

import { KafkaError } from "./ports.ts";

/** What `work` answers, or a KafkaError where it takes longer or the signal is raised; `work` goes on by itself then. */
export async function within<T>(
  ms: number,
  what: string,
  work: Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const late = Promise.withResolvers<never>();
  const giveUp = (): void => late.reject(new KafkaError(`${what} was given up`));
  const timer = setTimeout(() => late.reject(new KafkaError(`${what}: no answer within ${ms} ms`)), ms);
  if (signal?.aborted) giveUp();
  signal?.addEventListener("abort", giveUp);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", giveUp);
  }
}

/** How long to wait after the given number of failures in a row: doubling from `first` to `most`, up to a fifth of it by chance. */
export function backoff(failures: number, first: number, most: number): number {
  const full = Math.min(first * 2 ** Math.max(0, failures - 1), most);
  return Math.round(full * (0.8 + Math.random() * 0.2));
}

/** Waits; ends early, without an error, when the signal is raised. Keeps no process alive. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { ref: false, signal }).catch(() => {});
}
