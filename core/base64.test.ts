import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeBase64, encodeBase64 } from "./base64.ts";
import { encodeUtf8 } from "./utf8.ts";

describe("base64", () => {
  // RFC 4648 § 10.
  test.each([
    ["", ""],
    ["f", "Zg=="],
    ["fo", "Zm8="],
    ["foo", "Zm9v"],
    ["foob", "Zm9vYg=="],
    ["fooba", "Zm9vYmE="],
    ["foobar", "Zm9vYmFy"],
  ])("of %j is %j", (text, encoded) => {
    expect(encodeBase64(encodeUtf8(text))).toBe(encoded);
    expect(decodeBase64(encoded)).toEqual(encodeUtf8(text));
    expect(encodeBase64(encodeUtf8(text), "url")).toBe(encoded.replaceAll("=", ""));
  });

  test("is read back as the same bytes, in both alphabets", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
        expect(decodeBase64(encodeBase64(bytes))).toEqual(bytes);
        expect(decodeBase64(encodeBase64(bytes, "url"), "url")).toEqual(bytes);
      }),
    );
  });

  test("uses + and /, or - and _", () => {
    expect(encodeBase64(new Uint8Array([0xfb, 0xff]))).toBe("+/8=");
    expect(encodeBase64(new Uint8Array([0xfb, 0xff]), "url")).toBe("-_8");
  });

  test("each byte string has one text: what decodes is what encoding gives", () => {
    const nearly = fc.string({
      unit: fc.constantFrom("A", "Q", "/", "-", "_", "=", " ", "\n", "ä"),
      maxLength: 12,
    });
    fc.assert(
      fc.property(nearly, fc.constantFrom("standard" as const, "url" as const), (text, alphabet) => {
        const bytes = decodeBase64(text, alphabet);
        expect(bytes === undefined ? text : encodeBase64(bytes, alphabet)).toBe(text);
      }),
      { numRuns: 2_000 },
    );
  });

  test.each([
    "A",
    "AA",
    "AAA",
    "A===",
    "====",
    "AA=A",
    "AAAA=",
    "AAAA====",
    "AB==",
    "AAB=",
    "AA==AAAA",
    "A-A_",
    "A A=",
    "AAA\n",
    "ÄAAA",
  ])("%j is refused", (text) => {
    expect(decodeBase64(text)).toBeUndefined();
  });
});
