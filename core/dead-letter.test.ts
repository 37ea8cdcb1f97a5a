import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DEAD_LETTER_REASONS, type DeadLetter, decodeDeadLetter, encodeDeadLetter } from "./dead-letter.ts";
import { timestampFrom } from "./timestamp.ts";
import { decodeUtf8, encodeUtf8 } from "./utf8.ts";

const LETTER: DeadLetter = {
  reason: "MALFORMED",
  detail: "The event is not JSON: it ends too early.",
  group: "weir.persist.v1",
  position: { topic: "weir.events.v1", partition: 3, offset: 9_007_199_254_740_993n },
  timestamp: 1_762_000_000_000,
  attempt: 0,
  key: encodeUtf8("/s"),
  headers: [
    ["content-type", encodeUtf8("application/cloudevents+json")],
    ["x", null],
    ["x", new Uint8Array([0xff])],
    ["x", new Uint8Array()],
  ],
  value: encodeUtf8("{"),
  time: timestampFrom(1_762_000_001, 500_000_000),
};

describe("a dead letter (design § 9)", () => {
  test("is a CloudEvent in structured JSON, its id the record's key", () => {
    const record = encodeDeadLetter(LETTER);
    expect(record.id).toBe("weir.persist.v1/weir.events.v1/3/9007199254740993");
    expect(decodeUtf8(record.key)).toBe(record.id);
    expect(record.headers).toEqual([["content-type", encodeUtf8("application/cloudevents+json")]]);
    expect(decodeUtf8(record.value)).toBe(
      '{"specversion":"1.0","id":"weir.persist.v1/weir.events.v1/3/9007199254740993","source":"/weir/weir.persist.v1",' +
        '"type":"weir.dead-letter.v1","time":"2025-11-01T12:26:41.500Z","datacontenttype":"application/json","data":' +
        '{"reason":"MALFORMED","detail":"The event is not JSON: it ends too early.","group":"weir.persist.v1",' +
        '"topic":"weir.events.v1","partition":3,"offset":9007199254740993,"timestamp":1762000000000,"attempt":0,' +
        '"key":"L3M=","headers":[["content-type","YXBwbGljYXRpb24vY2xvdWRldmVudHMranNvbg=="],["x",null],["x","/w=="],["x",""]],' +
        '"value":"ew=="}}',
    );
  });

  test("gives back every byte, repeated and null headers included", () => {
    const bytes = fc.option(fc.uint8Array({ maxLength: 40 }));
    const letters: fc.Arbitrary<DeadLetter> = fc.record({
      reason: fc.constantFrom(...DEAD_LETTER_REASONS),
      detail: fc.string({ unit: "binary" }),
      group: fc
        .string({ unit: "grapheme", minLength: 1 })
        .filter((group) => !/[\p{Cc}\p{Noncharacter_Code_Point}]/u.test(group)),
      position: fc.record({
        topic: fc.stringMatching(/^[a-zA-Z0-9._-]{1,20}$/),
        partition: fc.nat(),
        offset: fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }),
      }),
      timestamp: fc.integer({ min: -1, max: 2 ** 48 }),
      attempt: fc.nat(3),
      key: bytes,
      headers: fc.array(fc.tuple(fc.string({ unit: "binary" }), bytes), { maxLength: 4 }),
      value: bytes,
      time: fc.integer({ min: 0, max: 2 ** 32 }).map((seconds) => timestampFrom(seconds, 1_000_000)),
    });
    fc.assert(
      fc.property(letters, (letter) => {
        expect(decodeDeadLetter(encodeDeadLetter(letter).value)).toEqual({ ok: true, value: letter });
      }),
      { numRuns: 300 },
    );
  });

  function changed(from: string, to: string): Uint8Array {
    const text = decodeUtf8(encodeDeadLetter(LETTER).value)!;
    expect(text).toContain(from);
    return encodeUtf8(text.replace(from, to));
  }

  test.each([
    ['"type":"weir.dead-letter.v1"', '"type":"other"', "type"],
    ['"time":"2025-11-01T12:26:41.500Z",', "", "time"],
    ['"reason":"MALFORMED"', '"reason":"OTHER"', "data.reason"],
    ['"reason":"MALFORMED",', "", "data.reason"],
    ['"detail":"', '"detail":1,"x":"', "data.detail"],
    ['"partition":3', '"partition":"3"', "data.partition"],
    ['"offset":9007199254740993', '"offset":1.5', "data.offset"],
    ['"timestamp":1762000000000', '"timestamp":1e3', "data.timestamp"],
    ['"key":"L3M="', '"key":"L3M"', "data.key"],
    ['["x",null]', '["x"]', "data.headers"],
    ['["x",null]', '["x",null,null]', "data.headers"],
    ['["x",null]', "[1,null]", "data.headers"],
    ['["x",null]', '"x"', "data.headers"],
    ['"value":"ew=="', '"value":5', "data.value"],
  ])("with %s as %s is refused with the field", (from, to, field) => {
    expect(decodeDeadLetter(changed(from, to))).toMatchObject({ ok: false, faults: [{ field }] });
  });

  test("without an object as data is refused", () => {
    for (const data of ["[]", "null", '"x"']) {
      const input = encodeUtf8(
        `{"specversion":"1.0","id":"1","source":"/s","type":"weir.dead-letter.v1","time":"2026-01-01T00:00:00Z","data":${data}}`,
      );
      expect(decodeDeadLetter(input)).toMatchObject({
        ok: false,
        faults: [{ field: "data", reason: "INVALID_DATA" }],
      });
    }
  });
});
