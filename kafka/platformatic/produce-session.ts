import { setTimeout as sleep } from "node:timers/promises";

import {
  Base,
  type Broker,
  createAPI,
  type initProducerIdV5,
  produceV10,
  produceV11,
  produceV9,
  ResponseError,
  Writer,
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
import { encodeRecordBatch } from "./record-batch.ts";

/** The versions of the Produce API whose requests are alike, as calls with a request that is written. */
const PRODUCE = [produceV11, produceV10, produceV9].map(({ api: { key, version }, parseResponse }) =>
  createAPI<[request: Writer], produceV11.ProduceResponse>(
    key,
    version,
    (request: Writer) => request,
    parseResponse,
  ),
);

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
  /** The sequence number of the next record, by partition. */
  const sequences = new Map<number, number>();
  let produce: (typeof PRODUCE)[number];
  let id: { readonly producerId: bigint; readonly producerEpoch: number } | undefined;
  /** The partitions of the batch under way that have been appended. */
  const appended = new Map<number, PartitionAnswer>();
  let isStale = false;

  async function connect(): Promise<void> {
    const { brokers } = await client.metadata({ topics: [], forceUpdate: true, retries: ASK_OTHERS });
    produce = await chooseProduce();
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

  async function chooseProduce(): Promise<typeof produce> {
    const { version } = await getApi<typeof produceV11.api>(client, "Produce");
    const chosen = PRODUCE.find((each) => each.version === version);
    if (chosen === undefined) {
      throw new Error(
        `the broker's Produce API is of version ${version} and must be of 9 or later: take a newer Kafka, or WEIR_KAFKA_CLIENT=kafkajs`,
      );
    }
    return chosen;
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
    batches: readonly (readonly [partition: number, records: readonly OutgoingRecord[]])[],
  ): Promise<readonly PartitionAnswer[]> {
    if (broker === undefined) throw new Error(`a partition of ${topic} has no leader`);
    const encoded = await Promise.all(
      batches.map(async ([partition, records]): Promise<EncodedBatch> => {
        const state = { ...id!, sequence: sequences.get(partition) ?? 0 };
        return [partition, await encodeRecordBatch(records, state, compression)];
      }),
    );
    const to = await client.connections.get(broker);
    const answer = await produce
      .async(to, produceRequest(topic, connection.requestTimeoutMs, encoded))
      .catch((error: unknown) => {
        // An error of one partition: the others' answers are there, too.
        if (error instanceof ResponseError)
          return (error as ResponseError & { response: produceV11.ProduceResponse }).response;
        throw error;
      });
    return answer.responses.flatMap(({ partitionResponses }) =>
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
            mine.map((partition) => [partition, batch.get(partition)!]),
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
        const next = (sequences.get(partition) ?? 0) + batch.get(partition)!.length;
        sequences.set(partition, next % SEQUENCES);
      }
      appended.clear();
      return result;
    },
    destroy: () => sockets.destroy(),
  };
}

type EncodedBatch = readonly [partition: number, batch: Buffer];

/** A Produce request with acks=all (Kafka protocol guide, Produce, versions 9 to 11). */
function produceRequest(topic: string, timeoutMs: number, batches: EncodedBatch[]): Writer {
  return Writer.create()
    .appendString(null)
    .appendInt16(-1)
    .appendInt32(timeoutMs)
    .appendArray([topic], (writer) => {
      writer.appendString(topic).appendArray(batches, (partitions, [partition, batch]) => {
        partitions.appendInt32(partition).appendBytes(batch);
      });
    })
    .appendTaggedFields();
}
