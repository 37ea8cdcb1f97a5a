import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isJsonValue, readJsonObject, readJsonString } from "./json.ts";

function accepts(text: string): boolean {
  return isJsonValue(text);
}

/** What the engine's own parser says. */
function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

describe("the syntax of RFC 8259", () => {
  test("agrees with the engine's own parser on texts that are nearly JSON", () => {
    const unit = fc.constantFrom(
      ...'{}[]:,"\\/bu0019.-+eE \n\ttruefalsn'.split(""),
      "null",
      '"a"',
      "\\u00e4",
      '{"a":1}',
      "\u0001",
      "ä",
    );
    fc.assert(
      fc.property(fc.string({ unit, maxLength: 12 }), (text) => {
        expect(accepts(text)).toBe(parses(text) && text === text.trim());
      }),
      { numRuns: 20_000 },
    );
  });

  test("agrees with it on all JSON, with and without white space, and on JSON with one character changed", () => {
    const at = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });
    const character = fc.constantFrom(...'{}[]:,"\\0-.e x'.split(""));
    fc.assert(
      fc.property(fc.jsonValue(), fc.nat(2), at, character, (value, space, share, other) => {
        const text = JSON.stringify(value, undefined, space);
        expect(accepts(text)).toBe(true);
        const index = Math.floor(share * text.length);
        const changed = text.slice(0, index) + other + text.slice(index + 1);
        expect(accepts(changed)).toBe(parses(changed) && changed === changed.trim());
      }),
      { numRuns: 1_000 },
    );
  });

  test.each([
    "01",
    "+1",
    ".5",
    "1.",
    "1e",
    "1e+",
    "--1",
    "0x1",
    "NaN",
    "tru",
    "nul",
    '"\\x"',
    '"\\u12"',
    '"\\u123g"',
    "[1,]",
    '{"a"}',
    "{,}",
    "[}",
    "1 2",
    '"',
    "'a'",
  ])("%s is no JSON", (text) => {
    expect(accepts(text)).toBe(false);
  });

  test("depth and length cost nothing but time in proportion", () => {
    expect(accepts("[".repeat(1_000_000) + "]".repeat(1_000_000))).toBe(true);
    expect(accepts('[{"a":'.repeat(100_000) + "null" + "}]".repeat(100_000))).toBe(true);
    expect(accepts(`"${"\\u0041".repeat(200_000)}"`)).toBe(true);
    expect(accepts("[".repeat(1_000_000))).toBe(false);
  });
});

describe("members and elements", () => {
  test("are raw slices in their order, names decoded", () => {
    const object = ' { "a" : 1.0 , "\\u0061":[ 1 , {} ],"":"x" } \n';
    const result = readJsonObject(object);
    const read = result.ok
      ? result.value.map(({ name, kind, start, end }) => [name, kind, object.slice(start, end)])
      : result;
    expect(read).toEqual([
      ["a", "number", "1.0"],
      ["a", "array", "[ 1 , {} ]"],
      ["", "string", '"x"'],
    ]);
    expect(readJsonObject("{ }")).toEqual({ ok: true, value: [] });
  });

  test("are what the engine's own parser gives", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ unit: "binary" }), fc.jsonValue()), (value) => {
        const text = JSON.stringify(value);
        const result = readJsonObject(text);
        const read = result.ok
          ? result.value.map(({ name, start, end }) => [name, JSON.parse(text.slice(start, end)) as unknown])
          : result;
        expect(read).toEqual(Object.entries(JSON.parse(JSON.stringify(value)) as object));
      }),
    );
  });

  test("a string is decoded with its escapes", () => {
    const text = '{"a":"ä\\n\\u00e4\\/\\ud83d\\ude00","b":"\\ud800","c":"plain"}';
    const read = readJsonObject(text);
    expect(read.ok && read.value.map(({ start, end }) => readJsonString(text, start, end))).toEqual([
      "ä\nä/😀",
      "\ud800",
      "plain",
    ]);
  });
});
