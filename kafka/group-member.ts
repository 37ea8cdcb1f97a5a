import type { Batch, Consumer as KafkaConsumer, EachBatchPayload, KafkaMessage } from "kafkajs";

import { type Logger } from "#runtime/log.ts";

import { type ConnectionOptions, createClient } from "./connection.ts";
import { type Fetched } from "./partition-reader.ts";
import { KafkaError, type ReceivedRecord, type RecordHeader } from "./ports.ts";
import { type Topic } from "./topics.ts";
import { within } from "./waiting.ts";

/** What a membership needs. */
export interface MemberOptions {
  readonly connection: ConnectionOptions;
  readonly group: string;
  readonly topic: Pick<Topic, "name" | "maxMessageBytes">;
  readonly log: Logger;
  /** These partitions are now ours, and no others. Nothing of them is fetched before `seek` and `resume`. */
  readonly onAssigned: (partitions: readonly number[]) => void;
  /** No partition is ours for now. */
  readonly onLost: () => void;
  /** A fetch brought this; answers whether to fetch on after it. */
  readonly onFetched: (partition: number, fetched: Fetched) => boolean;
}

/** One membership of a consumer group, by a kafkajs consumer of its own. Disposing leaves the group. */
export interface Member extends AsyncDisposable {
  /** Joins and consumes: resolves when the signal is raised, still a member; rejects when the membership has failed. */
  consume(signal: AbortSignal): Promise<void>;
  seek(partition: number, offset: bigint): void;
  pause(partition: number): void;
  resume(partition: number): void;
  /** Commits an offset of a partition that has been fetched. */
  commit(partition: number, offset: bigint): Promise<void>;
}

/** A member that has died is noticed after this; heartbeats go on while handlers work, so it may be short. */
const SESSION_MS = 10_000;
const HEARTBEAT_MS = 2_000;
/** How long a rebalance waits for members, which rejoin at their next heartbeat. */
const REBALANCE_MS = 30_000;
/** kafkajs can hang without a word (kafkajs #659, #1441): no fetch and no join for so long, and it is replaced. */
const STUCK_MS = 2 * REBALANCE_MS;
/** How long a fetch waits for records, and at most a partition that was resumed for its first fetch. */
const MAX_WAIT_MS = 250;
const FETCH_BYTES = 16 * 1024 * 1024;
const LEAVE_MS = 5_000;
const RETRIES = 5;

/** A membership that is not joined yet. */
export function createMember(options: MemberOptions): Member {
  const { connection, group, topic, onAssigned, onLost, onFetched } = options;
  const client = createClient(connection, RETRIES, options.log);
  const consumer = client.kafka.consumer({
    groupId: group,
    sessionTimeout: SESSION_MS,
    heartbeatInterval: HEARTBEAT_MS,
    rebalanceTimeout: REBALANCE_MS,
    maxWaitTimeInMs: MAX_WAIT_MS,
    maxBytes: FETCH_BYTES,
    maxBytesPerPartition: topic.maxMessageBytes,
    allowAutoTopicCreation: false,
    retry: { retries: RETRIES, restartOnFailure: () => Promise.resolve(false) },
  });
  const failed = Promise.withResolvers<never>();
  let commitOffsets: EachBatchPayload["commitOffsetsIfNecessary"] | undefined;

  function watch(): void {
    const { CRASH, REBALANCING, GROUP_JOIN } = consumer.events;
    consumer.on(CRASH, ({ payload }) => failed.reject(payload.error));
    consumer.on(REBALANCING, onLost);
    consumer.on(GROUP_JOIN, ({ payload }) => {
      const partitions = payload.memberAssignment[topic.name] ?? [];
      // kafkajs fetches as soon as this returns, from an offset of its own choice.
      for (const partition of partitions) pause(partition);
      onAssigned(partitions);
    });
  }

  async function handOver(payload: EachBatchPayload): Promise<void> {
    const { batch } = payload;
    commitOffsets = (offsets) => payload.commitOffsetsIfNecessary(offsets);
    if (onFetched(batch.partition, toFetched(batch))) payload.resolveOffset(batch.lastOffset());
  }

  async function consume(signal: AbortSignal): Promise<void> {
    const limit = connection.connectTimeoutMs + connection.requestTimeoutMs;
    failed.promise.catch(() => {});
    watch();
    using _watchdog = createWatchdog(consumer, () => {
      failed.reject(new KafkaError(`no sign of life from the consumer in ${STUCK_MS} ms`));
    });
    await within(limit, "Connecting to Kafka", consumer.connect(), signal);
    const subscription = { topics: [topic.name], fromBeginning: true };
    await within(limit, `Subscribing to ${topic.name}`, consumer.subscribe(subscription), signal);
    consumer
      .run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch: handOver })
      .catch(failed.reject);
    const { promise: raised, resolve } = Promise.withResolvers<void>();
    if (signal.aborted) return;
    signal.addEventListener("abort", () => resolve(), { once: true });
    await Promise.race([failed.promise, raised]);
  }

  function pause(partition: number): void {
    whileJoined(() => consumer.pause([{ topic: topic.name, partitions: [partition] }]));
  }

  return {
    consume,
    pause,
    resume: (partition) =>
      whileJoined(() => consumer.resume([{ topic: topic.name, partitions: [partition] }])),
    seek: (partition, offset) =>
      whileJoined(() => consumer.seek({ topic: topic.name, partition, offset: String(offset) })),
    async commit(partition, offset) {
      // The function of a payload, for consumer.commitOffsets answers without a commit once kafkajs is stopping.
      const offsets = {
        topics: [{ topic: topic.name, partitions: [{ partition, offset: String(offset) }] }],
      };
      const committed = commitOffsets?.(offsets) ?? Promise.resolve();
      await within(connection.requestTimeoutMs, "Committing an offset", committed);
    },
    async [Symbol.asyncDispose]() {
      await within(LEAVE_MS, "Leaving the group", consumer.disconnect()).catch(() => {});
      client.destroy();
    },
  };
}

/** kafkajs throws where it has left the group, by itself or not: there is nothing to be done then. */
function whileJoined(action: () => void): void {
  try {
    action();
  } catch (error) {
    if (!(error instanceof Error) || error.name !== "KafkaJSNonRetriableError") throw error;
  }
}

/** Calls `stuck` where the consumer neither fetches nor joins for too long. */
function createWatchdog(consumer: KafkaConsumer, stuck: () => void): Disposable {
  const { CONNECT, FETCH, GROUP_JOIN, HEARTBEAT, REBALANCING } = consumer.events;
  const timer = setTimeout(stuck, STUCK_MS);
  const listeners = [CONNECT, FETCH, GROUP_JOIN, HEARTBEAT, REBALANCING].map((event) =>
    consumer.on(event as typeof FETCH, () => timer.refresh()),
  );
  return {
    [Symbol.dispose]() {
      clearTimeout(timer);
      for (const remove of listeners) remove();
    },
  };
}

function toFetched(batch: Batch): Fetched {
  const { topic, partition } = batch;
  return {
    // It is there, though not in kafkajs' types.
    from: BigInt((batch as Batch & { readonly fetchedOffset: string }).fetchedOffset),
    next: BigInt(batch.lastOffset()) + 1n,
    end: BigInt(batch.highWatermark),
    records: batch.messages.map((message) => toRecord(topic, partition, message)),
  };
}

function toRecord(topic: string, partition: number, message: KafkaMessage): ReceivedRecord {
  const { key, value, timestamp, offset } = message;
  return {
    topic,
    partition,
    offset: BigInt(offset),
    key,
    value,
    headers: (message.headers ?? []) as unknown as readonly RecordHeader[], // a list, see kafkajs.ts
    timestamp: Number(timestamp),
  };
}
