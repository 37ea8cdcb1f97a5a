import type { Kafka } from "kafkajs";

import { MEMBERSHIP, TopicMissing } from "../adapter.ts";
import { type Fetched } from "../partition-reader.ts";
import { type TopicPartition } from "../ports.ts";
import { protocolError } from "./errors.ts";
import { toFetched } from "./fetched.ts";
import { type Broker, type Cluster, createCluster, toBatch } from "./library.ts";
import { askTopicId } from "./topic-id.ts";

/** Reads partitions from any offset, for nobody's group. */
export interface Reader {
  /** As `readFrom` of an admin session. */
  readFrom(partition: TopicPartition, offset: bigint, maxBytes: number): Promise<Fetched | undefined>;
  /** As `topicId` of a log range. */
  topicId(topic: string): Promise<string | undefined>;
  /** As `end` of a log range, by partition. */
  ends(topic: string, partitions: readonly number[]): Promise<ReadonlyMap<number, bigint>>;
}

const READ_COMMITTED = 1;
/** Errors that pass once the partition's leader is known again (Kafka protocol guide, Error codes). */
const PASSING: ReadonlySet<string | undefined> = new Set([
  "UNKNOWN_TOPIC_OR_PARTITION",
  "LEADER_NOT_AVAILABLE",
  "NOT_LEADER_FOR_PARTITION",
  "REPLICA_NOT_AVAILABLE",
  "KAFKA_STORAGE_ERROR",
  "FENCED_LEADER_EPOCH",
  "UNKNOWN_LEADER_EPOCH",
  "OFFSET_NOT_AVAILABLE",
]);

/** A reader by what kafkajs' consumers read with. */
export function createReader(kafka: Kafka): Reader {
  let connecting: Promise<Cluster> | undefined;

  function connected(): Promise<Cluster> {
    if (connecting === undefined) {
      const cluster = createCluster(kafka);
      connecting = cluster.connect().then(() => cluster);
    }
    return connecting;
  }

  /** The broker that leads a partition. */
  async function leaderOf({ topic, partition }: TopicPartition): Promise<Broker> {
    const cluster = await connected();
    await cluster.addTargetTopic(topic);
    const [nodeId] = Object.keys(cluster.findLeaderForPartitions(topic, [partition]));
    if (nodeId === undefined) throw new TopicMissing(topic, partition);
    return cluster.findBroker({ nodeId });
  }

  async function fetch(
    { topic, partition }: TopicPartition,
    offset: bigint,
    maxBytes: number,
  ): Promise<Fetched | undefined> {
    const broker = await leaderOf({ topic, partition });
    const fetchOffset = String(offset);
    const { responses } = await broker.fetch({
      isolationLevel: READ_COMMITTED,
      maxWaitTime: 0,
      minBytes: 1,
      maxBytes,
      topics: [{ topic, partitions: [{ partition, fetchOffset, maxBytes }] }],
    });
    const batch = toBatch(topic, fetchOffset, responses[0]?.partitions[0]);
    return batch.isEmpty() ? undefined : toFetched(batch);
  }

  /** Asks again where the leaders have moved. */
  async function retried<T>(question: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await question();
      } catch (error) {
        if (!PASSING.has(protocolError(error)) || tries > MEMBERSHIP.retries) throw error;
        await (await connected()).refreshMetadata();
      }
    }
  }

  return {
    topicId: async (topic) => askTopicId(await leaderOf({ topic, partition: 0 }), topic),
    ends: (topic, partitions) =>
      retried(async () => {
        const cluster = await connected();
        await cluster.addTargetTopic(topic);
        const places = partitions.map((partition) => ({ partition }));
        const [found] = await cluster.fetchTopicsOffset([
          { topic, partitions: places, fromBeginning: false },
        ]);
        return new Map(found?.partitions.map(({ partition, offset }) => [partition, BigInt(offset)]));
      }),
    readFrom: (partition, offset, maxBytes) =>
      retried(() => fetch(partition, offset, maxBytes)).catch((error: unknown) => {
        if (protocolError(error) === "OFFSET_OUT_OF_RANGE") return undefined;
        throw error;
      }),
  };
}
