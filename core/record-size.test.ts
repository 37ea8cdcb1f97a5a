import { expect, test } from "vitest";

import { type KafkaHeader } from "./kafka-binary.ts";
import { contentSize, recordSize, varintSize } from "./record-size.ts";

const NONE = { key: null, value: null, headers: [] };

test("a number takes seven bits a byte, on both sides of 0", () => {
  expect([0, -1, 63, -64, 64, -65, 8_191, 8_192, 2 ** 40].map(varintSize)).toEqual([
    1, 1, 1, 1, 2, 2, 2, 3, 6,
  ]);
});

test("the size of a record is what its parts and their lengths take", () => {
  expect(contentSize(NONE)).toBe(3);
  expect(recordSize(NONE)).toBe(7);
  const record = { key: new Uint8Array(10), value: new Uint8Array(100), headers: [] };
  expect(contentSize(record)).toBe(11 + 102 + 1);
  const headers: KafkaHeader[] = [
    ["é", new Uint8Array(5)],
    ["a", null],
  ];
  expect(contentSize({ ...NONE, headers })).toBe(contentSize(NONE) + 3 + 6 + 2 + 1);
});

test("a header of nothing is two bytes, however many there are", () => {
  const headers = Array.from({ length: 600_000 }, (): KafkaHeader => ["", null]);
  expect(contentSize({ ...NONE, headers })).toBe(2 + 3 + 1_200_000);
});
