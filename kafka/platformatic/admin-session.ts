import { setTimeout as sleep } from "node:timers/promises";

import {
  Admin,
  ConfigResourceTypes,
  FetchIsolationLevels,
  IncrementalAlterConfigOperationTypes,
} from "@platformatic/kafka";

import { type AdminSession, type AdminSessionOptions, TopicMissing } from "../adapter.ts";
import { type TopicDescription } from "../ports.ts";
import { clientOptions, ownSockets } from "./client.ts";
import { isConnectionError, isProtocolError, unknownTopic } from "./errors.ts";
import { ASK_OTHERS, describeTopic, topicIdOf } from "./library.ts";
import { createReader } from "./read.ts";

/** What ListOffsets takes for a time (Kafka protocol guide): the end of the log, and its start. */
const END = -1n;
const START = -2n;
/** What it answers for a time that no record comes after. */
const NONE = -1n;
/** Few, for the library repeats a refused login, too, and a question is to be answered with the reason. */
const RETRIES = 2;
/** How long to wait before asking once more whether a new topic has its leaders. */
const LEADER_CHECK_MS = 20;
const { TOPIC } = ConfigResourceTypes;
const { READ_UNCOMMITTED, READ_COMMITTED } = FetchIsolationLevels;
const { SET } = IncrementalAlterConfigOperationTypes;

/** An admin session by the library's Admin. */
export function openAdminSession({ connection }: AdminSessionOptions): AdminSession {
  const admin = new Admin(clientOptions(connection, RETRIES));
  const sockets = ownSockets(admin);
  const reader = createReader(admin, connection);
  return {
    async logRanges(topic) {
      const { topic: described } = await describeTopic(admin, topic, true);
      // A request tells of one time for each partition, by one level of isolation.
      const asked = [
        [START, READ_UNCOMMITTED],
        [END, READ_UNCOMMITTED],
        [END, READ_COMMITTED],
      ] as const;
      const [starts, ends, stable] = await Promise.all(
        asked.map(async ([timestamp, isolationLevel]) => {
          const partitions = described.partitions.map((_, partitionIndex) => ({ partitionIndex, timestamp }));
          const [listed] = await admin.listOffsets({ topics: [{ name: topic, partitions }], isolationLevel });
          return new Map(listed?.partitions.map(({ partitionIndex, offset }) => [partitionIndex, offset]));
        }),
      );
      return new Map(
        described.partitions.map((_, partition) => [
          partition,
          {
            start: starts!.get(partition)!,
            end: ends!.get(partition)!,
            stable: stable!.get(partition)!,
            topicId: topicIdOf(described),
          },
        ]),
      );
    },
    readFrom: (partition, offset, maxBytes) => reader.readFrom(partition, offset, maxBytes),
    async offsetAt({ topic, partition: partitionIndex }, timestamp) {
      const partitions = [{ partitionIndex, timestamp: BigInt(timestamp) }];
      const [listed] = await admin.listOffsets({ topics: [{ name: topic, partitions }] });
      const offset = listed?.partitions[0]?.offset ?? NONE;
      return offset === NONE ? undefined : offset;
    },
    async committedOffsets(group, topic) {
      const [answer] = await admin.listConsumerGroupOffsets({ groups: [group] });
      const committed = answer?.topics.find(({ name }) => name === topic)?.partitions ?? [];
      return new Map(
        committed
          .filter(({ committedOffset }) => committedOffset >= 0n)
          .map(({ partitionIndex, committedOffset }) => [partitionIndex, committedOffset]),
      );
    },
    describeTopics: (names) => describe(admin, names),
    async brokerCount() {
      const { brokers } = await admin.metadata({ topics: [], forceUpdate: true });
      return brokers.size;
    },
    async createTopic({ name: topic, partitions, replication: replicas, config }) {
      const configs = Object.entries(config).map(([name, value]) => ({ name, value }));
      try {
        await admin.createTopics({ topics: [topic], partitions, replicas, configs });
      } catch (error) {
        if (!isProtocolError(error, "TOPIC_ALREADY_EXISTS")) throw error;
      }
      await untilLed(admin, topic);
    },
    async changeTopic(resourceName, config) {
      const configs = Object.entries(config).map(([name, value]) => ({ name, value, configOperation: SET }));
      await admin.incrementalAlterConfigs({ resources: [{ resourceType: TOPIC, resourceName, configs }] });
    },
    async leaderless(topics) {
      try {
        const { topics: described } = await admin.metadata({
          topics: [...topics],
          forceUpdate: true,
          retries: ASK_OTHERS,
        });
        const found = [...described].find(([, { partitions }]) =>
          partitions.some(({ leader }) => leader < 0),
        );
        return found?.[0];
      } catch (error) {
        const unknown = unknownTopic(error);
        if (unknown !== undefined) throw new TopicMissing(unknown);
        throw error;
      }
    },
    isConnectionError,
    destroy() {
      sockets.destroy();
      reader.destroy();
      admin.close().catch(() => {});
    },
  };
}

/** Waits until the brokers know a topic that was made, with a leader for each partition; its caller ends it. */
async function untilLed(admin: Admin, topic: string): Promise<void> {
  while (!admin.closed) {
    try {
      const described = await describeTopic(admin, topic, true);
      if (described.topic.partitions.every(({ leader }) => leader >= 0)) return;
    } catch (error) {
      if (!(error instanceof TopicMissing)) throw error;
    }
    await sleep(LEADER_CHECK_MS);
  }
}

async function describe(
  admin: Admin,
  names: readonly string[],
): Promise<ReadonlyMap<string, TopicDescription>> {
  const existing = new Set(await admin.listTopics());
  const topics = names.filter((name) => existing.has(name));
  if (topics.length === 0) return new Map();
  const { topics: described } = await admin.metadata({ topics, forceUpdate: true });
  const configs = await admin.describeConfigs({
    resources: topics.map((resourceName) => ({ resourceType: TOPIC, resourceName, configurationKeys: null })),
  });
  return new Map(
    Array.from(described, ([name, { partitions }]) => {
      const entries = configs.find(({ resourceName }) => resourceName === name)?.configs ?? [];
      return [
        name,
        {
          name,
          partitions: partitions.length,
          replication: Math.min(...partitions.map(({ replicas }) => replicas.length)),
          config: new Map(entries.map((entry) => [entry.name, entry.value ?? ""])),
        },
      ];
    }),
  );
}
