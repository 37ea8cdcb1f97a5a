import type { Admin as KafkaAdmin } from "kafkajs";

import { type Logger } from "#runtime/log.ts";

import { type Client, type ConnectionOptions, createClient } from "./connection.ts";
import { errorText, isConnectionError } from "./errors.ts";
import { kafkajs } from "./kafkajs.ts";
import { type Admin, KafkaError, type TopicDescription } from "./ports.ts";
import { within } from "./waiting.ts";

/** What an admin needs. */
export interface AdminOptions {
  readonly connection: ConnectionOptions;
  readonly log: Logger;
}

interface Session {
  readonly client: Client;
  readonly admin: Promise<KafkaAdmin>;
  /** How many are under way. */
  questions: number;
}

const PROBE_MS = 2_000;
const RETRIES = 5;
/** Where a topic's setting comes from, when it is the topic's own. */
const TOPIC_CONFIG = 1;

/** An admin; it connects at the first question, and anew after one that failed. */
export function createAdmin({ connection, log: parent }: AdminOptions): Admin {
  const log = parent.scope("kafka.admin");
  let session: Session | undefined;

  function open(): Session {
    const client = createClient(connection, RETRIES, log);
    const admin = client.kafka.admin({ retry: { retries: RETRIES } });
    return { client, admin: admin.connect().then(() => admin), questions: 0 };
  }

  /** Asks, a second time where the connection turns out to be gone: it may have been so since long before. */
  async function ask<T>(
    what: string,
    question: (admin: KafkaAdmin) => Promise<T>,
    limitMs: number = connection.requestTimeoutMs,
  ): Promise<T> {
    const deadline = performance.now() + limitMs;
    const isReused = session !== undefined;
    try {
      return await askOnce(what, question, limitMs);
    } catch (error) {
      const left = deadline - performance.now();
      if (isReused && left > 0 && isConnectionError(error)) return askOnce(what, question, left);
      throw error;
    }
  }

  async function askOnce<T>(
    what: string,
    question: (admin: KafkaAdmin) => Promise<T>,
    limitMs: number,
  ): Promise<T> {
    session ??= open();
    const asked = session;
    asked.questions += 1;
    try {
      return await within(limitMs, what, asked.admin.then(question));
    } catch (error) {
      // What kafkajs knows of the cluster may be the reason; a fresh one costs little.
      if (session === asked) session = undefined;
      const brokers = connection.brokers.join(", ");
      throw new KafkaError(`${what} failed at Kafka ${brokers}: ${errorText(error)}`, { cause: error });
    } finally {
      asked.questions -= 1;
      if (session !== asked && asked.questions === 0) asked.client.destroy();
    }
  }

  async function describe(
    admin: KafkaAdmin,
    names: readonly string[],
  ): Promise<Map<string, TopicDescription>> {
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
  async function change(
    admin: KafkaAdmin,
    name: string,
    config: Readonly<Record<string, string>>,
  ): Promise<void> {
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

  return {
    async logRanges(topic) {
      const partitions = await ask(`Asking for the offsets of topic ${topic}`, (admin) =>
        admin.fetchTopicOffsets(topic),
      );
      return new Map(
        partitions.map(({ partition, low, high }) => [partition, { start: BigInt(low), end: BigInt(high) }]),
      );
    },
    async committedOffsets(groupId, topic) {
      const [answer] = await ask(`Asking for the offsets of group ${groupId}`, (admin) =>
        admin.fetchOffsets({ groupId, topics: [topic] }),
      );
      const committed = (answer?.partitions ?? []).map(
        ({ partition, offset }) => [partition, BigInt(offset)] as const,
      );
      return new Map(committed.filter(([, offset]) => offset >= 0n));
    },
    describeTopics: (names) => ask("Describing topics", (admin) => describe(admin, names)),
    async brokerCount() {
      const { brokers } = await ask("Describing the cluster", (admin) => admin.describeCluster());
      return brokers.length;
    },
    async createTopic({ name: topic, partitions, replication, config }) {
      const configEntries = Object.entries(config).map(([name, value]) => ({ name, value }));
      await ask(`Making topic ${topic}`, (admin) =>
        admin.createTopics({
          topics: [{ topic, numPartitions: partitions, replicationFactor: replication, configEntries }],
          timeout: connection.requestTimeoutMs,
        }),
      );
    },
    changeTopic: (name, config) => ask(`Changing topic ${name}`, (admin) => change(admin, name, config)),
    async probe(names) {
      try {
        const { topics } = await ask(
          "Probing",
          (admin) => admin.fetchTopicMetadata({ topics: [...names] }),
          PROBE_MS,
        );
        const leaderless = topics.find(({ partitions }) => partitions.some(({ leader }) => leader < 0));
        return leaderless && `a partition of topic ${leaderless.name} has no leader`;
      } catch (error) {
        return errorText(error);
      }
    },
    async [Symbol.asyncDispose]() {
      session?.client.destroy();
      session = undefined;
    },
  };
}
