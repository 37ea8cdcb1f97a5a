import type { Consumer as KafkaConsumer, EachBatchPayload } from "kafkajs";

import { inconsistentGroup, type Member, MEMBERSHIP, type MemberOptions } from "../adapter.ts";
import { KafkaError } from "../ports.ts";
import { within } from "../waiting.ts";
import { createClient } from "./client.ts";
import { protocolError } from "./errors.ts";
import { toFetched } from "./fetched.ts";

/** A membership by a kafkajs consumer, not joined yet. */
export function openMember(options: MemberOptions): Member {
  const { connection, group, topic, stuckMs, onAssigned, onLost, onFetched } = options;
  const client = createClient(connection, MEMBERSHIP.retries, options.log);
  const consumer = client.kafka.consumer({
    groupId: group,
    sessionTimeout: MEMBERSHIP.sessionMs,
    heartbeatInterval: MEMBERSHIP.heartbeatMs,
    rebalanceTimeout: MEMBERSHIP.rebalanceMs,
    maxWaitTimeInMs: MEMBERSHIP.maxWaitMs,
    maxBytes: MEMBERSHIP.fetchBytes,
    maxBytesPerPartition: topic.maxMessageBytes,
    allowAutoTopicCreation: false,
    retry: { retries: MEMBERSHIP.retries, restartOnFailure: () => Promise.resolve(false) },
  });
  const failed = Promise.withResolvers<never>();
  let commitOffsets: EachBatchPayload["commitOffsetsIfNecessary"] | undefined;

  function fail(error: unknown): void {
    const isInconsistent = protocolError(error) === "INCONSISTENT_GROUP_PROTOCOL";
    failed.reject(isInconsistent ? new KafkaError(inconsistentGroup(group)) : error);
  }

  function watch(): void {
    const { CRASH, REBALANCING, GROUP_JOIN } = consumer.events;
    consumer.on(CRASH, ({ payload }) => fail(payload.error));
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
    using _watchdog = createWatchdog(consumer, stuckMs, () => {
      failed.reject(new KafkaError(`no sign of life from the consumer in ${stuckMs} ms`));
    });
    await within(limit, "Connecting to Kafka", consumer.connect(), signal);
    const subscription = { topics: [topic.name], fromBeginning: true };
    await within(limit, `Subscribing to ${topic.name}`, consumer.subscribe(subscription), signal);
    consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch: handOver }).catch(fail);
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
      await within(MEMBERSHIP.leaveMs, "Leaving the group", consumer.disconnect()).catch(() => {});
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

/** kafkajs can hang without a word (kafkajs #659, #1441). Calls `stuck` where it neither fetches nor joins for too long. */
function createWatchdog(consumer: KafkaConsumer, stuckMs: number, stuck: () => void): Disposable {
  const { CONNECT, FETCH, GROUP_JOIN, HEARTBEAT, REBALANCING } = consumer.events;
  const timer = setTimeout(stuck, stuckMs);
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
