// The wire format of Protocol Buffers (protobuf.dev/programming-guides/encoding), read in linear time and without
// recursion. A tag is (field number << 3) | wire type.

const VARINT = 0;
const FIXED64 = 1;
const LENGTH = 2;
const START_GROUP = 3;
const END_GROUP = 4;
const FIXED32 = 5;
const NO_TAG = 7;

/** As deep as the official implementations read groups within groups. */
const MAX_DEPTH = 100;

/** The tag of a field that is a bool or an integer. */
export function varintTag(field: number): number {
  return (field << 3) | VARINT;
}

/** The tag of a field that is a string, bytes or a message. */
export function lengthTag(field: number): number {
  return (field << 3) | LENGTH;
}

/** The number of the field that a tag is of. */
export function fieldNumber(tag: number): number {
  return tag >>> 3;
}

/**
 * Walks the fields of the message that lies from `start` to `end`, and tells of each where its value lies: the content of
 * what is length-delimited, the bytes of anything else. Goes on as long as `onField` gives true.
 *
 * @returns false where it gave false, or where the bytes are no message: truncated, an overlong varint, a group without its
 * end or more than 100 within each other, field number 0, an unknown wire type.
 */
export function readFields(
  bytes: Uint8Array,
  start: number,
  end: number,
  onField: (tag: number, start: number, end: number) => boolean,
): boolean {
  for (let at = start; at < end;) {
    const tagEnd = varintEnd(bytes, at, end);
    const tag = tagAt(bytes, at, tagEnd);
    const after = valueEnd(bytes, tagEnd, end, tag);
    if (after < 0) return false;
    const valueStart = (tag & 7) === LENGTH ? varintEnd(bytes, tagEnd, end) : tagEnd;
    if (!onField(tag, valueStart, after)) return false;
    at = after;
  }
  return true;
}

/** Whether the varint is other than 0: a bool. */
export function boolAt(bytes: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at += 1) if ((bytes[at]! & 0x7f) !== 0) return true;
  return false;
}

/** The lower 32 bits of the varint, as a signed number: an int32. */
export function int32At(bytes: Uint8Array, start: number, end: number): number {
  let value = 0;
  for (let at = start; at < end && at < start + 5; at += 1)
    value |= (bytes[at]! & 0x7f) << (7 * (at - start));
  return value;
}

/** The varint as a signed number: an int64. Beyond 2^53 it is rounded. */
export function int64At(bytes: Uint8Array, start: number, end: number): number {
  const [first, second] = [Math.min(start + 4, end), Math.min(start + 8, end)];
  const high = uintAt(bytes, second, end);
  // In steps of 28 bits, each of which is exact. The last two bytes hold the upper eight, with the sign.
  const upper = (high < 128 ? high : high - 256) * 2 ** 28 + uintAt(bytes, first, second);
  return upper * 2 ** 28 + uintAt(bytes, start, first);
}

function uintAt(bytes: Uint8Array, start: number, end: number): number {
  let value = 0;
  for (let at = end - 1; at >= start; at -= 1) value = value * 128 + (bytes[at]! & 0x7f);
  return value;
}

// Each of these answers the offset after what it reads, or -1 where that is unsound.

function varintEnd(bytes: Uint8Array, start: number, end: number): number {
  for (let at = start; at < end; at += 1) {
    const byte = bytes[at]!;
    // Ten bytes hold 70 bits, of which a varint has 64.
    if (at === start + 9) return byte > 1 ? -1 : at + 1;
    if (byte < 0x80) return at + 1;
  }
  return -1;
}

function valueEnd(bytes: Uint8Array, start: number, end: number, tag: number): number {
  switch (tag & 7) {
    case VARINT:
      return varintEnd(bytes, start, end);
    case FIXED64:
      return start + 8 <= end ? start + 8 : -1;
    case FIXED32:
      return start + 4 <= end ? start + 4 : -1;
    case LENGTH: {
      const content = varintEnd(bytes, start, end);
      const after = content + uintAt(bytes, start, content);
      return content >= 0 && after <= end ? after : -1;
    }
    case START_GROUP:
      return groupEnd(bytes, start, end, tag);
    default:
      return -1;
  }
}

function groupEnd(bytes: Uint8Array, start: number, end: number, tag: number): number {
  const open = [tag];
  let at = start;
  while (open.length > 0) {
    const tagEnd = varintEnd(bytes, at, end);
    const next = tagAt(bytes, at, tagEnd);
    at = tagEnd;
    if ((next & 7) === START_GROUP) open.push(next);
    else if ((next & 7) !== END_GROUP) at = valueEnd(bytes, tagEnd, end, next);
    else if (open.pop() !== next - END_GROUP + START_GROUP) return -1;
    if (at < 0 || open.length > MAX_DEPTH) return -1;
  }
  return at;
}

/** The tag before `end`; one of no wire type where it is none. */
function tagAt(bytes: Uint8Array, start: number, end: number): number {
  const tag = end < 0 ? NO_TAG : uintAt(bytes, start, end);
  return tag >= 8 && tag <= 0xffff_ffff ? tag : NO_TAG;
}
