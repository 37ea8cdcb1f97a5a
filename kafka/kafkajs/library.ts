import { createRequire } from "node:module";
import { promisify } from "node:util";
import { zstdCompress, zstdDecompress } from "node:zlib";

import type { Batch, Kafka } from "kafkajs";

import { type RecordHeader } from "../ports.ts";

const VERSION = "2.2.4";
const PATCHED = Symbol.for("weir.kafkajs.patched");
const require = createRequire(import.meta.url);
const compressZstd = promisify(zstdCompress);
const decompressZstd = promisify(zstdDecompress);

/**
 * kafkajs 2.2.4 as Weir uses it: with the changes below, each of which closes a hole that cannot be closed from outside
 * (read in its source and seen on a real broker). Nothing else may load kafkajs, for the changes must come first; its
 * types come by `import type`, since `import { type … }` loads the module.
 */
export const kafkajs: typeof import("kafkajs") = loadPatched();

function loadPatched(): typeof import("kafkajs") {
  const { version } = require("kafkajs/package.json") as { version: string };
  if (version !== VERSION) {
    throw new Error(
      `kafka/kafkajs/library.ts changes kafkajs ${VERSION} and found ${version}: check every change against it.`,
    );
  }
  const queue = load<PatchedClass<RequestQueue>>("network/requestQueue/index.js");
  if (!queue[PATCHED]) {
    if (require.cache[require.resolve("kafkajs")]) {
      throw new Error("kafkajs was loaded before kafka/kafkajs/library.ts: import it from there alone.");
    }
    queue.prototype.scheduleCheckPendingRequests = scheduleCheckPendingRequests;
    replace("protocol/recordBatch/record/v0/index.js", encodeRecord);
    replace("protocol/recordBatch/record/v0/decoder.js", decodeRecord);
    keepProduceErrors();
    keepOffsetOutOfRange();
    handOverFilteredBatches();
    queue[PATCHED] = true;
  }
  const library = require("kafkajs") as typeof import("kafkajs");
  library.CompressionCodecs[library.CompressionTypes.ZSTD] = () => zstd;
  return library;
}

/** kafkajs has gzip alone. Snappy and LZ4, which Node has not either, are refused by name where they are met. */
const zstd = {
  compress: (encoder: { readonly buffer: Buffer }): Promise<Buffer> => compressZstd(encoder.buffer),
  decompress: (buffer: Buffer): Promise<Buffer> => decompressZstd(buffer),
};

/** What kafkajs itself reads with: it offers no way to read a partition but as a member of a group. */
export interface Cluster {
  connect(): Promise<void>;
  addTargetTopic(topic: string): Promise<void>;
  refreshMetadata(): Promise<void>;
  /** By the leader's node id. */
  findLeaderForPartitions(topic: string, partitions: readonly number[]): Readonly<Record<string, unknown>>;
  findBroker(by: { readonly nodeId: string }): Promise<Broker>;
  /** The ends of partitions. */
  fetchTopicsOffset(topics: readonly unknown[]): Promise<readonly TopicOffsets[]>;
}

interface TopicOffsets {
  readonly partitions: readonly { readonly partition: number; readonly offset: string }[];
}

/** A connection to one broker. */
export interface Broker {
  fetch(request: unknown): Promise<FetchAnswer>;
  /** What the broker speaks, by the key of each request; null before it is connected. */
  readonly versions: Readonly<Record<number, { readonly maxVersion: number }>> | null;
  readonly connectionPool: { send<T>(request: ProtocolRequest<T>): Promise<T> };
}

/** A request that kafkajs does not know by itself. */
export interface ProtocolRequest<T> {
  readonly request: {
    readonly apiKey: number;
    readonly apiName: string;
    readonly apiVersion: number;
    /** What comes after the request's header v1. */
    encode(): Promise<Frame>;
  };
  readonly response: {
    /** Of what comes after the correlation id. */
    decode(payload: Buffer): Promise<T>;
    parse(answer: T): Promise<T>;
  };
}

/** Bytes in the form that kafkajs sends. */
export interface Frame {
  readonly buffer: Buffer;
}

/** See {@link Frame}. */
export function framed(bytes: Buffer): Frame {
  const EncoderClass =
    load<new (size: number) => { writeBuffer(bytes: Buffer): Frame }>("protocol/encoder.js");
  return new EncoderClass(bytes.length).writeBuffer(bytes);
}

/** Kafka's isolation level of whoever wants to know of open transactions, too; kafkajs' own admin does not. */
const READ_UNCOMMITTED = 0;

interface FetchAnswer {
  readonly responses: readonly { readonly partitions: readonly unknown[] }[];
}

/** The connections of a client to a cluster, as its consumers make them. */
export function createCluster(kafka: Kafka): Cluster {
  const create = Object.getOwnPropertySymbols(kafka).find(
    ({ description }) => description === "private:Kafka:createCluster",
  )!;
  const clusters = kafka as unknown as Readonly<Record<symbol, (options: object) => Cluster>>;
  return clusters[create]!({
    metadataMaxAge: 300_000,
    allowAutoTopicCreation: false,
    isolationLevel: READ_UNCOMMITTED,
  });
}

/** What was fetched of a partition, with what kafkajs leaves out of it for its consumers. */
export function toBatch(topic: string, fetchedOffset: string, partition: unknown): Batch {
  const BatchClass =
    load<new (topic: string, fetchedOffset: string, partition: unknown) => Batch>("consumer/batch.js");
  return new BatchClass(topic, fetchedOffset, partition);
}

type PatchedClass<T> = { prototype: T; [PATCHED]?: boolean };

function load<T>(path: string): T {
  return require(`kafkajs/src/${path}`) as T;
}

function replace(path: string, exports: unknown): void {
  load(path);
  require.cache[require.resolve(`kafkajs/src/${path}`)]!.exports = exports;
}

interface RequestQueue {
  pending: readonly unknown[];
  throttledUntil: number;
  throttleCheckTimeoutId: NodeJS.Timeout | null;
  checkPendingRequests(): void;
  scheduleCheckPendingRequests(): void;
}

/**
 * The original keeps a 1 ms timer running on every connection, with nothing to do (kafkajs #1556, #1704), and asks for
 * negative delays (#1751).
 */
function scheduleCheckPendingRequests(this: RequestQueue): void {
  if (this.pending.length === 0 || this.throttleCheckTimeoutId !== null) return;
  const throttled = this.throttledUntil - Date.now();
  this.throttleCheckTimeoutId = setTimeout(
    () => {
      this.throttleCheckTimeoutId = null;
      this.checkPendingRequests();
    },
    throttled > 0 ? throttled : 10,
  );
}

interface Encoder {
  writeInt8(value: number): Encoder;
  writeVarInt(value: number): Encoder;
  writeVarLong(value: number): Encoder;
  writeVarIntBytes(value: Buffer | null): Encoder;
  writeVarIntString(value: string): Encoder;
  writeEncoder(value: Encoder): Encoder;
  size(): number;
}

interface EncodableRecord {
  readonly offsetDelta: number;
  readonly timestampDelta: number;
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly headers: readonly RecordHeader[];
}

/**
 * Headers are a list. The original takes an object: it cannot write a null value (it throws), nor keep the order of
 * repeated names. It also writes a Uint8Array that is no Buffer as its decimal text. (Kafka protocol guide, Record.)
 */
function encodeRecord(record: EncodableRecord): Encoder {
  const EncoderClass = load<new (size: number) => Encoder>("protocol/encoder.js");
  const body = new EncoderClass((record.key?.length ?? 0) + (record.value?.length ?? 0) + 512);
  body.writeInt8(0).writeVarLong(record.timestampDelta).writeVarInt(record.offsetDelta);
  body.writeVarIntBytes(toBuffer(record.key)).writeVarIntBytes(toBuffer(record.value));
  body.writeVarInt(record.headers.length);
  for (const [name, value] of record.headers) body.writeVarIntString(name).writeVarIntBytes(toBuffer(value));
  return new EncoderClass(body.size() + 5).writeVarInt(body.size()).writeEncoder(body);
}

function toBuffer(bytes: Uint8Array | null): Buffer | null {
  return bytes === null ? null : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

interface Decoder {
  readInt8(): number;
  readVarInt(): number;
  readVarLong(): { toString(): string };
  readVarIntBytes(): Buffer | null;
  readVarIntString(): string;
}

interface BatchContext {
  readonly firstOffset: string;
  readonly firstTimestamp: string;
  readonly maxTimestamp: string;
  readonly timestampType: number;
  readonly isControlBatch: boolean;
}

const LOG_APPEND_TIME = 1;

/** Headers are a list here too: the original loses the order of repeated names, and adds a function to one named "constructor". */
function decodeRecord(decoder: Decoder, batchContext: BatchContext): unknown {
  const attributes = decoder.readInt8();
  const timestampDelta = BigInt(decoder.readVarLong().toString());
  const offset = String(BigInt(batchContext.firstOffset) + BigInt(decoder.readVarInt()));
  const key = decoder.readVarIntBytes();
  const value = decoder.readVarIntBytes();
  const headers = Array.from({ length: Math.max(0, decoder.readVarInt()) }, () => [
    decoder.readVarIntString(),
    decoder.readVarIntBytes(),
  ]);
  const timestamp =
    batchContext.timestampType === LOG_APPEND_TIME
      ? batchContext.maxTimestamp
      : String(BigInt(batchContext.firstTimestamp) + timestampDelta);
  const isControlRecord = batchContext.isControlBatch;
  return { attributes, timestamp, offset, key, value, headers, isControlRecord, batchContext };
}

/**
 * The original throws the first partition's error and with it what became of the others, some of which were written.
 * Without it `sendBatch` answers each partition's own `errorCode`.
 */
function keepProduceErrors(): void {
  for (const version of [3, 4, 5, 6, 7]) {
    const response = load<{ parse(data: unknown): Promise<unknown> }>(
      `protocol/requests/produce/v${version}/response.js`,
    );
    response.parse = (data) => Promise.resolve(data);
  }
}

interface ConsumerGroup {
  hasSeekOffset(partition: unknown): boolean;
  recoverFromOffsetOutOfRange(error: Error): Promise<void>;
}

/**
 * The original commits "latest" or "earliest" for the group and reads on from there: a silent loss. Here the consumer
 * stops with the error, unless a seek is about to correct the offset.
 */
function keepOffsetOutOfRange(): void {
  const group = load<{ prototype: ConsumerGroup }>("consumer/consumerGroup.js");
  group.prototype.recoverFromOffsetOutOfRange = async function (error) {
    if (!this.hasSeekOffset(error)) throw error;
  };
}

interface FetchedBatch {
  readonly rawMessages: readonly unknown[];
  isEmpty(): boolean;
  isEmptyDueToFiltering(): boolean;
}

/**
 * The original passes over a batch of which nothing is left (control records, aborted transactions) without telling,
 * so that its reading position moves by itself. Here `eachBatch` gets such a batch, with no messages.
 */
function handOverFilteredBatches(): void {
  const { prototype } = load<{ prototype: FetchedBatch }>("consumer/batch.js");
  prototype.isEmpty = function () {
    return this.rawMessages.length === 0;
  };
  prototype.isEmptyDueToFiltering = () => false;
}
