import { utf8Length, writeUtf8 } from "./utf8.ts";

/** Writes the fields of a message one after another. A tag is (field number << 3) | wire type, with numbers below 16. */
export interface ProtobufWriter {
  readonly bytes: Uint8Array;
  /** An integer, negative ones too (as an int64). */
  integer(tag: number, value: number): void;
  string(tag: number, value: string): void;
  bytesField(tag: number, value: Uint8Array): void;
  /** Begins a message whose fields, which are to follow, have that size. */
  message(tag: number, size: number): void;
}

/** A writer of a message whose encoding has exactly that size. */
export function createProtobufWriter(size: number): ProtobufWriter {
  const bytes = new Uint8Array(size);
  let at = 0;
  const begin = (tag: number, value: number): void => {
    bytes[at] = tag;
    at = writeVarint(value, bytes, at + 1);
  };
  return {
    bytes,
    integer: begin,
    string(tag, value) {
      begin(tag, utf8Length(value));
      at = writeUtf8(value, bytes, at);
    },
    bytesField(tag, value) {
      begin(tag, value.length);
      bytes.set(value, at);
      at += value.length;
    },
    message: begin,
  };
}

function writeVarint(value: number, into: Uint8Array, start: number): number {
  let at = start;
  if (value < 0) {
    // Ten bytes of seven bits each: two's complement of 64 bits.
    let rest = BigInt.asUintN(64, BigInt(value));
    for (; rest > 127n; rest >>= 7n) into[at++] = Number(rest & 127n) | 128;
    into[at++] = Number(rest);
    return at;
  }
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) into[at++] = (rest % 128) | 128;
  into[at++] = rest;
  return at;
}
