import fc from "fast-check";
import { expect, test } from "vitest";
import { concatBytes, decodeUtf8, decodeUtf8All, encodeUtf8, utf8Length } from "./utf8.ts";

test("text is read back as the same, a byte order mark too", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      expect(decodeUtf8(encodeUtf8(text))).toBe(text);
    }),
  );
  expect(decodeUtf8(encodeUtf8("\ufeffa"))).toBe("\ufeffa");
});

test("a text of any length is encoded alike", () => {
  const ends: [string, number[]][] = [
    ["", []],
    ["é", [0xc3, 0xa9]],
    ["😀", [0xf0, 0x9f, 0x98, 0x80]],
    ["\ud800", [0xef, 0xbf, 0xbd]],
  ];
  for (const length of [0, 1, 31, 32, 33, 4_095, 4_096, 4_097, 10_000]) {
    for (const [end, bytes] of ends) {
      const expected = new Uint8Array(length + bytes.length).fill(0x61);
      expected.set(bytes, length);
      expect(encodeUtf8("a".repeat(length) + end)).toEqual(expected);
    }
  }
});

test("many texts are decoded as each by itself", () => {
  const part = fc.oneof(
    fc.uint8Array({ maxLength: 8 }),
    fc.string({ maxLength: 8 }).map(encodeUtf8),
    fc.string({ unit: "binary", maxLength: 8 }).map(encodeUtf8),
    fc.constant(new Uint8Array(1_100).fill(0x61)),
  );
  fc.assert(
    fc.property(fc.array(part, { maxLength: 5 }), (parts) => {
      const { texts, arePrintable } = decodeUtf8All(parts);
      expect(texts).toEqual(parts.map(decodeUtf8));
      expect(!arePrintable || texts.every((text) => /^[ -~]*$/.test(text ?? "\n"))).toBe(true);
    }),
  );
  expect(decodeUtf8All([encodeUtf8("a"), encodeUtf8(" ~")])).toEqual({
    texts: ["a", " ~"],
    arePrintable: true,
  });
  // Halves of a character are none, though they are one together.
  expect(decodeUtf8All([new Uint8Array([0xc3]), new Uint8Array([0xa9])]).texts).toEqual([
    undefined,
    undefined,
  ]);
});

test("the length is that of the encoding, lone surrogates too", () => {
  const unit = fc.constantFrom(
    "a",
    "\u007f",
    "\u0080",
    "\u07ff",
    "\u0800",
    "\uffff",
    "\ud800",
    "\udc00",
    "😀",
  );
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit }), fc.string({ unit: "binary" })), (text) => {
      expect(utf8Length(text)).toBe(encodeUtf8(text).length);
    }),
    { numRuns: 500 },
  );
});

// RFC 3629 § 4: overlong forms, surrogates, beyond U+10FFFF, lone and missing continuation bytes.
test.each([
  [[0xc0, 0xaf]],
  [[0xe0, 0x80, 0xaf]],
  [[0xed, 0xa0, 0x80]],
  [[0xf4, 0x90, 0x80, 0x80]],
  [[0x80]],
  [[0xe2, 0x82]],
  [[0xff]],
])("%j are not UTF-8", (bytes) => {
  expect(decodeUtf8(new Uint8Array(bytes))).toBeUndefined();
});

test("bytes are joined in order", () => {
  expect(concatBytes([])).toEqual(new Uint8Array());
  expect(concatBytes([new Uint8Array([1, 2]), new Uint8Array(), new Uint8Array([3])])).toEqual(
    new Uint8Array([1, 2, 3]),
  );
});
