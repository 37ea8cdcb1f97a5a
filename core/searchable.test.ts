import fc from "fast-check";
import { expect, test } from "vitest";

import { MAX_EXPONENT, MAX_JSON_DEPTH, MAX_NUMBER_LENGTH, searchableForm } from "./searchable.ts";
import { encodeUtf8 } from "./utf8.ts";

const formOf = (payload: string | Uint8Array, datacontenttype?: string, protoType?: string) =>
  searchableForm({
    datacontenttype,
    data: { bytes: typeof payload === "string" ? encodeUtf8(payload) : payload, protoType },
  });

test.each([
  ["an object", '{"a":{"b":[1,-2.5e-3,true,null]}}'],
  ["white space around", " \t\r\n[ ]\n"],
  ["a string alone", '"a"'],
  ["escapes", String.raw`"\\u0000 \" \/ \u0001 \u00e4 \ud83d\ude00 \\\\ud800"`],
  ["a name with escapes", String.raw`{"\u0041\n":1}`],
  ["a pair of surrogates in capitals", String.raw`"\uD83D\uDE00"`],
  ["the whole of Unicode", '"😀\u{10ffff}\ufeff"'],
  ["repeated names", '{"a":1,"a":2}'],
  ["brackets in strings", `"${"[".repeat(1_000)}"`],
  ["digits in strings", `"${"1".repeat(2_000)}e999"`],
  ["the deepest", "[".repeat(MAX_JSON_DEPTH) + "]".repeat(MAX_JSON_DEPTH)],
  ["many beside each other", `[${"{},".repeat(1_000)}[]]`],
  ["the longest number", `[${"1".repeat(MAX_NUMBER_LENGTH)}]`],
  ["the largest exponents", `[1e${MAX_EXPONENT},1E-${MAX_EXPONENT},1e+0000${MAX_EXPONENT}]`],
])("is searchable JSON: %s", (_, payload) => {
  expect(formOf(payload)).toBe("json");
});

test.each([
  ["nothing", ""],
  ["no JSON", "{'a':1}"],
  ["a byte order mark", "\ufeff{}"],
  ["more after it", "{} {}"],
  ["NUL as an escape", String.raw`{"a":"b\u0000"}`],
  ["NUL in a name", String.raw`{"\u0000":1}`],
  ["NUL after a backslash", String.raw`"\\\u0000"`],
  ["half of a pair, the first", String.raw`"\ud83d"`],
  ["half of a pair, the first, before another escape", String.raw`"\ud83d\n"`],
  ["half of a pair, the first, twice", String.raw`"\ud83d\ud83d\ude00"`],
  ["half of a pair, the first, before an escaped backslash", String.raw`"\ud83d\\ude00"`],
  ["half of a pair, the second", String.raw`"\uDE00"`],
  ["half of a pair in a member that is lost", String.raw`{"a":"\ud83d","a":1}`],
  ["one level too deep", "[".repeat(MAX_JSON_DEPTH + 1) + "]".repeat(MAX_JSON_DEPTH + 1)],
  ["a number too long", `-${"1".repeat(MAX_NUMBER_LENGTH)}`],
  ["an exponent too large", `1e${MAX_EXPONENT + 1}`],
  ["a negative exponent too large", `[1,2E-${MAX_EXPONENT + 1}]`],
])("is not searchable: %s", (_, payload) => {
  expect(formOf(payload)).toBeUndefined();
});

test("what is not UTF-8 is not searchable, neither as JSON nor as text", () => {
  expect(formOf(new Uint8Array([0x22, 0xff, 0x22]))).toBeUndefined();
  expect(formOf(new Uint8Array([0x22, 0xed, 0xa0, 0x80, 0x22]))).toBeUndefined();
  expect(formOf(new Uint8Array([0x61, 0xc3]), "text/plain")).toBeUndefined();
});

test("the media type says which of both it may be", () => {
  for (const type of [
    "application/json",
    "Application/JSON; charset=utf-8",
    "text/json",
    "application/a+json",
  ])
    expect(formOf("{}", type)).toBe("json");
  for (const type of ["text/plain", "TEXT/CSV;header=present"]) expect(formOf("{}", type)).toBe("text");
  for (const type of ["application/xml", "application/octet-stream", "image/png"])
    expect(formOf("{}", type)).toBeUndefined();
  expect(formOf("no JSON", "text/json")).toBeUndefined();
});

test("text may be anything but NUL", () => {
  for (const text of ["", "\ufeffa\r\nb", "{\u0001"]) expect(formOf(text, "text/plain")).toBe("text");
  expect(formOf("a\0b", "text/plain")).toBeUndefined();
});

test("neither a protobuf message nor an event without data is searchable", () => {
  expect(formOf("{}", undefined, "type.googleapis.com/x")).toBeUndefined();
  expect(searchableForm({ datacontenttype: "application/json", data: undefined })).toBeUndefined();
});

/** What the rule says, slowly: the engine parses it, and each token is looked at by itself. */
function isSearchable(text: string): boolean {
  try {
    JSON.parse(text);
  } catch {
    return false;
  }
  let [depth, deepest] = [0, 0];
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]|[-+.0-9eE]+/g)) {
    if (token === "[" || token === "{") deepest = Math.max(deepest, (depth += 1));
    else if (token === "]" || token === "}") depth -= 1;
    else if (token.startsWith('"')) {
      const string = JSON.parse(token) as string;
      if (string.includes("\0") || !string.isWellFormed()) return false;
    } else if (
      token.length > MAX_NUMBER_LENGTH ||
      Number(/[eE][+-]?(\d+)/.exec(token)?.[1] ?? 0) > MAX_EXPONENT
    )
      return false;
  }
  return deepest <= MAX_JSON_DEPTH;
}

test("is exactly what the rule says, for whatever is nearly JSON", () => {
  const unit = fc.constantFrom(
    ...'{}[]:,"\\0-.e 1'.split(""),
    ...'\\u0000 \\ud83d \\ude00 \\u \\\\ "a": ":" 1e401 9e-400 true null ä \0'.split(" "),
  );
  const nearly = fc.oneof(
    fc.string({ unit, maxLength: 12 }),
    fc.string({ unit, maxLength: 12 }).map((inner) => `["${inner}"]`),
    fc.string({ unit, maxLength: 12 }).map((inner) => `{"a":[${inner}]}`),
    fc.json(),
    fc.json({ stringUnit: "binary" }),
  );
  let searchable = 0;
  fc.assert(
    fc.property(nearly, (text) => {
      const expected = isSearchable(text);
      searchable += expected ? 1 : 0;
      expect(formOf(text)).toBe(expected ? "json" : undefined);
    }),
    { numRuns: 20_000 },
  );
  expect(searchable).toBeGreaterThan(2_000);
});

test("whatever the bytes, it answers, in time in proportion to their number", () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 400 }),
      fc.constantFrom(undefined, "text/plain"),
      (bytes, type) => {
        expect([undefined, "json", "text"]).toContain(formOf(bytes, type));
      },
    ),
  );
  for (const unit of ["[", "\\", '"', '"\\', "1", "-", '"\\ud83d\\ude00",', "[1],", '{"a":'])
    for (const payload of [
      unit.repeat(1_000_000 / unit.length),
      `"${unit.repeat(1_000_000 / unit.length)}`,
    ]) {
      const began = Date.now();
      formOf(payload);
      expect(Date.now() - began).toBeLessThan(5_000);
    }
});
