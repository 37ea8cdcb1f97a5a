import { setTimeout as sleep } from "node:timers/promises";

import type { Admin } from "kafkajs";

import { type AdminSession, type AdminSessionOptions, MEMBERSHIP } from "../adapter.ts";
import { type TopicDescription } from "../ports.ts";
import { createClient } from "./client.ts";
import { isConnectionError, protocolError } from "./errors.ts";
import { kafkajs } from "./library.ts";
import { createReader } from "./read.ts";

/** Where a topic's setting comes from, when it is the topic's own. */
const TOPIC_CONFIG = 1;

/** How long to wait before asking once more whether a new topic has its leaders. */
const LEADER_CHECK_MS = 20;

/** An admin session by a kafkajs admin. */
export function openAdminSession({ connection, log }: AdminSessionOptions): AdminSession {
  const client = createClient(connection, MEMBERSHIP.retries, log);
  const reader = createReader(client.kafka);
  let connecting: Promise<Admin> | undefined;

  function connected(): Promise<Admin> {
    if (connecting === undefined) {
      const admin = client.kafka.admin({ retry: { retries: MEMBERSHIP.retries } });
      connecting = admin.connect().then(() => admin);
    }
    return connecting;
  }

  return {
    async logRanges(topic) {
      const topicId = await reader.topicId(topic);
      // Its end is that of what is committed.
      const partitions = await (await connected()).fetchTopicOffsets(topic);
      const ends = await reader.ends(
        topic,
        partitions.map(({ partition }) => partition),
      );
      return new Map(
        partitions.map(({ partition, low, high }) => [
          partition,
          { start: BigInt(low), end: ends.get(partition)!, stable: BigInt(high), topicId },
        ]),
      );
    },
    readFrom: (partition, offset, maxBytes) => reader.readFrom(partition, offset, maxBytes),
    async offsetAt({ topic, partition }, timestamp) {
      const offsets = await (await connected()).fetchTopicOffsetsByTimestamp(topic, timestamp);
      const offset = offsets.find((each) => each.partition === partition)?.offset;
      return offset === undefined ? undefined : BigInt(offset);
    },
    async committedOffsets(groupId, topic) {
      const [answer] = await (await connected()).fetchOffsets({ groupId, topics: [topic] });
      const committed = (answer?.partitions ?? []).map(
        ({ partition, offset }) => [partition, BigInt(offset)] as const,
      );
      return new Map(committed.filter(([, offset]) => offset >= 0n));
    },
    describeTopics: async (names) => describe(await connected(), names),
    async brokerCount() {
      const { brokers } = await (await connected()).describeCluster();
      return brokers.length;
    },
    async createTopic({ name: topic, partitions, replication, config }) {
      const configEntries = Object.entries(config).map(([name, value]) => ({ name, value }));
      const admin = await connected();
      await admin.createTopics({
        topics: [{ topic, numPartitions: partitions, replicationFactor: replication, configEntries }],
        timeout: connection.requestTimeoutMs,
        // It gives up where a broker has not heard of the topic yet.
        waitForLeaders: false,
      });
      while (!client.isDestroyed && !(await isLed(admin, topic))) await sleep(LEADER_CHECK_MS);
    },
    changeTopic: async (name, config) => change(await connected(), name, config),
    async leaderless(names) {
      const { topics } = await (await connected()).fetchTopicMetadata({ topics: [...names] });
      return topics.find(({ partitions }) => partitions.some(({ leader }) => leader < 0))?.name;
    },
    isConnectionError,
    destroy: () => client.destroy(),
  };
}

/** Whether the brokers know a topic that was made, with a leader for each partition. */
async function isLed(admin: Admin, topic: string): Promise<boolean> {
  try {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
    return topics.every(({ partitions }) => partitions.every(({ leader }) => leader >= 0));
  } catch (error) {
    const known = protocolError(error) ?? "";
    if (known === "UNKNOWN_TOPIC_OR_PARTITION" || known === "LEADER_NOT_AVAILABLE") return false;
    throw error;
  }
}

async function describe(
  admin: Admin,
  names: readonly string[],
): Promise<ReadonlyMap<string, TopicDescription>> {
  const existing = new Set(await admin.listTopics());
  const topics = names.filter((name) => existing.has(name));
  if (topics.length === 0) return new Map();
  const { topics: metadata } = await admin.fetchTopicMetadata({ topics });
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: topics.map((name) => ({ type: kafkajs.ConfigResourceTypes.TOPIC, name })),
  });
  return new Map(
    metadata.map(({ name, partitions }) => {
      const entries = resources.find(({ resourceName }) => resourceName === name)?.configEntries ?? [];
      return [
        name,
        {
          name,
          partitions: partitions.length,
          replication: Math.min(...partitions.map(({ replicas }) => replicas.length)),
          config: new Map(entries.map(({ configName, configValue }) => [configName, configValue])),
        },
      ];
    }),
  );
}

/** Kafka's AlterConfigs replaces a topic's settings, so those it has go along. */
async function change(admin: Admin, name: string, config: Readonly<Record<string, string>>): Promise<void> {
  const resource = { type: kafkajs.ConfigResourceTypes.TOPIC, name };
  const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [resource] });
  const own = (resources[0]?.configEntries ?? [])
    .filter(({ configSource, isSensitive }) => configSource === TOPIC_CONFIG && !isSensitive)
    .map(({ configName, configValue }) => [configName, configValue] as const);
  const configEntries = Object.entries({ ...Object.fromEntries(own), ...config }).map(([entry, value]) => ({
    name: entry,
    value,
  }));
  await admin.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries }] });
}
