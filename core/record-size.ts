import { type KafkaHeader } from "./kafka-binary.ts";
import { utf8Length } from "./utf8.ts";

/** What a record batch takes beside its records, in bytes (Kafka protocol guide, Record batch). */
export const BATCH_OVERHEAD = 61;
/** How much longer a record is at most in a batch with others: by its number and its time since the first. */
export const SHARED_OVERHEAD = 12;

/** The parts of a record that its size depends on. */
export interface SizedRecord {
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly headers: readonly KafkaHeader[];
}

/** The bytes that a record takes in a batch of its own, beside {@link BATCH_OVERHEAD} (Kafka protocol guide, Record). */
export function recordSize(record: SizedRecord): number {
  // Attributes, and the number and the time within the batch, which are 0.
  const content = 3 + contentSize(record);
  return varintSize(content) + content;
}

/** What a record's key, value and headers take. */
export function contentSize({ key, value, headers }: SizedRecord): number {
  let size = bytesSize(key) + bytesSize(value) + varintSize(headers.length);
  for (const [name, bytes] of headers) {
    const length = utf8Length(name);
    size += varintSize(length) + length + bytesSize(bytes);
  }
  return size;
}

/** null has the length -1. */
function bytesSize(bytes: Uint8Array | null): number {
  return bytes === null ? 1 : varintSize(bytes.length) + bytes.length;
}

/** The bytes of a number as a zigzag varint. */
export function varintSize(value: number): number {
  let size = 1;
  for (let rest = zigzag(value); rest >= 128; rest = Math.floor(rest / 128)) size += 1;
  return size;
}

/** Zigzag: so that what is near 0 is short on both sides. Numbers beyond 32 bits are why this is reckoned, not shifted. */
export function zigzag(value: number): number {
  return value < 0 ? -2 * value - 1 : 2 * value;
}
