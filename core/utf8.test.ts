import fc from "fast-check";
import { expect, test } from "vitest";
import { concatBytes, decodeUtf8, encodeUtf8, utf8Length } from "./utf8.ts";

test("text is read back as the same, a byte order mark too", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      expect(decodeUtf8(encodeUtf8(text))).toBe(text);
    }),
  );
  expect(decodeUtf8(encodeUtf8("\ufeffa"))).toBe("\ufeffa");
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
