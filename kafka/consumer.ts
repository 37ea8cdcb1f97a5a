import { type Logger } from "#runtime/log.ts";

import { type Adapter, type Member } from "./adapter.ts";
import { createAdmin } from "./admin.ts";
import { type ConnectionOptions } from "./connection.ts";
import { errorText } from "./errors.ts";
import { createPartitionReader, type PartitionReader, type Source } from "./partition-reader.ts";
import { type Admin, type Consumer, type ConsumerHandler, KafkaError, type LogRange } from "./ports.ts";
import { type Topic } from "./topics.ts";
import { backoff, pause, within } from "./waiting.ts";
import { createWatchdog, type Watchdog } from "./watchdog.ts";

/** What a consumer needs. Durations are milliseconds. */
export interface ConsumerOptions {
  readonly connection: ConnectionOptions;
  readonly group: string;
  readonly topic: Pick<Topic, "name" | "maxMessageBytes">;
  readonly handler: ConsumerHandler;
  readonly log: Logger;
  /** The most records that are handed over at once; 500 by default. */
  readonly batchRecords?: number;
  /** How long fewer are gathered while the log has more; 250 by default. Where it is drained they come at once. */
  readonly batchWaitMs?: number;
  /** How long a stop waits for what is in flight before it tells the handler to let go; 10 s by default. */
  readonly drainMs?: number;
  /**
   * How long the membership may show no sign of life, or a partition wait for a fetch although its log goes on, before a
   * fresh member takes its place; 60 s by default. A session that the brokers end is noticed sooner.
   */
  readonly stuckMs?: number;
}

/** How long a handler that was told to let go may take at a stop; then the group is left without it. */
const LET_GO_MS = 5_000;
/** A membership that lasted this long says that the next failure is a new one. */
const STABLE_MS = 60_000;

/**
 * A member of a consumer group. Partitions are read independently of each other: while the handler is at work for one,
 * or backs off, the others go on and the membership is kept up.
 */
export function createConsumer(
  adapter: Pick<Adapter, "openMember" | "openAdminSession">,
  options: ConsumerOptions,
): Consumer {
  const {
    connection,
    group,
    topic,
    handler,
    batchRecords = 500,
    batchWaitMs = 250,
    drainMs = 10_000,
    stuckMs = 60_000,
  } = options;
  const log = options.log.scope("kafka.consumer", { group, topic: topic.name });
  /** The present reader of each partition, or the last one. A new one waits for it to end. */
  const readers = new Map<number, PartitionReader>();
  let owned: readonly PartitionReader[] = [];
  let memberFault: string | undefined = `group ${group} is not joined yet`;

  function loseAll(): void {
    for (const reader of owned) reader.lose();
    owned = [];
  }

  function assign(member: Member, partitions: readonly number[], logRange: LogRanges): void {
    loseAll();
    memberFault = undefined;
    owned = partitions.map((partition) => {
      const source: Source = {
        logRange: () => logRange(partition),
        seek: (offset) => member.seek(partition, offset),
        pause: () => member.pause(partition),
        resume: () => member.resume(partition),
        async commit(offset) {
          await member.commit(partition, offset).catch((error: unknown) => {
            log.warn("An offset was not committed; the next one stands for it", { partition, offset, error });
          });
        },
      };
      const reader = createPartitionReader({
        partition: { topic: topic.name, partition },
        source,
        handler,
        after: readers.get(partition)?.ended ?? Promise.resolve(),
        batchRecords,
        batchWaitMs,
        bufferBytes: topic.maxMessageBytes,
        log,
      });
      readers.set(partition, reader);
      return reader;
    });
    log.info("Partitions assigned", { partitions });
  }

  /** Lets what is in flight finish, within its time. */
  async function drain(): Promise<void> {
    for (const reader of owned) reader.stop();
    const ended = Promise.all(owned.map((reader) => reader.ended));
    if (await isSettled(ended, drainMs)) return;
    for (const reader of owned) reader.hurry();
    if (await isSettled(ended, LET_GO_MS)) return;
    log.error("The group is left while a partition is still being worked on", {
      waitedMs: drainMs + LET_GO_MS,
    });
  }

  /** One membership: resolves when it ended because it was to, and what was in flight is finished. */
  async function belong(signal: AbortSignal, logRange: LogRanges, watchdog: Watchdog): Promise<void> {
    await using member: Member = adapter.openMember({
      connection,
      group,
      topic,
      log,
      stuckMs,
      onAssigned: (partitions) => (signal.aborted ? loseAll() : assign(member, partitions, logRange)),
      onLost: loseAll,
      onFetched: (partition, fetched) => readers.get(partition)?.offer(fetched) ?? false,
    });
    const ended = new AbortController();
    try {
      // It ends by itself only with what it found.
      await Promise.race([member.consume(signal), watchdog.watch(() => owned, ended.signal)]);
    } finally {
      ended.abort();
    }
    await drain();
  }

  async function run(signal: AbortSignal): Promise<void> {
    await using admin = createAdmin(adapter, { connection, log: options.log });
    const logRange = createLogRanges(admin, group, topic.name);
    const watchdog = createWatchdog({ stuckMs, logRanges: () => admin.logRanges(topic.name) });
    let failures = 0;
    while (!signal.aborted) {
      const began = performance.now();
      try {
        await belong(signal, logRange, watchdog);
      } catch (error) {
        loseAll();
        if (signal.aborted) break;
        if (performance.now() - began > STABLE_MS) failures = 0;
        failures += 1;
        memberFault = `group ${group} is not consumed: ${errorText(error)}`;
        log.warn("Consuming was interrupted and is tried again", { failures, error });
        await pause(backoff(failures, 500, 10_000), signal);
      }
    }
    owned = [];
    memberFault = `group ${group} was left`;
  }

  return {
    run,
    get fault() {
      if (memberFault !== undefined) return memberFault;
      const failed = owned.find(({ fault }) => fault !== undefined);
      return failed && `${topic.name} partition ${failed.partition.partition}: ${failed.fault}`;
    },
    get assignment() {
      return owned.map(({ partition }) => partition);
    },
  };
}

/** Whether it settles within the time. */
async function isSettled(work: Promise<unknown>, ms: number): Promise<boolean> {
  return within(ms, "Draining", work).then(
    () => true,
    () => false,
  );
}

type LogRanges = (partition: number) => Promise<LogRange>;

/** What the broker says of a partition. Partitions that ask at the same time share the answer. */
function createLogRanges(admin: Admin, group: string, topic: string): LogRanges {
  let asked: Promise<[Awaited<ReturnType<Admin["logRanges"]>>, ReadonlyMap<number, bigint>]> | undefined;
  return async (partition) => {
    asked ??= Promise.all([admin.logRanges(topic), admin.committedOffsets(group, topic)]).finally(() => {
      asked = undefined;
    });
    const [ranges, committed] = await asked;
    const range = ranges.get(partition);
    if (range === undefined) throw new KafkaError(`topic ${topic} has no partition ${partition} any more`);
    return { ...range, committed: committed.get(partition) };
  };
}
