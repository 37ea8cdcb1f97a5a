import { setTimeout as sleep } from "node:timers/promises";

import {
  Base,
  type Broker,
  type initProducerIdV5,
  type MessageRecord,
  NumericMap,
  type produceV11,
  ResponseError,
} from "@platformatic/kafka";

import {
  type PartitionAnswer,
  type ProduceSession,
  type ProduceSessionOptions,
  TopicMissing,
} from "../adapter.ts";
import { type OutgoingRecord } from "../ports.ts";
import { clientOptions, ownSockets, shuffled } from "./client.ts";
import { isProtocolError } from "./errors.ts";
import { ASK_OTHERS, type Described, describeTopic, getApi } from "./library.ts";

type ProduceApi = typeof produceV11.api;

/** Sequence numbers begin anew after the largest int32 (Kafka protocol guide, Record batch). */
const SEQUENCES = 2 ** 31;
const LOADING_MS = 100;
/** A producer without transactions has no use for it. */
const TRANSACTION_TIMEOUT_MS = 60_000;

/**
 * A produce session by the library's Produce API. Its Producer would not do: it publishes to another partition where the
 * one that was named does not exist, takes a new producer id in the midst of a batch, and forgets what some partitions
 * answered where another one failed.
 */
export function openProduceSession({
  connection,
  topic,
  compression,
}: ProduceSessionOptions): ProduceSession {
  const client = new Base(clientOptions(connection, ASK_OTHERS));
  const sockets = ownSockets(client);
  const sequences = new NumericMap();
  let produce: ProduceApi;
  let id: { readonly producerId: bigint; readonly producerEpoch: number } | undefined;
  /** The partitions of the batch under way that have been appended. */
  const appended = new Map<number, PartitionAnswer>();
  let isStale = false;

  async function connect(): Promise<void> {
    const { brokers } = await client.metadata({ topics: [], forceUpdate: true, retries: ASK_OTHERS });
    produce = await getApi<ProduceApi>(client, "Produce");
    const initProducerId = await getApi<typeof initProducerIdV5.api>(client, "InitProducerId");
    const broker = await client.connections.getFirstAvailable(shuffled(brokers.values()));
    while (id === undefined) {
      try {
        const { producerId, producerEpoch } = await initProducerId.async(
          broker,
          null,
          TRANSACTION_TIMEOUT_MS,
        );
        id = { producerId, producerEpoch };
      } catch (error) {
        // A broker that has just started says so once, until it has fetched ids to give.
        if (!isProtocolError(error, "COORDINATOR_LOAD_IN_PROGRESS")) throw error;
        await sleep(LOADING_MS);
      }
    }
  }

  /** The topic with all these partitions. What is known may be some seconds old, unless that did not do. */
  async function describe(partitions: readonly number[]): Promise<Described> {
    const missing = ({ topic: { partitions: known } }: Described): number | undefined =>
      partitions.find((partition) => known[partition] === undefined);
    let described = await describeTopic(client, topic, isStale);
    if (!isStale && missing(described) !== undefined) described = await describeTopic(client, topic, true);
    const partition = missing(described);
    if (partition !== undefined) throw new TopicMissing(topic, partition);
    isStale = false;
    return described;
  }

  /** Sends one broker its part of the batch. */
  async function request(
    broker: Broker | undefined,
    records: readonly OutgoingRecord[],
  ): Promise<readonly PartitionAnswer[]> {
    if (broker === undefined) throw new Error(`a partition of ${topic} has no leader`);
    const to = await client.connections.get(broker);
    const messages = records.map(toMessage);
    const answer = await produce
      .async(to, -1, connection.requestTimeoutMs, messages, { ...id, compression, sequences })
      .catch((error: unknown) => {
        // An error of one partition: the others' answers are there, too.
        if (error instanceof ResponseError)
          return (error as ResponseError & { response: ProduceAnswers }).response;
        throw error;
      });
    return (answer as ProduceAnswers).responses.flatMap(({ partitionResponses }) =>
      partitionResponses.map(({ index, errorCode, baseOffset }) => ({
        partition: index,
        errorCode,
        baseOffset,
      })),
    );
  }

  return {
    connect,
    get produceRequests() {
      return sockets.produceRequests;
    },
    async send(records) {
      const batch = Map.groupBy(records, ({ partition }) => partition);
      const partitions = [...batch.keys()].filter((partition) => !appended.has(partition));
      const { cluster, topic: described } = await describe(partitions);
      const byLeader = Map.groupBy(partitions, (partition) => described.partitions[partition]!.leader);
      const outcomes = await Promise.allSettled(
        Array.from(byLeader, ([leader, mine]) =>
          request(
            cluster.brokers.get(leader),
            mine.flatMap((partition) => batch.get(partition)!),
          ),
        ),
      );
      const answers = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? outcome.value : []));
      for (const answer of answers) if (answer.errorCode === 0) appended.set(answer.partition, answer);
      isStale = appended.size < batch.size;
      const failed = outcomes.find(({ status }) => status === "rejected");
      if (failed !== undefined) throw (failed as PromiseRejectedResult).reason;

      const refused = answers.filter(({ errorCode }) => errorCode !== 0);
      const result = { partitions: [...appended.values(), ...refused], isRepeat: false };
      for (const partition of appended.keys()) {
        const key = `${topic}:${partition}`;
        sequences.set(key, (sequences.getWithDefault(key, 0) + batch.get(partition)!.length) % SEQUENCES);
      }
      appended.clear();
      return result;
    },
    destroy: () => sockets.destroy(),
  };
}

type ProduceAnswers = Exclude<Awaited<ReturnType<ProduceApi["async"]>>, boolean>;

function toMessage({ topic, partition, key, value, headers, timestamp }: OutgoingRecord): MessageRecord {
  const parts = {
    key: toBuffer(key),
    value: toBuffer(value),
    // Every name is a key of its own here, so that names may be repeated and keep their order.
    headers: new Map(headers.map(([name, content]) => [Buffer.from(name), toBuffer(content)])),
  };
  // null is a null on the wire, though the types do not say so.
  return {
    ...(parts as unknown as Pick<MessageRecord, "key" | "value" | "headers">),
    topic,
    partition,
    timestamp: BigInt(timestamp),
  };
}

function toBuffer(bytes: Uint8Array | null): Buffer | null {
  return bytes === null ? null : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
