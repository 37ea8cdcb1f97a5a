import type { Batch, KafkaMessage } from "kafkajs";

import { type Fetched } from "../partition-reader.ts";
import { type ReceivedRecord, type RecordHeader } from "../ports.ts";

/** What a fetch brought of a partition, without control records and aborted transactions. */
export function toFetched(batch: Batch): Fetched {
  const { topic, partition } = batch;
  return {
    // It is there, though not in kafkajs' types.
    from: BigInt((batch as Batch & { readonly fetchedOffset: string }).fetchedOffset),
    next: BigInt(batch.lastOffset()) + 1n,
    end: BigInt(batch.highWatermark),
    records: batch.messages.map((message) => toRecord(topic, partition, message)),
  };
}

function toRecord(topic: string, partition: number, message: KafkaMessage): ReceivedRecord {
  const { key, value, timestamp, offset } = message;
  return {
    topic,
    partition,
    offset: BigInt(offset),
    key,
    value,
    headers: (message.headers ?? []) as unknown as readonly RecordHeader[], // a list, see library.ts
    timestamp: Number(timestamp),
  };
}
