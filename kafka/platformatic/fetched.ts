import { type fetchV17, type KafkaRecord, type RecordsBatch } from "@platformatic/kafka";

import { type Fetched } from "../partition-reader.ts";
import { type ReceivedRecord, type RecordHeader, type TopicPartition } from "../ports.ts";

type Partition = fetchV17.FetchResponsePartition;

/** A record batch's attributes (Kafka protocol guide, Record batch). */
const LOG_APPEND_TIME = 1 << 3;
const TRANSACTIONAL = 1 << 4;
const CONTROL = 1 << 5;
/** The type of a control record that ends a transaction without effect. */
const ABORT = 0;

/**
 * What a fetch brought of a partition that begins at `from`, without control records and aborted transactions; undefined
 * where it brought nothing. The library's own filter lets an aborted transaction pass whose end is not in the same fetch.
 */
export function toFetched(
  of: TopicPartition,
  from: bigint,
  { records: batches, abortedTransactions, highWatermark: end }: Partition,
): Fetched | undefined {
  const last = batches?.at(-1);
  if (batches == null || last === undefined) return undefined;
  const aborted = (abortedTransactions ?? []).toSorted((a, b) => Number(a.firstOffset - b.firstOffset));
  /** The producers whose transactions, as far as we have come, will be aborted. */
  const aborting = new Set<bigint>();
  const records: ReceivedRecord[] = [];
  for (const batch of batches) {
    while (aborted.length > 0 && aborted[0]!.firstOffset <= lastOffset(batch)) {
      aborting.add(aborted.shift()!.producerId);
    }
    if (batch.attributes & CONTROL) {
      if (batch.records[0]?.key?.readInt16BE(2) === ABORT) aborting.delete(batch.producerId);
    } else if (!(batch.attributes & TRANSACTIONAL && aborting.has(batch.producerId))) {
      // A batch may begin before the offset that was asked for.
      for (const record of batch.records) {
        if (batch.firstOffset + BigInt(record.offsetDelta) >= from) records.push(toRecord(of, batch, record));
      }
    }
  }
  return { from, next: lastOffset(last) + 1n, end, records };
}

function lastOffset({ firstOffset, lastOffsetDelta }: RecordsBatch): bigint {
  return firstOffset + BigInt(lastOffsetDelta);
}

function toRecord(
  { topic, partition }: TopicPartition,
  { firstOffset, firstTimestamp, maxTimestamp, attributes }: RecordsBatch,
  { offsetDelta, timestampDelta, key, value, headers }: KafkaRecord,
): ReceivedRecord {
  return {
    topic,
    partition,
    offset: firstOffset + BigInt(offsetDelta),
    key,
    value,
    headers: headers.map(([name, content]): RecordHeader => [name?.toString() ?? "", content]),
    timestamp: Number(attributes & LOG_APPEND_TIME ? maxTimestamp : firstTimestamp + timestampDelta),
  };
}
