/** The element types that {@link encodeArray} can write, with their type OIDs (pg_type.dat). */
const ELEMENTS = {
  int2: { oid: 21, width: 2 },
  int4: { oid: 23, width: 4 },
  int8: { oid: 20, width: 8 },
  timestamptz: { oid: 1184, width: 8 },
  text: { oid: 25, width: undefined },
  bytea: { oid: 17, width: undefined },
} as const;

/** The value of an element by its type; timestamptz in microseconds since 1970. */
interface Values {
  readonly int2: number;
  readonly int4: number;
  readonly int8: bigint;
  readonly timestamptz: bigint;
  readonly text: string;
  readonly bytea: Uint8Array;
}

/** The name of an element type of {@link encodeArray}. */
export type ElementType = keyof Values;

/** A value of one of the element types; undefined is NULL. */
export type ElementValue<T extends ElementType = ElementType> = Values[T] | undefined;

/** PostgreSQL counts from 2000-01-01, in microseconds. */
const EPOCH_2000 = 946_684_800_000_000n;
/** The outermost values stand for infinity; the ones beside them PostgreSQL refuses as out of range (SQLSTATE 22008). */
const MAX_INT64 = 2n ** 63n - 1n;
/** What PostgreSQL's range begins with and ends before (datatype/timestamp.h). */
const FIRST_TIMESTAMP = -211_813_488_000_000_000n;
const END_TIMESTAMP = 9_223_371_331_200_000_000n;

/**
 * A one-dimensional array in PostgreSQL's binary format (array_recv), which pg sends as it is: payloads are neither
 * escaped nor doubled in size, and text needs no quoting. The parameter must be cast to the array type.
 */
export function encodeArray<T extends ElementType>(type: T, values: readonly ElementValue<T>[]): Buffer {
  const { oid, width } = ELEMENTS[type];
  const lengths = values.map((value) =>
    value === undefined ? -1 : (width ?? Buffer.byteLength(value as string | Uint8Array)),
  );
  const total = lengths.reduce((sum, length) => sum + 4 + Math.max(length, 0), 20);
  const buffer = Buffer.allocUnsafe(total);
  let at = 0;
  for (const word of [1, lengths.includes(-1) ? 1 : 0, oid, values.length, 1])
    at = buffer.writeInt32BE(word, at);
  values.forEach((value, index) => {
    at = buffer.writeInt32BE(lengths[index]!, at);
    if (value !== undefined) at = write(buffer, at, type, value);
  });
  return buffer;
}

function write(buffer: Buffer, at: number, type: ElementType, value: NonNullable<ElementValue>): number {
  if (typeof value === "string") return at + buffer.write(value, at);
  if (typeof value === "number")
    return type === "int2" ? buffer.writeInt16BE(value, at) : buffer.writeInt32BE(value, at);
  if (typeof value === "bigint")
    return buffer.writeBigInt64BE(type === "int8" ? value : since2000(value), at);
  buffer.set(value, at);
  return at + value.byteLength;
}

/**
 * A timestamptz to compare with, in PostgreSQL's binary format, exact to the microsecond; `micros` counts from 1970. One
 * beyond PostgreSQL's range (4713 BC to 294276 AD) becomes infinity, which is before or after everything stored.
 */
export function encodeTimestamptz(micros: bigint): Buffer {
  const shifted = micros - EPOCH_2000;
  const buffer = Buffer.allocUnsafe(8);
  if (shifted < FIRST_TIMESTAMP) buffer.writeBigInt64BE(-MAX_INT64 - 1n);
  else buffer.writeBigInt64BE(shifted < END_TIMESTAMP ? shifted : MAX_INT64);
  return buffer;
}

/** Not infinity: what is to be stored is refused when it is out of range. */
export function since2000(micros: bigint): bigint {
  const shifted = micros - EPOCH_2000;
  if (shifted >= MAX_INT64) return MAX_INT64 - 1n;
  return shifted <= -MAX_INT64 ? -MAX_INT64 : shifted;
}
