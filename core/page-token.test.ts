import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeBase64, encodeBase64 } from "./base64.ts";
import { type Cursor, decodePageToken, encodePageToken, faultsOfPageToken } from "./page-token.ts";
import { murmur2 } from "./partition.ts";
import { concatBytes, encodeUtf8 } from "./utf8.ts";

const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const cursors: fc.Arbitrary<Cursor> = fc.record(
  {
    time: int64,
    topic: fc.string({ minLength: 1, maxLength: 249 }),
    partition: fc.nat(2 ** 31 - 1),
    offset: int64,
    askedAt: fc.integer({ min: 0, max: 8_640_000_000_000_000 }),
  },
  { requiredKeys: ["time", "partition", "offset"] },
);
const questions = fc.record({
  filter: fc.string({ unit: "grapheme" }),
  order: fc.constantFrom("time desc", "time"),
});
const CURSOR: Cursor = { time: 1_762_000_000_123_456n, partition: 3, offset: 42n };
const QUESTION = { filter: "", order: "time desc" };
const REFUSED = { ok: false, faults: [{ field: "page_token", reason: "INVALID_PAGE_TOKEN" }] };

describe("a page token", () => {
  test("gives its cursor back, and is safe in a URL", () => {
    fc.assert(
      fc.property(cursors, questions, (cursor, question) => {
        const token = encodePageToken(cursor, question);
        expect(token).toMatch(/^[\w-]+$/);
        expect(decodePageToken(token, question)).toEqual({ ok: true, value: cursor });
      }),
    );
  });

  test("is refused with another filter or order, and filter and order are not mixed up", () => {
    const token = encodePageToken(CURSOR, QUESTION);
    expect(decodePageToken(token, { filter: "", order: "time" })).toMatchObject(REFUSED);
    expect(decodePageToken(token, { filter: "a", order: "time desc" })).toMatchObject(REFUSED);
    const shifted = encodePageToken(CURSOR, { filter: "a", order: "bc" });
    expect(decodePageToken(shifted, { filter: "ab", order: "c" })).toMatchObject(REFUSED);
  });

  test("is refused where any character of it was changed, left out or added", () => {
    const token = encodePageToken(CURSOR, QUESTION);
    for (let at = 0; at < token.length; at += 1) {
      const other = token[at] === "A" ? "B" : "A";
      expect(decodePageToken(token.slice(0, at) + other + token.slice(at + 1), QUESTION)).toMatchObject(
        REFUSED,
      );
      expect(decodePageToken(token.slice(0, at) + token.slice(at + 1), QUESTION)).toMatchObject(REFUSED);
      expect(decodePageToken(`${token.slice(0, at)}A${token.slice(at)}`, QUESTION)).toMatchObject(REFUSED);
    }
  });

  test("is refused where it is of another version, though its check is right", () => {
    const bytes = decodeBase64(encodePageToken(CURSOR, QUESTION), "url") ?? new Uint8Array();
    bytes[0] = 1;
    const question = encodeUtf8(JSON.stringify([QUESTION.filter, QUESTION.order]));
    new DataView(bytes.buffer).setInt32(29, murmur2(concatBytes([bytes.subarray(0, 29), question])));
    expect(decodePageToken(encodeBase64(bytes, "url"), QUESTION)).toMatchObject(REFUSED);
  });

  test.each(["", "AQ", "====", "ä", "A".repeat(44), "A".repeat(1_000_000)])(
    "is refused where it is none",
    (token) => {
      expect(decodePageToken(token, QUESTION)).toMatchObject(REFUSED);
      expect(faultsOfPageToken(token)).toMatchObject(REFUSED.faults);
    },
  );

  test("may be of any question where its own cannot be read", () => {
    expect(faultsOfPageToken(encodePageToken(CURSOR, QUESTION))).toEqual([]);
  });
});
