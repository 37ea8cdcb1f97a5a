import { writeUtf8 } from "#core/utf8.ts";

import { since2000 } from "./binary-format.ts";

/** Begins every binary COPY: the signature, no flags, no header extension. */
const HEADER = Buffer.from("PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0", "latin1");
const NULL = -1;
const TEXT_OID = 25;
const INT4_OID = 23;
const JSONB_VERSION = 1;

/** Writes the values of a row one after another; undefined is NULL. The methods are named by the columns' types. */
export interface RowWriter {
  /** The type "char": one character of ASCII. */
  char(value: string | undefined): void;
  int2(value: number | undefined): void;
  int4(value: number): void;
  int8(value: bigint): void;
  /** Microseconds since 1970. */
  timestamptz(value: bigint): void;
  text(value: string | undefined): void;
  bytea(value: Uint8Array | undefined): void;
  /** The text of a JSON value. */
  jsonb(value: string): void;
  texts(values: readonly string[]): void;
  int4s(values: readonly number[]): void;
}

/**
 * Rows in PostgreSQL's binary COPY format, whole: header, rows, trailer.
 *
 * @param columns how many values `writeRow` writes of each row.
 */
export function encodeCopy<T>(
  columns: number,
  rows: readonly T[],
  writeRow: (writer: RowWriter, row: T) => void,
): Buffer {
  let buffer = Buffer.allocUnsafe(Math.max(1_024, rows.length * 1_024));
  let at = HEADER.copy(buffer);

  function reserve(bytes: number): void {
    if (at + bytes <= buffer.length) return;
    const larger = Buffer.allocUnsafe(Math.max(buffer.length * 2, at + bytes));
    buffer.copy(larger, 0, 0, at);
    buffer = larger;
  }
  /** UTF-8 with its length before it, after `prefix` bytes that count. */
  function writeText(value: string): void {
    // A UTF-16 unit has three bytes at most.
    reserve(4 + value.length * 3);
    const end = writeUtf8(value, buffer, at + 4);
    buffer.writeInt32BE(end - at - 4, at);
    at = end;
  }
  function writeNull(): void {
    reserve(4);
    at = buffer.writeInt32BE(NULL, at);
  }
  /** The header of an array of one dimension (array_send), whose own length is put in by `endArray`. */
  function beginArray(oid: number, length: number): number {
    reserve(24);
    const began = at;
    at += 4;
    for (const word of length === 0 ? [0, 0, oid] : [1, 0, oid, length, 1])
      at = buffer.writeInt32BE(word, at);
    return began;
  }
  const endArray = (began: number): void => void buffer.writeInt32BE(at - began - 4, began);

  const writer: RowWriter = {
    char(value) {
      if (value === undefined) writeNull();
      else writeText(value);
    },
    int2(value) {
      if (value === undefined) return writeNull();
      reserve(6);
      at = buffer.writeInt32BE(2, at);
      at = buffer.writeInt16BE(value, at);
    },
    int4(value) {
      reserve(8);
      at = buffer.writeInt32BE(4, at);
      at = buffer.writeInt32BE(value, at);
    },
    int8(value) {
      reserve(12);
      at = buffer.writeInt32BE(8, at);
      at = buffer.writeBigInt64BE(value, at);
    },
    timestamptz(value) {
      writer.int8(since2000(value));
    },
    text(value) {
      if (value === undefined) writeNull();
      else writeText(value);
    },
    bytea(value) {
      if (value === undefined) return writeNull();
      reserve(4 + value.byteLength);
      at = buffer.writeInt32BE(value.byteLength, at);
      buffer.set(value, at);
      at += value.byteLength;
    },
    jsonb(value) {
      reserve(5 + value.length * 3);
      const end = writeUtf8(value, buffer, at + 5);
      buffer.writeInt32BE(end - at - 4, at);
      buffer[at + 4] = JSONB_VERSION;
      at = end;
    },
    texts(values) {
      const began = beginArray(TEXT_OID, values.length);
      for (const value of values) writeText(value);
      endArray(began);
    },
    int4s(values) {
      const began = beginArray(INT4_OID, values.length);
      reserve(8 * values.length);
      for (const value of values) {
        at = buffer.writeInt32BE(4, at);
        at = buffer.writeInt32BE(value, at);
      }
      endArray(began);
    },
  };
  for (const row of rows) {
    reserve(2);
    at = buffer.writeInt16BE(columns, at);
    writeRow(writer, row);
  }
  reserve(2);
  at = buffer.writeInt16BE(NULL, at);
  return buffer.subarray(0, at);
}
