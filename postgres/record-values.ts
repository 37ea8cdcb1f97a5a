// Values of records that others may have written: whatever they are, no column here refuses them.

/** The most bytes of a key or a value that an index keeps of it. */
export const PREVIEW_BYTES = 512;

/** 0001-01-01 and 9999-12-31T23:59:59.999 in milliseconds: the range of google.protobuf.Timestamp, within PostgreSQL's. */
const [FIRST_MS, LAST_MS] = [-62_135_596_800_000, 253_402_300_799_999];

/** A record's timestamp in microseconds, brought into the range of times: it is any 64-bit number, in milliseconds. */
export function toMicrosWithin(millis: number): bigint {
  return BigInt(Math.max(FIRST_MS, Math.min(LAST_MS, millis))) * 1_000n;
}

/** PostgreSQL's text has no NUL. */
export function toText(text: string): string {
  return text.replaceAll("\0", "\uFFFD");
}
