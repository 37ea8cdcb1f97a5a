import { type PartitionReader } from "./partition-reader.ts";
import { KafkaError, type LogRange } from "./ports.ts";
import { pause } from "./waiting.ts";

/** What a watchdog needs. */
export interface WatchdogOptions {
  /** How long a partition may wait for a fetch while its log has more, in milliseconds. */
  readonly stuckMs: number;
  /** What the brokers say of the partitions' logs. */
  readonly logRanges: () => Promise<ReadonlyMap<number, Pick<LogRange, "end" | "stable" | "topicId">>>;
}

/** Looks after a consumer's fetching, over all its memberships. */
export interface Watchdog {
  /**
   * Rejects with a KafkaError once a reader waits in vain: its fetches have brought nothing for too long, although the log
   * goes on; or once the topic is not the one that was opened. Resolves when the signal is raised. Brokers that do not answer prove nothing: then heartbeats fail, too.
   */
  watch(readers: () => readonly PartitionReader[], signal: AbortSignal): Promise<void>;
}

/** How much longer the bound becomes at most, in doublings. */
const MAX_DOUBLINGS = 5;

/**
 * A watchdog. A membership that did not help makes the bound twice as long for that offset: what holds it back is then
 * none of the member's doing.
 */
export function createWatchdog({ stuckMs, logRanges }: WatchdogOptions): Watchdog {
  const strikes = new Map<number, { readonly offset: bigint; readonly count: number }>();
  /** When the log was last seen to have nothing to hand out at an offset: until then nobody waited in vain. */
  const idle = new Map<number, { readonly offset: bigint; readonly at: number }>();

  /** Where a transaction is open, the log goes on and nothing of it is handed out: no member would fare better. */
  function noteIdle(
    readers: readonly PartitionReader[],
    ranges: ReadonlyMap<number, Pick<LogRange, "stable">> | undefined,
  ): void {
    for (const { partition, waiting } of readers) {
      const stable = ranges?.get(partition.partition)?.stable;
      if (waiting !== undefined && stable !== undefined && waiting.offset >= stable)
        idle.set(partition.partition, { offset: waiting.offset, at: performance.now() });
    }
  }

  function isLate({ partition: { partition }, waiting }: PartitionReader): boolean {
    if (waiting === undefined) return false;
    const last = idle.get(partition);
    const since = last?.offset === waiting.offset ? Math.max(waiting.since, last.at) : waiting.since;
    const strike = strikes.get(partition);
    const doublings = strike?.offset === waiting.offset ? Math.min(strike.count, MAX_DOUBLINGS) : 0;
    return performance.now() - since >= stuckMs * 2 ** doublings;
  }

  /** A fetch by name, from an offset that the new log has too, goes on as if nothing had happened. */
  function refuseAnother(
    readers: readonly PartitionReader[],
    ranges: ReadonlyMap<number, Pick<LogRange, "topicId">> | undefined,
  ): void {
    for (const { partition, topicId } of readers) {
      const now = ranges?.get(partition.partition)?.topicId;
      if (topicId !== undefined && now !== undefined && now !== topicId)
        throw new KafkaError(`topic ${partition.topic} was made anew: its offsets are of another log`);
    }
  }

  return {
    async watch(readers, signal) {
      while (!signal.aborted) {
        await pause(stuckMs / 4, signal);
        if (signal.aborted) continue;
        const ranges = await logRanges().catch(() => undefined);
        refuseAnother(readers(), ranges);
        noteIdle(readers(), ranges);
        for (const reader of readers().filter(isLate)) {
          const { topic, partition } = reader.partition;
          const { offset, since } = reader.waiting!;
          if (ranges?.get(partition) === undefined) continue;
          const before = strikes.get(partition);
          strikes.set(partition, { offset, count: before?.offset === offset ? before.count + 1 : 1 });
          const seconds = Math.round((performance.now() - since) / 1_000);
          throw new KafkaError(
            `${topic} partition ${partition}: no fetch has brought anything at offset ${offset} in ${seconds} s, and the log goes on`,
          );
        }
      }
    },
  };
}
