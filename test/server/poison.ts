import { randomBytes } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll, expect, vi } from "vitest";

import { type OutgoingRecord } from "#kafka/ports.ts";
import { createTelemetry } from "#runtime/telemetry.ts";

import { brokerConnection, createKeptLog } from "../kafka/broker.ts";
import { type OwnBroker, startOwnBroker } from "../kafka/own-broker.ts";
import { kafkaClient } from "../support/kafka-client.ts";
import { readTopic } from "../support/topic.ts";
import { startWeir, type Weir, type WeirOptions } from "../support/weir.ts";
import { type Clients, createClients } from "./clients.ts";

/** Puts records on a topic of a Weir, in their order, as somebody else may, and answers their offsets. */
export async function publish(
  weir: Pick<Weir, "brokers" | "topic">,
  records: readonly Partial<OutgoingRecord>[],
  topic: string = weir.topic,
): Promise<readonly bigint[]> {
  const log = createKeptLog();
  await using telemetry = createTelemetry(log);
  await using producer = kafkaClient.createProducer({
    connection: brokerConnection(weir.brokers),
    topics: [{ name: topic, maxMessageBytes: 2_097_152 }],
    log,
    telemetry,
  });
  const whole = records.map((record): OutgoingRecord => ({
    topic,
    partition: 0,
    key: null,
    value: null,
    headers: [],
    timestamp: Date.now(),
    ...record,
  }));
  const results = await Promise.all(whole.map((record) => producer.publish(record)));
  return results.map((result) => {
    if (result.outcome !== "acknowledged") throw new Error(`not published: ${result.detail}`);
    return result.position.offset;
  });
}

/** Runs one statement on a Weir's database. */
export async function sql<R extends pg.QueryResultRow>(
  { databaseUrl }: Pick<Weir, "databaseUrl">,
  text: string,
  values: readonly unknown[] = [],
): Promise<readonly R[]> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    return (await client.query<R>(text, [...values])).rows;
  } finally {
    await client.end();
  }
}

const bytes = (text: string): Buffer => Buffer.from(text);

/** Three records that are no events: two of partition 0 and one of 1, which has 2,000 bytes. */
export const POISON: readonly [PoisonRecord, PoisonRecord, PoisonRecord] = [
  {
    partition: 0,
    key: bytes("/shop"),
    value: bytes("no event"),
    headers: [
      ["twice", bytes("a")],
      ["twice", null],
      ["weir-principal", bytes("bob")],
    ],
    timestamp: Date.now() - 5_000,
  },
  {
    partition: 1,
    value: randomBytes(2_000),
    headers: [["content-type", bytes("application/cloudevents+json")]],
  },
  { partition: 0, key: new Uint8Array([0xff, 0]), value: new Uint8Array() },
];

type PoisonRecord = Partial<OutgoingRecord> & { readonly value: Uint8Array };

/** Publishes {@link POISON}, each once the one before is a dead letter. */
export async function publishPoison(suite: Poisoned): Promise<void> {
  for (const [index, record] of POISON.entries()) {
    await publish(suite.weir, [record]);
    await suite.untilListed(index + 1);
  }
}

/** Has the store refuse every event, publishes so many of one key, numbered by id and value, and answers the way back. */
export async function publishRefused(weir: Weir, count: number): Promise<() => Promise<void>> {
  await sql(
    weir,
    `create function break() returns trigger language plpgsql as $$ begin
       raise exception 'not yet' using errcode = '22023'; end $$;
     create trigger broken before insert on events.event for each row execute function break()`,
  );
  await publish(
    weir,
    Array.from({ length: count }, (_, n) => ({
      key: bytes("/one"),
      value: bytes(`${n}`),
      headers: [
        ["ce_specversion", bytes("1.0")],
        ["ce_id", bytes(`${n}`)],
        ["ce_source", bytes("/one")],
        ["ce_type", bytes("com.example.one")],
        ["ce_time", bytes(new Date().toISOString())],
      ],
    })),
  );
  return async () => void (await sql(weir, "drop trigger broken on events.event"));
}

/** A suite's {@link Poisoned} on a broker of its own, whose requests are given up soon. */
export function usePoisonedBroker(): { readonly suite: Poisoned; readonly broker: () => OwnBroker } {
  let broker: OwnBroker;
  beforeAll(async () => {
    broker = await startOwnBroker();
  }, 120_000);
  afterAll(() => broker[Symbol.asyncDispose]());
  const env = { WEIR_PUBLISH_TIMEOUT: "3s", WEIR_KAFKA_REQUEST_TIMEOUT: "3s" };
  const suite = usePoisoned(() => ({ brokers: broker.address, env }));
  return { suite, broker: () => broker };
}

/** What a suite about dead letters works with: a Weir with workers, and its dead letters. */
export interface Poisoned {
  readonly weir: Weir;
  readonly clients: Clients;
  /** The group that the workers fail as. */
  readonly group: string;
  nameOf(offset: bigint | number, partition?: number, topic?: string, group?: string): string;
  /** Resolves when so many dead letters are in the index. */
  untilListed(count: number): Promise<void>;
  /** How many records the topic of the events has. */
  logEnd(): Promise<number>;
  /** Puts a letter into the index alone. */
  insertLetter(letter: InsertedLetter): Promise<void>;
}

interface InsertedLetter {
  readonly offset: number;
  /** In the dead-letter topic, partition 0; not known unless it is given. */
  readonly letterOffset?: number | bigint;
  readonly topic?: string;
  readonly group?: string;
  readonly attempt?: number;
}

/** A Weir with workers for a suite. */
export function usePoisoned(options: () => WeirOptions = () => ({})): Poisoned {
  let weir: Weir;
  let clients: Clients;
  beforeAll(async () => {
    weir = await startWeir({ workers: true, ...options() });
    clients = createClients(weir.baseUrl, await weir.token());
  }, 60_000);
  afterAll(() => weir[Symbol.asyncDispose]());
  const own = (): string => weir.topic.replace("test.events.", "test.persist.");
  return {
    get weir() {
      return weir;
    },
    get clients() {
      return clients;
    },
    get group() {
      return own();
    },
    nameOf(offset, partition = 0, topic = weir.topic, group = own()) {
      return `deadLetters/${group}:${topic}:${partition}:${offset}`;
    },
    async untilListed(count) {
      await vi.waitFor(
        async () => {
          const { total } = await clients.deadLetters.getDeadLetterDepth({});
          expect(total).toBe(BigInt(count));
        },
        { timeout: 45_000, interval: 50 },
      );
    },
    async logEnd() {
      return (await readTopic(weir.brokers, weir.topic)).length;
    },
    async insertLetter({ offset, letterOffset, topic = weir.topic, group = own(), attempt = 0 }) {
      await sql(
        weir,
        `insert into consumer.dead_letter (time, record_time, "offset", partition, attempt, group_id, topic, letter_topic,
          letter_partition, letter_offset, reason, detail)
          values (now(), now(), $1, 0, $2, $3, $4, $5, 0, $6, 'MALFORMED', 'made by a test')`,
        [offset, attempt, group, topic, weir.deadLetterTopic, letterOffset ?? null],
      );
    },
  };
}
