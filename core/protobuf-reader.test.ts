import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  boolAt,
  fieldNumber,
  int32At,
  int64At,
  lengthTag,
  readFields,
  varintTag,
} from "./protobuf-reader.ts";

/** Every field of the bytes as its tag and the bytes of its value; undefined where they are no message. */
function fieldsOf(...bytes: number[]): (readonly [tag: number, value: number[]])[] | undefined {
  const fields: (readonly [number, number[]])[] = [];
  const input = new Uint8Array(bytes);
  const isMessage = readFields(input, 0, input.length, (tag, start, end) => {
    fields.push([tag, [...input.subarray(start, end)]]);
    return true;
  });
  return isMessage ? fields : undefined;
}

/** The varint of an unsigned 64-bit integer. */
function varint(value: bigint): number[] {
  return value < 128n ? [Number(value)] : [Number(value & 127n) | 128, ...varint(value >> 7n)];
}

const TEN = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80];

describe("the fields of a message", () => {
  test("of every wire type, in their order", () => {
    expect(fieldsOf()).toEqual([]);
    expect(
      fieldsOf(0x08, 0x96, 0x01, 0x12, 2, 7, 8, 0x19, 1, 2, 3, 4, 5, 6, 7, 8, 0x25, 1, 2, 3, 4, 0x12, 0),
    ).toEqual([
      [varintTag(1), [0x96, 0x01]],
      [lengthTag(2), [7, 8]],
      [0x19, [1, 2, 3, 4, 5, 6, 7, 8]],
      [0x25, [1, 2, 3, 4]],
      [lengthTag(2), []],
    ]);
  });

  test("up to the largest number, and no further", () => {
    const [field] = fieldsOf(0xf8, 0xff, 0xff, 0xff, 0x0f, 1) ?? [];
    expect(field && fieldNumber(field[0])).toBe(536_870_911);
    expect(fieldsOf(0xf8, 0xff, 0xff, 0xff, 0x1f, 1)).toBeUndefined();
    expect(fieldsOf(0x00, 1)).toBeUndefined();
    expect(fieldsOf(0x07, 1)).toBeUndefined();
  });

  test("groups are one field, with what is in them, other groups too", () => {
    expect(fieldsOf(0x0b, 0x08, 1, 0x13, 0x14, 0x12, 1, 0x0c, 0x0c, 0x08, 2)).toEqual([
      [0x0b, [0x08, 1, 0x13, 0x14, 0x12, 1, 0x0c, 0x0c]],
      [0x08, [2]],
    ]);
  });

  test.each<[string, number[]]>([
    ["a tag without a value", [0x08]],
    ["a truncated tag", [0x88]],
    ["a truncated varint", [0x08, 0x80]],
    ["a varint of eleven bytes", [0x08, ...TEN, 0x80, 0]],
    ["a varint of more than 64 bits", [0x08, ...TEN, 0x02]],
    ["a truncated fixed64", [0x09, 1, 2, 3, 4, 5, 6, 7]],
    ["a truncated fixed32", [0x0d, 1, 2, 3]],
    ["a length without its end", [0x0a, 0x80]],
    ["a length beyond the end", [0x0a, 2, 1]],
    ["a length of 2^64 - 1", [0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]],
    ["a group without its end", [0x0b, 0x08, 1]],
    ["a group that ends as another", [0x0b, 0x14]],
    ["a group that ends as another of its kind", [0x0b, 0x13, 0x0c, 0x14]],
    ["an end without a group", [0x0c]],
    ["a truncated field within a group", [0x0b, 0x0a, 9, 0x0c]],
    ["101 groups within each other", [...Array<number>(101).fill(0x0b), ...Array<number>(101).fill(0x0c)]],
    ["a wire type that there is not", [0x0e, 1]],
  ])("%s is no message", (_, bytes) => {
    expect(fieldsOf(...bytes)).toBeUndefined();
  });

  test("100 groups within each other are read", () => {
    const deepest = [...Array<number>(100).fill(0x0b), ...Array<number>(100).fill(0x0c)];
    expect(fieldsOf(...deepest)).toEqual([[0x0b, deepest.slice(1)]]);
  });

  test("the walk ends where it is told to, and within its bounds", () => {
    const input = new Uint8Array([0x08, 1, 0x10, 2, 0x18]);
    const seen: number[] = [];
    const untilSecond = (tag: number): boolean => seen.push(fieldNumber(tag)) < 2;
    expect(readFields(input, 0, input.length, untilSecond)).toBe(false);
    expect(seen).toEqual([1, 2]);
    expect(readFields(input, 2, 4, () => true)).toBe(true);
    expect(readFields(input, 2, 3, () => true)).toBe(false);
  });
});

describe("the value of a varint", () => {
  const read = (bytes: number[]) => {
    const input = new Uint8Array([0xff, ...bytes, 0xff]);
    const place = [input, 1, 1 + bytes.length] as const;
    return { bool: boolAt(...place), int32: int32At(...place), int64: int64At(...place) };
  };

  test("is that of 64 bits, of which an int32 has the lower half", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), (value) => {
        expect(read(varint(BigInt.asUintN(64, value)))).toEqual({
          bool: value !== 0n,
          int32: Number(BigInt.asIntN(32, value)),
          int64: Number(value),
        });
      }),
      { numRuns: 1_000 },
    );
  });

  test("is exact to 2^53, and at the ends", () => {
    for (const value of [0, 1, -1, 127, 128, 2 ** 28, 2 ** 31, -(2 ** 31), 2 ** 53 - 1, 1 - 2 ** 53]) {
      expect(read(varint(BigInt.asUintN(64, BigInt(value)))).int64).toBe(value);
    }
    expect(read(varint(2n ** 63n)).int64).toBe(-(2 ** 63));
    expect(read(varint(2n ** 63n - 1n)).int64).toBe(2 ** 63);
  });

  test("may have needless bytes", () => {
    expect(read([...TEN, 0])).toEqual({ bool: false, int32: 0, int64: 0 });
    expect(read([0x85, 0x80, 0x80, 0])).toEqual({ bool: true, int32: 5, int64: 5 });
    expect(read([...TEN, 1])).toEqual({ bool: true, int32: 0, int64: -(2 ** 63) });
  });
});
