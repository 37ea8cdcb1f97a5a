import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { decodeBase64, encodeBase64 } from "./base64.ts";
import { murmur2 } from "./partition.ts";
import { decodeTailCursor, encodeTailCursor } from "./tail-cursor.ts";
import { concatBytes, encodeUtf8 } from "./utf8.ts";

const offsets = fc
  .uniqueArray(fc.tuple(fc.nat(2 ** 31 - 1), fc.bigInt({ min: 1n, max: 2n ** 63n - 1n })), {
    selector: ([partition]) => partition,
    maxLength: 50,
  })
  .map((entries) => new Map(entries));
const topics = fc.string({ unit: "grapheme", maxLength: 249 });
const REFUSED = { ok: false, faults: [{ field: "cursor", reason: "INVALID_CURSOR" }] };
const PLACE = new Map([
  [0, 1n],
  [7, 300n],
]);

describe("the cursor of a tail", () => {
  test("gives its place back, is safe in a URL, and is one for each place", () => {
    fc.assert(
      fc.property(offsets, topics, (place, topic) => {
        const cursor = encodeTailCursor(place, topic);
        expect(cursor).toMatch(/^[\w-]+$/);
        const decoded = decodeTailCursor(cursor, topic);
        expect(decoded).toEqual({ ok: true, value: place });
        const other = new Map([...place].toReversed()).set(2 ** 31 - 1, place.get(2 ** 31 - 1) ?? 0n);
        expect(encodeTailCursor(other, topic)).toBe(cursor);
      }),
    );
  });

  test("has a place for every partition that there may be", () => {
    const place = new Map(
      Array.from({ length: 1_000 }, (_, partition) => [partition, 2n ** 63n - 1n] as const),
    );
    const cursor = encodeTailCursor(place, "t");
    expect(cursor.length).toBeLessThan(13.5 * 1024);
    expect(decodeTailCursor(cursor, "t")).toEqual({ ok: true, value: place });
    expect(encodeTailCursor(new Map(), "t").length).toBeLessThan(8);
  });

  test("is refused for another topic", () => {
    fc.assert(
      fc.property(offsets, topics, topics, (place, topic, other) => {
        fc.pre(topic !== other);
        expect(decodeTailCursor(encodeTailCursor(place, topic), other)).toMatchObject(REFUSED);
      }),
    );
  });

  test("is refused where any bit of it was altered", () => {
    const bytes = decodeBase64(encodeTailCursor(PLACE, "t"), "url")!;
    for (let bit = 0; bit < bytes.length * 8; bit += 1) {
      const altered = bytes.slice();
      altered[bit >> 3]! ^= 1 << (bit & 7);
      expect(decodeTailCursor(encodeBase64(altered, "url"), "t")).toMatchObject(REFUSED);
    }
  });

  test("is refused where it is none, whatever it is", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (text) => {
        expect(decodeTailCursor(text, "t")).toMatchObject(REFUSED);
      }),
    );
    expect(decodeTailCursor("A".repeat(16_385), "t")).toMatchObject(REFUSED);
  });

  test("is refused where its check is right and what it holds is none", () => {
    const cursorOf = (...place: readonly number[]): string => {
      const bytes = Uint8Array.from(place);
      const check = new Uint8Array(4);
      new DataView(check.buffer).setInt32(0, murmur2(concatBytes([bytes, encodeUtf8("t")])));
      return encodeBase64(concatBytes([bytes, check]), "url");
    };
    expect(decodeTailCursor(cursorOf(1, 3, 5), "t")).toEqual({ ok: true, value: new Map([[3, 5n]]) });
    const ones = Array<number>(9).fill(0xff);
    for (const place of [
      [1, 3],
      [1, 3, 0x80],
      [2, 3, 5],
      [1, 0xff, 0xff, 0xff, 0xff, 0x0f, 5],
      [1, 3, ...ones, 0x01],
      [1, 3, ...ones, 0xff, 0x01],
    ])
      expect(decodeTailCursor(cursorOf(...place), "t")).toMatchObject(REFUSED);
  });
});
