import { decodeBase64, encodeBase64 } from "./base64.ts";
import { refuse } from "./faults.ts";
import { murmur2 } from "./partition.ts";
import { type Result } from "./reason.ts";
import { concatBytes, encodeUtf8 } from "./utf8.ts";

/**
 * A place in all partitions of a topic: of each the offset that comes next. A partition that is absent is at 0, its first; so one
 * that is added later is followed from its beginning.
 */
export type LogOffsets = ReadonlyMap<number, bigint>;

const VERSION = 1;
const CHECK_BYTES = 4;
const MAX_PARTITION = 2 ** 31 - 1;
const MAX_OFFSET = 2n ** 63n - 1n;
/** More than a thousand partitions take. */
const MAX_CHARACTERS = 16_384;

/** The cursor of a place: opaque, safe in a URL, bound to the topic; of equal places the same. */
export function encodeTailCursor(offsets: LogOffsets, topic: string): string {
  const bytes: number[] = [VERSION];
  let next = 0;
  for (const [partition, offset] of [...offsets].toSorted(([a], [b]) => a - b)) {
    if (offset === 0n) continue;
    addInteger(bytes, BigInt(partition - next));
    addInteger(bytes, offset);
    next = partition + 1;
  }
  const place = Uint8Array.from(bytes);
  const check = new Uint8Array(CHECK_BYTES);
  new DataView(check.buffer).setInt32(0, checkOf(place, topic));
  return encodeBase64(concatBytes([place, check]), "url");
}

/**
 * The place of a cursor. Refused with INVALID_CURSOR, field "cursor", where it is none of ours, belongs to another topic, or was
 * altered (a check of 32 bits: against mistakes, not against forgery, for a cursor grants nothing).
 */
export function decodeTailCursor(cursor: string, topic: string): Result<LogOffsets> {
  const bytes = cursor.length > MAX_CHARACTERS ? undefined : decodeBase64(cursor, "url");
  if (bytes === undefined || bytes.length < 1 + CHECK_BYTES || bytes[0] !== VERSION)
    return refusal("The cursor is none that this service gives.");
  const place = bytes.subarray(0, bytes.length - CHECK_BYTES);
  const check = new DataView(bytes.buffer, bytes.byteOffset, bytes.length).getInt32(place.length);
  const offsets = check === checkOf(place, topic) ? offsetsIn(place) : undefined;
  return offsets === undefined
    ? refusal("The cursor belongs to another topic, or was altered.")
    : { ok: true, value: offsets };
}

function offsetsIn(place: Uint8Array): LogOffsets | undefined {
  const offsets = new Map<number, bigint>();
  const reader = { bytes: place, at: 1 };
  let next = 0;
  while (reader.at < place.length) {
    const [step, offset] = [takeInteger(reader), takeInteger(reader)];
    if (step === undefined || offset === undefined || offset > MAX_OFFSET) return undefined;
    const partition = next + Number(step);
    if (partition > MAX_PARTITION) return undefined;
    offsets.set(partition, offset);
    next = partition + 1;
  }
  return offsets;
}

// Integers are base 128, the lowest seven bits first, as in Protocol Buffers.

function addInteger(bytes: number[], value: bigint): void {
  let rest = value;
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  bytes.push(Number(rest));
}

function takeInteger(reader: { readonly bytes: Uint8Array; at: number }): bigint | undefined {
  let value = 0n;
  for (let shift = 0n; shift < 64n; shift += 7n) {
    const byte = reader.bytes[reader.at];
    if (byte === undefined) return undefined;
    reader.at += 1;
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return undefined;
}

function refusal(what: string): Result<never> {
  return refuse(
    "cursor",
    "INVALID_CURSOR",
    `${what} Give the cursor of the last message that you got, or begin anew without one.`,
  );
}

function checkOf(place: Uint8Array, topic: string): number {
  return murmur2(concatBytes([place, encodeUtf8(topic)]));
}
