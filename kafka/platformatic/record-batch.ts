import { promisify } from "node:util";
import { gzip, zstdCompress } from "node:zlib";

import { crc32c } from "@platformatic/kafka";

import { BATCH_OVERHEAD, contentSize, varintSize, zigzag } from "#core/record-size.ts";
import { utf8Length, writeUtf8 } from "#core/utf8.ts";

import { type Compression } from "../adapter.ts";
import { type OutgoingRecord } from "../ports.ts";

// Record batches in bytes (Kafka protocol guide, Record batch). The library makes a buffer of every length and every name,
// some fifty for a record, and joins them twice: a quarter of what an event of a batch cost the server.

/** How a batch stands in the order of its producer's. */
export interface ProducerState {
  readonly producerId: bigint;
  readonly producerEpoch: number;
  /** The number of the batch's first record within the partition. */
  readonly sequence: number;
}

const CODECS = {
  none: { bits: 0, compress: (bytes: Buffer): Buffer => bytes },
  gzip: { bits: 1, compress: promisify(gzip) as (bytes: Buffer) => Promise<Buffer> },
  zstd: { bits: 4, compress: promisify(zstdCompress) as (bytes: Buffer) => Promise<Buffer> },
} as const;

/** The record batch of one partition's records, of which there is at least one. */
export async function encodeRecordBatch(
  records: readonly OutgoingRecord[],
  { producerId, producerEpoch, sequence }: ProducerState,
  compression: Compression,
): Promise<Buffer> {
  const { bits, compress } = CODECS[compression];
  const firstTime = records[0]?.timestamp ?? 0;
  const lastTime = records.reduce((last, { timestamp }) => Math.max(last, timestamp), firstTime);
  const content = await compress(encodeRecords(records, firstTime));

  const batch = Buffer.allocUnsafe(BATCH_OVERHEAD + content.length);
  // The broker gives it its offset.
  batch.writeBigInt64BE(0n, 0);
  batch.writeInt32BE(batch.length - CRC_FROM_LENGTH, 8);
  batch.writeInt32BE(0, 12);
  batch.writeInt8(MAGIC, 16);
  batch.writeInt16BE(bits, CHECKED);
  batch.writeInt32BE(records.length - 1, 23);
  batch.writeBigInt64BE(BigInt(firstTime), 27);
  batch.writeBigInt64BE(BigInt(lastTime), 35);
  batch.writeBigInt64BE(producerId, 43);
  batch.writeInt16BE(producerEpoch, 51);
  batch.writeInt32BE(sequence, 53);
  batch.writeInt32BE(records.length, 57);
  content.copy(batch, BATCH_OVERHEAD);
  batch.writeUInt32BE(crc32c(batch.subarray(CHECKED)), 17);
  return batch;
}

const MAGIC = 2;
/** The batch's own length does not count the offset and itself. */
const CRC_FROM_LENGTH = 12;
/** Where the part begins that the checksum is of. */
const CHECKED = 21;

/** Sizes first, so that all is written once, into one piece of memory. */
function encodeRecords(records: readonly OutgoingRecord[], firstTime: number): Buffer {
  const sizes = records.map(
    (record, index) => 1 + varintSize(record.timestamp - firstTime) + varintSize(index) + contentSize(record),
  );
  const bytes = Buffer.allocUnsafe(sizes.reduce((sum, size) => sum + varintSize(size) + size, 0));
  let at = 0;
  for (const [index, { key, value, headers, timestamp }] of records.entries()) {
    at = writeVarint(sizes[index]!, bytes, at);
    bytes[at++] = 0;
    at = writeVarint(timestamp - firstTime, bytes, at);
    at = writeVarint(index, bytes, at);
    at = writeBytes(key, bytes, at);
    at = writeBytes(value, bytes, at);
    at = writeVarint(headers.length, bytes, at);
    for (const [name, content] of headers) {
      at = writeVarint(utf8Length(name), bytes, at);
      at = writeUtf8(name, bytes, at);
      at = writeBytes(content, bytes, at);
    }
  }
  return bytes;
}

function writeBytes(bytes: Uint8Array | null, into: Buffer, start: number): number {
  if (bytes === null) return writeVarint(-1, into, start);
  const at = writeVarint(bytes.length, into, start);
  into.set(bytes, at);
  return at + bytes.length;
}

function writeVarint(value: number, into: Buffer, start: number): number {
  let at = start;
  let rest = zigzag(value);
  for (; rest >= 128; rest = Math.floor(rest / 128)) into[at++] = (rest % 128) | 128;
  into[at++] = rest;
  return at;
}
