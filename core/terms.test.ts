import fc from "fast-check";
import { expect, test } from "vitest";

import { type CloudEvent } from "./event.ts";
import {
  ANY_ELEMENT,
  attributeTerms,
  dataTerms,
  extensionTerms,
  idTerm,
  INCOMPLETE_TERM,
  type JsonScalar,
  MAX_TERMS,
  MAX_TERMS_BYTES,
  severityTerm,
  tagTerm,
  type TermSegment,
  termsOf,
  wordTerms,
} from "./terms.ts";
import { encodeUtf8 } from "./utf8.ts";

interface Sketch extends Partial<Omit<CloudEvent, "data">> {
  readonly data?: string | Uint8Array;
}

function sketch({ data, ...attributes }: Sketch = {}): CloudEvent {
  return {
    id: "1",
    source: "/s",
    type: "t",
    subject: undefined,
    time: undefined,
    datacontenttype: undefined,
    dataschema: undefined,
    extensions: new Map(),
    ...attributes,
    data:
      data === undefined
        ? undefined
        : { bytes: typeof data === "string" ? encodeUtf8(data) : data, protoType: undefined },
  };
}

const has = (event: CloudEvent, terms: readonly number[]): boolean => {
  const all = new Set(termsOf(event));
  return terms.every((term) => all.has(term));
};

test("the hashes are those of the rows that are stored: they never change", () => {
  const event = sketch({
    id: "A-1",
    source: "/acme/shops/17",
    type: "com.acme.order.created",
    subject: "order 5",
    datacontenttype: "application/json; charset=utf-8",
    dataschema: "https://acme.example/order",
    extensions: new Map([
      ["severitytext", "WARN"],
      ["tags", "eu, b2b"],
      ["tenant", "acme 1"],
      ["n", "5.0"],
    ]),
    data: '{"a":{"b":[1,{"c":"Ada Lovelace"}]},"t":true,"f":false,"z":null,"s":"paid","e":"","x":1e2}',
  });
  expect(termsOf(event)).toMatchInlineSnapshot(`
    [
      405062,
      644288184,
      -395545703,
      -113372755,
      -1299728859,
      -1322470409,
      545005948,
      354826548,
      719981368,
      854450225,
      2138174375,
      1550655574,
      1559606253,
      205709,
      -1507091205,
      2066571007,
      187743,
      496286027,
      1873124015,
      5780476,
      -308748249,
      996434493,
      -1661581508,
      428026,
      1296348260,
      -1257762973,
      227119560,
      938860267,
    ]
  `);
  expect(INCOMPLETE_TERM).toMatchInlineSnapshot(`1462569099`);
});

const scalar: fc.Arbitrary<JsonScalar> = fc.oneof(
  fc.string({ maxLength: 60 }),
  fc.string({ unit: "binary", maxLength: 20 }),
  fc.constantFrom("paid", "c-17", "", "-", "a", "Ada Lovelace", "x".repeat(40)),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.integer(),
  fc.boolean(),
  fc.constant(null),
);
const json = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    scalar,
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(fc.oneof(fc.string({ maxLength: 8 }), fc.constant("__proto__")), tie("value"), {
      maxKeys: 4,
    }),
  ),
})).value;

/** Every scalar of a JSON value with its path. */
function leavesOf(value: unknown, path: readonly TermSegment[] = []): [readonly TermSegment[], JsonScalar][] {
  if (typeof value !== "object" || value === null) return [[path, value as JsonScalar]];
  return Array.isArray(value)
    ? value.flatMap((element) => leavesOf(element, [...path, ANY_ELEMENT]))
    : Object.entries(value).flatMap(([name, member]) => leavesOf(member, [...path, name]));
}

test("an event has every term that a condition which it fulfils needs", () => {
  const text = fc.oneof(
    fc.string({ maxLength: 40 }),
    fc.string({ unit: "binary", maxLength: 20 }),
    fc.uuid(),
  );
  const optional = fc.option(text, { nil: undefined });
  const event = fc.record({
    id: text,
    source: text,
    type: text,
    subject: optional,
    dataschema: optional,
    datacontenttype: fc.constantFrom(undefined, "application/json", "application/cloud+json; v=1"),
    extensions: fc
      .dictionary(fc.constantFrom("tags", "severitytext", "severitynumber", "ext", "n"), text)
      .map((entries) => new Map(Object.entries(entries))),
  });
  fc.assert(
    fc.property(event, json, (attributes, value) => {
      const all = sketch({ ...attributes, data: JSON.stringify(value) });
      expect(has(all, [idTerm(all.id)])).toBe(true);
      const strings: string[] = [all.type, all.source, all.subject ?? "", ...all.extensions.values()];
      const needed: (readonly number[])[] = [[idTerm(all.id)]];
      for (const name of ["type", "source", "subject", "dataschema", "datacontenttype"] as const)
        if (all[name] !== undefined) needed.push(attributeTerms(name, all[name]));
      for (const [name, held] of all.extensions) needed.push(extensionTerms(name, held));
      for (const [path, leaf] of leavesOf(JSON.parse(JSON.stringify(value)))) {
        needed.push(dataTerms(path, leaf));
        if (typeof leaf === "string") strings.push(leaf);
      }
      const terms = new Set(termsOf(all));
      expect([...needed, ...strings.map(wordTerms)].flat().filter((term) => !terms.has(term))).toEqual([]);
    }),
    { numRuns: 1_000 },
  );
});

test.each<readonly [string, readonly number[]]>([
  ["another value", dataTerms(["a", "b"], 2)],
  ["a string where a number is", dataTerms(["a", "b"], "1")],
  ["another path", dataTerms(["a", "c"], 1)],
  ["the path as one name", dataTerms(["a.b"], 1)],
  ["an element where a member is", dataTerms(["a", ANY_ELEMENT], 1)],
  ["another word", wordTerms("lovelac")],
  ["words that are only partly there", wordTerms("Ada Byron")],
  ["a tag that is only a word", [tagTerm("ada")]],
  ["another severity", [severityTerm(9)]],
  ["another extension", extensionTerms("other", "5")],
  ["a name of the payload as a word", wordTerms("customer")],
])("what a condition that an event does not fulfil needs, it has not: %s", (_, terms) => {
  const event = sketch({
    extensions: new Map([
      ["severitytext", "WARN"],
      ["n", "5"],
    ]),
    data: '{"a":{"b":1},"customer":"Ada Lovelace"}',
  });
  expect(terms).not.toEqual([]);
  expect(has(event, terms)).toBe(false);
});

test("numbers are found by their value, however they are written and however long they are", () => {
  for (const written of ["12.5", "12.50", "1.25e1", "125E-1"])
    expect(has(sketch({ data: `[${written}]` }), dataTerms([ANY_ELEMENT], 12.5))).toBe(true);
  const long = "12345678901234567890123456789012345678";
  expect(has(sketch({ data: `{"n":${long}}` }), dataTerms(["n"], Number(`${long}.0`)))).toBe(true);
  expect(has(sketch({ data: '{"n":1e999,"m":-0}' }), dataTerms(["m"], 0))).toBe(true);
  expect(has(sketch({ extensions: new Map([["n", "5.0"]]) }), extensionTerms("n", "5"))).toBe(true);
});

test("the payload counts as JSON by its media type or without one, as text by text/*, and else not at all", () => {
  const found = (
    datacontenttype: string | undefined,
    data: string | Uint8Array,
    terms: readonly number[],
  ): boolean => has(sketch({ datacontenttype, data }), terms);
  const [value, word] = [dataTerms(["n"], 1), wordTerms("ada")];
  expect(found(undefined, '\ufeff{"n":1}', value)).toBe(true);
  expect(found("application/acme+json", '{"n":1}', value)).toBe(true);
  expect(found("text/csv", "name\nAda", word)).toBe(true);
  expect(found("text/plain", '{"n":1}', value)).toBe(false);
  expect(found("application/xml", "<a>Ada</a>", word)).toBe(false);
  expect(found("application/json", '{"n":1', value)).toBe(false);
  expect(found(undefined, new Uint8Array([0x22, 0xff, 0x22]), word)).toBe(false);
  const proto = { bytes: encodeUtf8('"ada"'), protoType: "type.googleapis.com/x" };
  expect(has({ ...sketch(), data: proto }, word)).toBe(false);
});

test("an event has so many terms at most, and says so where it has more", () => {
  const many = (count: number): string => JSON.stringify(Array.from({ length: count }, (_, at) => `w${at}x`));
  const whole = termsOf(sketch({ data: many(100) }));
  expect(whole).not.toContain(INCOMPLETE_TERM);
  const cut = termsOf(sketch({ data: many(5_000) }));
  expect(cut).toHaveLength(MAX_TERMS + 1);
  expect(cut.at(-1)).toBe(INCOMPLETE_TERM);
  expect(cut).toContain(idTerm("1"));
  const large = termsOf(sketch({ data: `"${"x".repeat(MAX_TERMS_BYTES)}"` }));
  expect(large).toContain(INCOMPLETE_TERM);
  expect(large.length).toBeLessThan(10);
});

test("whatever an event holds, its terms are 32-bit integers, each once, and the same each time", () => {
  const anything = fc.oneof(
    json.map((value) => JSON.stringify(value)),
    fc.string({ unit: "binary", maxLength: 2_000 }),
    fc.uint8Array({ maxLength: 2_000 }),
  );
  fc.assert(
    fc.property(
      anything,
      fc.constantFrom(undefined, "text/plain", "application/json"),
      (data, datacontenttype) => {
        const event = sketch({ data, datacontenttype });
        const terms = termsOf(event);
        expect(terms.every((term) => term === (term | 0))).toBe(true);
        expect(new Set(terms).size).toBe(terms.length);
        expect(terms.length).toBeLessThanOrEqual(MAX_TERMS + 1);
        expect(termsOf(event)).toEqual(terms);
      },
    ),
    { numRuns: 1_000 },
  );
});

test("hostile payloads take time in proportion to their size", () => {
  const size = MAX_TERMS_BYTES - 10;
  const fill = (unit: string, end = ""): string => unit.repeat(Math.floor(size / (unit.length + end.length)));
  for (const data of [
    fill("[", "]") + fill("]", "["),
    fill('{"a":', "}") + "1" + fill("}", '{"a":'),
    `[${fill("1,")}1]`,
    `[${fill('"a b",')}1]`,
    `"${fill("a1-")}"`,
    `"${fill("00000000-0000-")}"`,
    `{${fill('"k":1,')}"k":1}`,
  ]) {
    const began = Date.now();
    termsOf(sketch({ data }));
    expect(Date.now() - began).toBeLessThan(5_000);
  }
});
