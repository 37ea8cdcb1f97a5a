import { parentPort, workerData } from "node:worker_threads";

import kafkajs from "kafkajs";

// Publishes by kafkajs alone, as its documentation shows it: an idempotent producer, one request in flight. A thread of
// its own has a kafkajs of its own, without Weir's changes. Each message is a batch to send; the answer says what came of it.

/** What the thread is asked. */
export interface NaiveRequest {
  readonly id: number;
  readonly records: readonly { readonly partition: number; readonly value: string }[];
}

/** What it answers. */
export interface NaiveAnswer {
  readonly id: number;
  readonly isAcknowledged: boolean;
}

const { brokers, topic } = workerData as { readonly brokers: readonly string[]; readonly topic: string };
const kafka = new kafkajs.Kafka({
  brokers: [...brokers],
  logLevel: kafkajs.logLevel.NOTHING,
  requestTimeout: 5_000,
  retry: { retries: 30, initialRetryTime: 100, maxRetryTime: 500 },
});
const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
await producer.connect();

function publish({ id, records }: NaiveRequest): void {
  producer.sendBatch({ acks: -1, topicMessages: [{ topic, messages: [...records] }] }).then(
    () => parentPort?.postMessage({ id, isAcknowledged: true } satisfies NaiveAnswer),
    () => parentPort?.postMessage({ id, isAcknowledged: false } satisfies NaiveAnswer),
  );
}

parentPort?.on("message", publish);
parentPort?.postMessage("connected");
