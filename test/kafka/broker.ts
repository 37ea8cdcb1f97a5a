import { randomUUID } from "node:crypto";

import { inject } from "vitest";

import { type KafkaClient, type KafkaClientName, loadKafkaClient } from "#kafka/client.ts";
import { type ConnectionOptions } from "#kafka/connection.ts";
import { kafkajs } from "#kafka/kafkajs/library.ts";
import { type Admin, type OutgoingRecord } from "#kafka/ports.ts";
import { type Logger } from "#runtime/log.ts";
import { createTelemetry, type Telemetry } from "#runtime/telemetry.ts";

/** Both adapters keep the one contract: its suites run for each. */
export const CLIENTS: readonly KafkaClientName[] = ["kafkajs", "platformatic"];

/** A log that is kept, so that a test can look at it, and not shown. */
export interface KeptLog extends Logger {
  readonly lines: readonly (readonly [level: string, message: string, fields: unknown])[];
}

/** A log that keeps its lines. */
export function createKeptLog(): KeptLog {
  const lines: [string, string, unknown][] = [];
  const log: KeptLog = {
    lines,
    debug: (message, fields) => lines.push(["debug", message, fields]),
    info: (message, fields) => lines.push(["info", message, fields]),
    warn: (message, fields) => lines.push(["warn", message, fields]),
    error: (message, fields) => lines.push(["error", message, fields]),
    scope: () => log,
  };
  return log;
}

/** The run's broker, with short timeouts. */
export function brokerConnection(brokers: string = inject("kafkaBrokers")): ConnectionOptions {
  return {
    brokers: brokers.split(","),
    clientId: "weir-test",
    tls: undefined,
    sasl: undefined,
    connectTimeoutMs: 2_000,
    requestTimeoutMs: 10_000,
  };
}

/** What a suite needs of the run's broker; topics that it made are deleted at the end. */
export interface Broker extends AsyncDisposable {
  readonly connection: ConnectionOptions;
  /** The client under test. */
  readonly client: KafkaClient;
  readonly admin: Admin;
  readonly log: KeptLog;
  readonly telemetry: Telemetry;
  /** A new topic, and its name. */
  topic(partitions: number, config?: Readonly<Record<string, string>>, name?: string): Promise<string>;
  /** Deletes a topic and makes it anew by the same name: another log. */
  remake(topic: string, partitions: number): Promise<void>;
  /** Deletes topics that the code under test has made, at the end. */
  owning(...topics: readonly string[]): AsyncDisposable;
  /** A name that no other test has. */
  name(what: string): string;
  /** Writes transactions, one after another, each of one text, as a transactional producer of somebody else's would. */
  transactions(
    topic: string,
    texts: readonly (readonly [end: "commit" | "abort", text: string])[],
  ): Promise<void>;
  /** Begins a transaction and writes a text in it. */
  openTransaction(topic: string, text: string): Promise<{ commit(): Promise<void> }>;
  /** Writes texts compressed, as a producer of somebody else's may. */
  gzip(topic: string, texts: readonly string[]): Promise<void>;
  /** How many members a group has. */
  members(group: string): Promise<number>;
  /** Deletes a topic's records below an offset. */
  deleteRecords(topic: string, partition: number, before: bigint): Promise<void>;
}

/** Opens a broker for a suite: the run's, or one of its own. */
export async function openBroker(
  connection: ConnectionOptions = brokerConnection(),
  clientName: KafkaClientName = "kafkajs",
): Promise<Broker> {
  const client = await loadKafkaClient(clientName);
  const log = createKeptLog();
  const telemetry = createTelemetry(log);
  const admin = client.createAdmin({ connection, log });
  const kafka = new kafkajs.Kafka({ brokers: [...connection.brokers], logLevel: kafkajs.logLevel.NOTHING });
  const kafkaAdmin = kafka.admin();
  await kafkaAdmin.connect();
  const made = new Set<string>();
  const name = (what: string): string => `test.${what}.${randomUUID().slice(0, 8)}`;
  return {
    connection,
    client,
    admin,
    log,
    telemetry,
    name,
    async topic(partitions, config = {}, topic = name("topic")) {
      await admin.createTopic({ name: topic, partitions, replication: 1, config });
      made.add(topic);
      return topic;
    },
    async remake(topic, partitions) {
      await kafkaAdmin.deleteTopics({ topics: [topic] });
      await using fresh = client.createAdmin({ connection, log });
      await fresh.createTopic({ name: topic, partitions, replication: 1, config: {} });
    },
    owning: (...topics) => ({
      [Symbol.asyncDispose]: () => kafkaAdmin.deleteTopics({ topics: [...topics] }),
    }),
    async transactions(topic, texts) {
      const producer = kafka.producer({ transactionalId: name("transactions"), maxInFlightRequests: 1 });
      await producer.connect();
      for (const [end, text] of texts) {
        const transaction = await producer.transaction();
        await transaction.send({ topic, messages: [message(text)] });
        await transaction[end]();
      }
      await producer.disconnect();
    },
    async openTransaction(topic, text) {
      const producer = kafka.producer({ transactionalId: name("transactions"), maxInFlightRequests: 1 });
      await producer.connect();
      const transaction = await producer.transaction();
      // With a key: a topic that is compacted takes none without.
      await transaction.send({ topic, messages: [{ ...message(text), key: Buffer.from(text) }] });
      return {
        async commit() {
          await transaction.commit();
          await producer.disconnect();
        },
      };
    },
    async gzip(topic, texts) {
      const producer = kafka.producer();
      await producer.connect();
      const compression = kafkajs.CompressionTypes.GZIP;
      await producer.send({ topic, compression, messages: texts.map(message) });
      await producer.disconnect();
    },
    async members(group) {
      const { groups } = await kafkaAdmin.describeGroups([group]);
      return groups[0]!.members.length;
    },
    async deleteRecords(topic, partition, before) {
      await kafkaAdmin.fetchTopicOffsets(topic);
      await kafkaAdmin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before) }] });
    },
    async [Symbol.asyncDispose]() {
      if (made.size > 0) await kafkaAdmin.deleteTopics({ topics: [...made] });
      await kafkaAdmin.disconnect();
      await admin[Symbol.asyncDispose]();
      await telemetry[Symbol.asyncDispose]();
    },
  };
}

/** kafkajs as Weir uses it takes headers as a list. */
function message(text: string): { key: null; value: Buffer; headers: never } {
  return { key: null, value: Buffer.from(text), headers: [] as never };
}

/** A record with a text for its value. */
export function textRecord(topic: string, partition: number, value: string): OutgoingRecord {
  return { topic, partition, key: null, value: Buffer.from(value), headers: [], timestamp: Date.now() };
}

/** Everything on a partition, read by kafkajs as anybody would. */
export async function readAll(
  broker: Broker,
  topic: string,
): Promise<ReadonlyMap<number, readonly string[]>> {
  const ranges = await broker.admin.logRanges(topic);
  const values = new Map(Array.from(ranges.keys(), (partition) => [partition, [] as string[]]));
  let missing = Array.from(ranges.values()).reduce((sum, { start, end }) => sum + Number(end - start), 0);
  if (missing === 0) return values;
  const kafka = new kafkajs.Kafka({
    brokers: [...broker.connection.brokers],
    logLevel: kafkajs.logLevel.NOTHING,
  });
  const retry = { restartOnFailure: () => Promise.resolve(true) };
  const consumer = kafka.consumer({ groupId: broker.name("reader"), maxWaitTimeInMs: 100, retry });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const done = Promise.withResolvers<void>();
  await consumer.run({
    eachMessage: async ({ partition, message }) => {
      values.get(partition)?.push(message.value?.toString() ?? "");
      missing -= 1;
      if (missing === 0) done.resolve();
    },
  });
  await done.promise;
  await consumer.disconnect();
  return values;
}
