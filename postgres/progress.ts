import { setTimeout as sleep } from "node:timers/promises";

import { type LogOffsets } from "#core/tail-cursor.ts";
import { type Logger } from "#runtime/log.ts";
import { type Service } from "#runtime/service.ts";
import { createListening } from "./listening.ts";
import { highWaters } from "./log-audit.ts";
import { type Database } from "./pool.ts";
import { PROGRESS_CHANNEL } from "./progress-hints.ts";

/** Who is told of progress: in each partition all below its offset is accounted for. */
export type Follower = (passed: LogOffsets) => void;

/** Watches how far a consumer group has come in its topic, for all of a process. */
export interface Progress extends Service {
  /**
   * Tells the follower how far the group has come: soon, and from then on whenever that was looked up, be it the same as before.
   * Until the answer is disposed of. While nobody follows nothing is looked up.
   */
  follow(follower: Follower): Disposable;
}

/** What {@link createProgress} needs. */
export interface ProgressOptions {
  /** Where the checkpoints are looked up: where their rows are read. */
  readonly database: Database;
  /** Where notifications come from: the primary. */
  readonly url: string;
  readonly group: string;
  readonly topic: string;
  /** The longest time from one look to the next, in milliseconds. */
  readonly pollMs: number;
  readonly log: Logger;
}

/** The shortest time from one look to the next, in milliseconds, however many notifications come. */
const REST_MS = 10;
/** How long the connection stays after the last follower has gone, in milliseconds. */
const LINGER_MS = 60_000;

/**
 * One connection listens for the workers' hints and one statement looks up all checkpoints, whoever and however many follow. A
 * hint only wakes; without any (a replica's delay, a pooler in between, a lost connection) there is the poll. Where the
 * database does not answer, followers hear nothing until it does.
 */
export function createProgress(options: ProgressOptions): Progress {
  const { database, group, topic, pollMs, log } = options;
  const followers = new Set<Follower>();
  let wake = Promise.withResolvers<void>();
  const ring = (): void => wake.resolve();
  const listening = createListening({
    url: options.url,
    channel: PROGRESS_CHANNEL,
    applicationName: "weir server progress",
    heard: ring,
    log,
  });
  let isAway = false;

  /** Until it rings, or the time is over. What rang since the last time counts. */
  async function pause(ms: number, signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    const either = AbortSignal.any([signal, over.signal]);
    await Promise.race([wake.promise, sleep(ms, undefined, { signal: either }).catch(() => undefined)]);
    over.abort();
    wake = Promise.withResolvers();
  }

  async function look(): Promise<void> {
    let passed: LogOffsets;
    try {
      passed = await highWaters(database, { group, topic });
    } catch (error) {
      if (!isAway) log.warn("How far the store has come cannot be looked up at the moment", { error });
      isAway = true;
      return;
    }
    isAway = false;
    for (const follower of followers) follower(passed);
  }

  return {
    name: "progress",
    ready: Promise.resolve(),
    follow(follower) {
      // A function may follow more than once.
      const own: Follower = (passed) => follower(passed);
      followers.add(own);
      ring();
      return {
        [Symbol.dispose]: () => void followers.delete(own),
      };
    },
    async run(signal) {
      while (!signal.aborted) {
        if (followers.size > 0) {
          listening.open();
          await look();
          await sleep(REST_MS, undefined, { signal }).catch(() => undefined);
          await pause(pollMs, signal);
        } else {
          await pause(LINGER_MS, signal);
          if (followers.size === 0) listening.close();
        }
      }
      listening.close();
    },
  };
}
