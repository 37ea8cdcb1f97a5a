import { randomBytes } from "node:crypto";

import { Producer, ProduceAcks } from "@platformatic/kafka";
import { Kafka, logLevel } from "kafkajs";

import { type KafkaClientName } from "#kafka/client.ts";

import { answer, order } from "./child-task.ts";

// The limit of publishing: a Kafka client alone in a process, idempotent, acks=all, one batch of 600-byte values awaited
// after the other, spread over the partitions.

/** What to publish how. */
export interface KafkaLimitOrder {
  readonly client: KafkaClientName;
  /** `host:port`. */
  readonly broker: string;
  readonly topic: string;
  readonly partitions: number;
  readonly valueBytes: number;
  readonly batch: number;
  readonly warmupSeconds: number;
  readonly seconds: number;
}

const { client, broker, topic, partitions, valueBytes, batch, warmupSeconds, seconds } =
  await order<KafkaLimitOrder>();

interface Content {
  readonly key: Buffer;
  readonly value: Buffer;
  readonly partition: number;
}

const contents = Array.from({ length: batch }, (_, index): Content => ({
  key: Buffer.from(`/bench/source-${index % 100}`),
  value: randomBytes(valueBytes),
  partition: index % partitions,
}));

async function openKafkajs(): Promise<() => Promise<unknown>> {
  const producer = new Kafka({ brokers: [broker], logLevel: logLevel.NOTHING }).producer({
    idempotent: true,
    maxInFlightRequests: 1,
  });
  await producer.connect();
  return () => producer.sendBatch({ acks: -1, topicMessages: [{ topic, messages: contents }] });
}

function openPlatformatic(): () => Promise<unknown> {
  const producer = new Producer({
    clientId: "bench",
    bootstrapBrokers: [broker],
    idempotent: true,
    acks: ProduceAcks.ALL,
  });
  return () => producer.send({ messages: contents.map((each) => ({ topic, ...each })) });
}

const send = client === "kafkajs" ? await openKafkajs() : openPlatformatic();

async function sendFor(duration: number): Promise<number> {
  const began = performance.now();
  let batches = 0;
  for (; performance.now() - began < duration * 1_000; batches++) await send();
  return (batches * batch * 1_000) / (performance.now() - began);
}

await sendFor(warmupSeconds);
answer({});
answer({ perSecond: await sendFor(seconds) });
process.exit(0);
