import { randomUUID } from "node:crypto";

import { type AcceptedEvent } from "#core/event.ts";
import { parseTimestamp } from "#core/timestamp.ts";
import { createDeadLetters } from "#kafka/dead-letters.ts";
import { kafkajs } from "#kafka/kafkajs/library.ts";
import { type OutgoingRecord } from "#kafka/ports.ts";
import { encodeRecord } from "#kafka/record.ts";
import { topicTable } from "#kafka/topics.ts";
import { type Database } from "#postgres/pool.ts";
import { createTelemetry } from "#runtime/telemetry.ts";

import { createPersistRole } from "../../workers/persist-role.ts";
import { createPersist, type Persist, type PersistOptions } from "../../workers/persist.ts";
import { type Role } from "../../workers/role.ts";
import { type Broker, createKeptLog, type KeptLog, openBroker } from "../kafka/broker.ts";
import { openDatabase } from "../postgres/fixture.ts";
import { createTestDatabase } from "../support/database.ts";
import { kafkaClient } from "../support/kafka-client.ts";

/** The topics, the group and the database of one test. */
export interface Bench extends AsyncDisposable {
  readonly broker: Broker;
  readonly databaseUrl: string;
  readonly db: Database;
  readonly events: string;
  readonly partitions: number;
  readonly deadLetters: string;
  readonly group: string;
  /** Publishes records, and answers once every one is acknowledged. */
  publish(...records: readonly OutgoingRecord[]): Promise<void>;
  /** A persist role of its own: what a worker process runs. */
  work(options?: WorkOptions): Worker;
  /** The group's checkpoint of a partition: its next offset. */
  checkpoint(partition: number): Promise<bigint | undefined>;
  /** Kafka's committed offset of a partition. */
  committed(partition: number): Promise<bigint | undefined>;
  /** Sets Kafka's committed offsets, by partition; the group must have no member. */
  commit(offsets: Readonly<Record<number, number>>): Promise<void>;
  /** Makes Kafka forget the group with its offsets; it must have no member. */
  forgetGroup(): Promise<void>;
  /** How many rows the store has. */
  rows(): Promise<number>;
}

/** What a test may put in the place of a worker's own. */
export interface WorkOptions {
  /** The database by another way. */
  readonly databaseUrl?: string;
  /** The database's bound of a statement, in milliseconds. */
  readonly statementTimeoutMs?: number;
  /** Another dead-letter topic. */
  readonly deadLetters?: string;
  /** Stands between the consumer and the role. */
  readonly wrap?: (persist: Persist) => Persist;
}

/** A running persist role. */
export interface Worker extends AsyncDisposable {
  readonly role: Role;
  readonly persist: Persist;
  readonly log: KeptLog;
  /** The value of a metric by its Prometheus name with labels, such as `weir_dead_letters_total{reason="MALFORMED"}`; 0 where it has none. */
  metric(name: string): Promise<number>;
  stop(): Promise<void>;
}

/** The sizes that Weir gives its topics. */
const [EVENTS, DEAD_LETTERS] = topicTable({
  replication: 1,
  events: "events",
  eventsPartitions: 1,
  eventsRetentionMs: 1,
  deadLetters: "dead-letters",
  deadLettersPartitions: 1,
  deadLettersRetentionMs: 1,
});

/** A bench on the run's services, for one test. */
export async function openBench(partitions = 1): Promise<Bench> {
  await using stack = new AsyncDisposableStack();
  const broker = stack.use(await openBroker());
  const database = stack.use(await createTestDatabase());
  const db = stack.use(openDatabase(database.url));
  const events = await broker.topic(partitions, { "max.message.bytes": String(EVENTS.maxMessageBytes) });
  const deadLetters = await broker.topic(1, {
    "cleanup.policy": "compact,delete",
    "max.message.bytes": String(DEAD_LETTERS.maxMessageBytes),
  });
  const group = broker.name("persist");
  const kafka = new kafkajs.Kafka({
    brokers: [...broker.connection.brokers],
    logLevel: kafkajs.logLevel.NOTHING,
  });
  const admin = kafka.admin();
  await admin.connect();
  stack.defer(() => admin.disconnect());
  const { connection, log, telemetry } = broker;
  const topics = [events, deadLetters].map((name) => ({ name, maxMessageBytes: EVENTS.maxMessageBytes }));
  const producer = stack.use(
    kafkaClient.createProducer({ connection, topics, log, telemetry, queueRecords: 100_000 }),
  );

  const owned = stack.move();
  return {
    broker,
    databaseUrl: database.url,
    db,
    events,
    partitions,
    deadLetters,
    group,
    async publish(...records) {
      const results = await Promise.all(records.map((record) => producer.publish(record)));
      const failed = results.find(({ outcome }) => outcome !== "acknowledged");
      if (failed !== undefined) throw new Error(`not published: ${JSON.stringify(failed)}`);
    },
    work: (options) =>
      startWorker({ broker, databaseUrl: database.url, events, deadLetters, group }, options),
    async checkpoint(partition) {
      const { rows } = await db.pool.query<{ next_offset: string | null }>(
        "select next_offset from consumer.checkpoint where group_id = $1 and topic = $2 and partition = $3",
        [group, events, partition],
      );
      const next = rows[0]?.next_offset;
      return next == null ? undefined : BigInt(next);
    },
    committed: async (partition) => (await broker.admin.committedOffsets(group, events)).get(partition),
    commit: (offsets) =>
      admin.setOffsets({
        groupId: group,
        topic: events,
        partitions: Object.entries(offsets).map(([partition, offset]) => ({
          partition: Number(partition),
          offset: String(offset),
        })),
      }),
    async forgetGroup() {
      await admin.deleteGroups([group]);
    },
    async rows() {
      const { rows } = await db.pool.query<{ count: number }>(
        "select count(*)::int as count from events.event",
      );
      return rows[0]!.count;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function startWorker(
  bench: Pick<Bench, "broker" | "databaseUrl" | "events" | "deadLetters" | "group">,
  options: WorkOptions = {},
): Worker {
  const { broker, events, group } = bench;
  const {
    databaseUrl = bench.databaseUrl,
    deadLetters = bench.deadLetters,
    wrap = (persist) => persist,
  } = options;
  const { connection, admin } = broker;
  const log = createKeptLog();
  const telemetry = createTelemetry(log);
  const db = openDatabase(databaseUrl, {
    connectTimeoutMs: 1_000,
    statementTimeoutMs: options.statementTimeoutMs ?? 10_000,
  });
  const letters = { name: deadLetters, partitions: 1 };
  const producer = kafkaClient.createProducer({
    connection,
    topics: [{ ...letters, maxMessageBytes: DEAD_LETTERS.maxMessageBytes }],
    log,
    telemetry,
    publishTimeoutMs: 2_000,
  });
  const parts: PersistOptions = {
    db,
    setAside: createDeadLetters({ producer, topic: letters, group }),
    group,
    owner: `test/${randomUUID()}`,
    telemetry,
    log,
  };
  const persist = wrap(createPersist(parts));
  const topic = { name: events, maxMessageBytes: EVENTS.maxMessageBytes };
  const consumer = kafkaClient.createConsumer({
    connection,
    group,
    topic,
    handler: persist,
    batchWaitMs: 50,
    log,
  });
  const role = createPersistRole({ consumer, persist, group, topic: events, admin, telemetry, log });
  const stopping = new AbortController();
  const running = role.run(stopping.signal);
  let stopped: Promise<void> | undefined;
  async function stop(): Promise<void> {
    stopping.abort();
    await running;
    await producer.close(1_000);
    await db[Symbol.asyncDispose]();
  }
  return {
    role,
    persist,
    log,
    async metric(name) {
      const { body } = await telemetry.page();
      const line = body.split("\n").find((each) => each.startsWith(`${name} `));
      return Number(line?.slice(name.length + 1) ?? 0);
    },
    stop: () => (stopped ??= stop()),
    [Symbol.asyncDispose]() {
      return this.stop();
    },
  };
}

/** An accepted event of the present; what a test does not say is filled in. */
export function accepted(
  sketch: Partial<AcceptedEvent["event"]> = {},
  known: Partial<AcceptedEvent> = {},
): AcceptedEvent {
  return {
    event: {
      id: randomUUID(),
      source: "/test",
      type: "com.example.test",
      subject: undefined,
      time: parseTimestamp(new Date().toISOString()),
      datacontenttype: undefined,
      dataschema: undefined,
      extensions: new Map(),
      data: undefined,
      ...sketch,
    },
    acceptTime: Date.now(),
    principal: "alice",
    traceParent: undefined,
    traceState: undefined,
    ...known,
  };
}

/** The record of an event, on a partition of the test's choice. */
export function eventRecord(bench: Bench, event: AcceptedEvent, partition = 0): OutgoingRecord {
  return { ...encodeRecord(event, bench.events, bench.partitions), partition };
}

/** As many events with data that tell them apart, on one partition. */
export function eventRecords(bench: Bench, count: number, partition = 0): OutgoingRecord[] {
  return Array.from({ length: count }, (_, index) =>
    eventRecord(
      bench,
      accepted({ data: { bytes: Buffer.from(`event ${index}`), protoType: undefined } }),
      partition,
    ),
  );
}
