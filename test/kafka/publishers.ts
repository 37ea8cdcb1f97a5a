import { once } from "node:events";
import { Worker } from "node:worker_threads";

import { type KafkaClientName } from "#kafka/client.ts";
import { type PublishResult } from "#kafka/ports.ts";

import { type Broker, readAll, textRecord } from "./broker.ts";
// Not with `type` inside the braces, which would run the thread here.
import type { NaiveAnswer, NaiveRequest } from "./naive-kafkajs.ts";

/** A record of an experiment, and what its publisher was told. */
export interface Tried {
  readonly partition: number;
  readonly value: string;
  outcome: PublishResult["outcome"] | undefined;
}

/** One who publishes: Weir's producer by either client, or kafkajs as anybody would use it. */
export interface Publisher extends AsyncDisposable {
  /** Everything that was published so far, in order. */
  readonly tried: readonly Tried[];
  /** Publishes records in one go; settles when the outcome of each is known. */
  publish(records: readonly (readonly [partition: number, value: string])[]): Promise<void>;
}

/** The publishers that lose nothing, and the one that does. */
export type PublisherName = KafkaClientName | "plain kafkajs";

/** Opens a publisher, connected. */
export function openPublisher(name: PublisherName, broker: Broker, topic: string): Promise<Publisher> {
  return name === "plain kafkajs" ? openNaive(broker, topic) : openOurs(broker, topic);
}

async function openOurs({ client, connection, log, telemetry }: Broker, topic: string): Promise<Publisher> {
  const topics = [{ name: topic, maxMessageBytes: 1_048_576 }];
  const producer = client.createProducer({ connection, topics, log, telemetry, publishTimeoutMs: 30_000 });
  await producer.ready;
  const tried: Tried[] = [];
  return {
    tried,
    async publish(records) {
      await Promise.all(
        records.map(async ([partition, value]) => {
          const each: Tried = { partition, value, outcome: undefined };
          tried.push(each);
          each.outcome = (await producer.publish(textRecord(topic, partition, value))).outcome;
        }),
      );
    },
    [Symbol.asyncDispose]: () => producer[Symbol.asyncDispose](),
  };
}

async function openNaive({ connection: { brokers } }: Broker, topic: string): Promise<Publisher> {
  const worker = new Worker(new URL("./naive-kafkajs.ts", import.meta.url), {
    workerData: { brokers, topic },
  });
  await once(worker, "message");
  const waiting = new Map<number, (isAcknowledged: boolean) => void>();
  worker.on("message", ({ id, isAcknowledged }: NaiveAnswer) => waiting.get(id)?.(isAcknowledged));
  const tried: Tried[] = [];
  let requests = 0;
  return {
    tried,
    async publish(pairs) {
      const records = pairs.map(([partition, value]): Tried => ({ partition, value, outcome: undefined }));
      tried.push(...records);
      const id = (requests += 1);
      const answer = new Promise<boolean>((resolve) => waiting.set(id, resolve));
      worker.postMessage({ id, records } satisfies NaiveRequest);
      const outcome = (await answer) ? "acknowledged" : "unknown";
      for (const record of records) record.outcome = outcome;
    },
    async [Symbol.asyncDispose]() {
      await worker.terminate();
    },
  };
}

/** What became of what was published. */
export interface Verdict {
  /** Acknowledged, and not on the log. */
  readonly lost: readonly string[];
  /** Refused, and on the log all the same. */
  readonly published: readonly string[];
  /** On the log before one of its partition that was published earlier. */
  readonly overtaken: readonly string[];
  readonly acknowledged: number;
}

/** Judges a publisher by the log. A record that stands there twice is judged by the first time: consumers drop the other. */
export async function judge(broker: Broker, topic: string, { tried }: Publisher): Promise<Verdict> {
  const log = await readAll(broker, topic);
  const at = ({ partition, value }: Tried): number => log.get(partition)?.indexOf(value) ?? -1;
  const acknowledged = tried.filter(({ outcome }) => outcome === "acknowledged");
  const overtaken = [...log.keys()].flatMap((partition) => {
    const places = tried.filter((each) => each.partition === partition && at(each) >= 0);
    return places.filter((each, index) => index > 0 && at(each) < at(places[index - 1]!));
  });
  return {
    lost: acknowledged.filter((each) => at(each) < 0).map(({ value }) => value),
    published: tried.filter((each) => each.outcome === "refused" && at(each) >= 0).map(({ value }) => value),
    overtaken: overtaken.map(({ value }) => value),
    acknowledged: acknowledged.length,
  };
}
