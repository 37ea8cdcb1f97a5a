import fc from "fast-check";

import { type CloudEvent, type EventData, type StoredEvent } from "#core/event.ts";
import { type Condition, type Field, type Filter, type Operator, type Segment } from "#core/filter/tree.ts";
import { ANY_ELEMENT } from "#core/terms.ts";
import { parseTimestamp } from "#core/timestamp.ts";
import { encodeUtf8 } from "#core/utf8.ts";

import {
  DECIMALS,
  EXTENSIONS,
  LINES,
  MEDIA_TYPES,
  MOMENTS,
  NAMES,
  NOW,
  NUMBERS,
  STRINGS,
} from "./filter-values.ts";

// Random events and random filters of the same few values, so that a condition is often true, and of values that are nearly
// equal: by case, by spelling, by type, by the last digit.

const pick = <T>(values: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...values);
const line = fc.oneof(
  { weight: 8, arbitrary: pick(LINES) },
  { weight: 1, arbitrary: fc.stringMatching(/^[a-c .*-]{1,6}$/) },
);

/** A JSON string, sometimes with escapes that it does not need. */
const stringToken = fc.tuple(pick(STRINGS), fc.nat(9)).map(([text, how]) => {
  if (how > 0) return JSON.stringify(text);
  return `"${Array.from(text, (_, at) => text.slice(at, at + 1))
    .join("")
    .replaceAll(/[\s\S]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)}"`;
});
const space = pick(["", "", "", " ", "\n\t"]);
/** JSON as text: names may repeat, and numbers are spelled in many ways. */
const json = fc.letrec<{ value: string }>((tie) => {
  const element = fc.tuple(space, tie("value")).map((parts) => parts.join(""));
  const member = fc
    .tuple(pick(NAMES), space, tie("value"))
    .map(([name, gap, value]) => `${JSON.stringify(name)}${gap}:${gap}${value}`);
  return {
    value: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      { weight: 3, arbitrary: stringToken },
      { weight: 3, arbitrary: pick(NUMBERS) },
      { weight: 1, arbitrary: pick(["true", "false", "null"]) },
      {
        weight: 2,
        arbitrary: fc.array(element, { maxLength: 4 }).map((elements) => `[${elements.join(",")}]`),
      },
      { weight: 4, arbitrary: fc.array(member, { maxLength: 4 }).map((members) => `{${members.join(",")}}`) },
    ),
  };
}).value;

const strange = pick<string | Uint8Array>([
  "",
  "{'a':1}",
  '\ufeff{"a":1}',
  String.raw`{"a":"\u0000"}`,
  String.raw`{"a":"\ud83d","b":1}`,
  String.raw`{"a":"\ud83d\ude00"}`,
  new Uint8Array([0x7b, 0x22, 0x61, 0x22, 0x3a, 0xff, 0x7d]),
  new Uint8Array([0x70, 0x61, 0x69, 0x64, 0x00]),
  '{"a":1e401}',
  `{"a":${"1".repeat(1_001)}}`,
  `{"a":${"[".repeat(255)}"paid"${"]".repeat(255)}}`,
  `{"a":${"[".repeat(256)}"paid"${"]".repeat(256)}}`,
  `{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":"paid"}}}}}}}}}}`,
  "paid, PAID and ΟΔΟΣ in a text",
]);
/** Too large, and too many words, to have all of its terms. */
const HUGE = `{"a":"Card declined","b":[${"17,".repeat(88_000)}0.1]}`;
const MANY = `{"a":[${Array.from({ length: 700 }, (_, index) => `"only${index}x"`).join(",")},"paid"],"amount":17}`;
const payload = fc.oneof(
  { weight: 60, arbitrary: json },
  { weight: 12, arbitrary: strange },
  { weight: 6, arbitrary: pick(STRINGS) },
  { weight: 2, arbitrary: fc.constant(MANY) },
  { weight: 1, arbitrary: fc.constant(HUGE) },
);
const data: fc.Arbitrary<EventData | undefined> = fc.option(
  fc
    .record({
      bytes: payload.map((text) => (typeof text === "string" ? encodeUtf8(text) : text)),
      protoType: fc.option(fc.constant("example.com/A"), { nil: undefined, freq: 15 }),
    })
    .map(({ bytes, protoType }) => ({ bytes, protoType })),
  { nil: undefined, freq: 8 },
);
const optionalLine = fc.option(line, { nil: undefined });
const severity = pick([
  "1",
  "9",
  "12",
  "13",
  "16",
  "17",
  "24",
  "25",
  "0",
  "WARN",
  "warn2",
  "Error",
  "FATAL4",
  "loud",
]);
const tags = fc
  .array(pick(["paid", " Paid", "x*y", "a b ", "", "noise", "ΟΔΟΣ", "c-17"]), { maxLength: 3 })
  .map((all) => all.join(","));
const extensions: fc.Arbitrary<ReadonlyMap<string, string>> = fc
  .record(
    {
      tenant: line,
      n: fc.oneof(pick(NUMBERS), pick([" 5", "+5", "5.", ".5", "0x1"]), line),
      tags,
      severitytext: severity,
      severitynumber: severity,
      constructor: line,
    },
    { requiredKeys: [] },
  )
  .map((found) => new Map(Object.entries(found).toSorted(([a], [b]) => (a < b ? -1 : 1))));
const event: fc.Arbitrary<CloudEvent> = fc.record({
  id: fc.oneof(line, fc.uuid()),
  source: line,
  type: line,
  subject: optionalLine,
  time: fc
    .option(pick(MOMENTS), { nil: undefined, freq: 8 })
    .map((text) => (text === undefined ? undefined : parseTimestamp(text))),
  datacontenttype: pick(MEDIA_TYPES),
  dataschema: optionalLine,
  extensions,
  data,
});

/** Events, each at a place of its own on the log; some share their key. */
export const storedEvents = (count: number): fc.Arbitrary<readonly StoredEvent[]> =>
  fc
    .array(fc.tuple(event, fc.constantFrom(0, 1, NOW - 60_000)), { minLength: count, maxLength: count })
    .map((all) =>
      all.map(([each, early], index) => ({
        event: each,
        acceptTime: NOW - early + (index % 3),
        principal: "alice",
        traceParent: undefined,
        traceState: undefined,
        position: { topic: "events", partition: index % 4, offset: BigInt(index) },
      })),
    );

const op = pick<Operator>(["=", "=", "=", "<", "<=", ">", ">="]);
const segment = fc.oneof<[fc.Arbitrary<Segment>, fc.Arbitrary<Segment>, fc.Arbitrary<Segment>]>(
  pick<Segment>(["a", "a", "b", ...NAMES]),
  fc.constantFrom<Segment>(0, 1, 3, 2_147_483_648, 99_999_999_999),
  fc.constant<Segment>(ANY_ELEMENT),
);
const path = fc.oneof(
  { weight: 5, arbitrary: fc.array(segment, { minLength: 1, maxLength: 3 }) },
  { weight: 1, arbitrary: fc.array(fc.constant<Segment>("a"), { minLength: 7, maxLength: 8 }) },
);
const dataField = path.map((segments) => ({ kind: "data" as const, path: segments }));
const stringField = pick(["id", "source", "type", "subject", "dataschema", "datacontenttype"] as const).map(
  (name) => ({
    kind: "string" as const,
    name,
  }),
);
const extensionField = pick([...EXTENSIONS, "n", "absent"]).map((name) => ({
  kind: "extension" as const,
  name,
}));
const timeField = pick(["time", "receive_time"] as const).map((name) => ({ kind: "time" as const, name }));
const positionField = pick(["partition", "offset"] as const).map((name) => ({
  kind: "position" as const,
  name,
}));
const severityField = fc.constant({ kind: "severity" as const });
const tagsField = fc.constant({ kind: "tags" as const });

const text = fc.oneof(
  { weight: 9, arbitrary: pick(STRINGS) },
  { weight: 1, arbitrary: pick(["a\0b", "\0", "paid\0"]) },
);
const stringValue = text.map((each) => ({ kind: "string" as const, text: each }));
const tagValue = pick(["paid", "Paid", "x*y", "a b", "noise", "ΟΔΟΣ", "c-17", "c"]).map((each) => ({
  kind: "string" as const,
  text: each,
}));
const numberValue = pick(DECIMALS).map((decimal) => ({ kind: "number" as const, decimal }));
const constantValue = pick([true, false, null]).map((value) => ({ kind: "constant" as const, value }));
const timeValue = fc.oneof(
  fc.tuple(pick(MOMENTS), fc.constantFrom(-1n, 0n, 0n, 1n)).map(([moment, more]) => {
    const { seconds, nanos } = parseTimestamp(moment)!;
    return {
      kind: "time" as const,
      micros: BigInt(seconds) * 1_000_000n + BigInt(Math.floor(nanos / 1_000)) + more,
    };
  }),
  pick([0, -1, 1, -60_000, 86_400_000]).map((plusMs) => ({ kind: "now" as const, plusMs })),
);
const severityValue = fc.oneof(
  fc.integer({ min: 1, max: 24 }).map((number) => ({ kind: "severity" as const, low: number, high: number })),
  pick([1, 5, 9, 13, 17, 21]).map((low) => ({ kind: "severity" as const, low, high: low + 3 })),
);

/** A text cut into runs around each `*`, from what an event may have. */
const runs = fc
  .tuple(text, fc.array(fc.nat(12), { minLength: 1, maxLength: 3 }), fc.nat(3))
  .map(([whole, cuts, how]) => {
    const points = Array.from(whole);
    const at = cuts.map((cut) => Math.min(cut, points.length)).toSorted((a, b) => a - b);
    const parts = [...at, points.length].map((end, index) => points.slice(at[index - 1] ?? 0, end).join(""));
    if (how === 0) parts[0] = "";
    if (how === 1) parts[parts.length - 1] = "";
    return parts;
  });

/** A word or a phrase, of what an event may have, in another case or in part. */
const fullText = fc
  .tuple(pick(STRINGS), fc.nat(9), fc.nat(12), fc.integer({ min: 1, max: 20 }))
  .map(([whole, how, from, length]) => {
    if (how < 4) return whole;
    if (how < 6) return whole.toUpperCase();
    return (
      Array.from(whole)
        .slice(from, from + length)
        .join("") || whole
    );
  });

const condition: fc.Arbitrary<Condition> = fc.oneof(
  fc.record({ kind: fc.constant("compare" as const), field: stringField, op, value: stringValue }),
  fc.record({
    kind: fc.constant("compare" as const),
    field: extensionField,
    op,
    value: fc.oneof(stringValue, numberValue),
  }),
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("compare" as const),
      field: dataField,
      op,
      value: fc.oneof(stringValue, numberValue),
    }),
  },
  fc.record({
    kind: fc.constant("compare" as const),
    field: dataField,
    op: fc.constant("=" as const),
    value: constantValue,
  }),
  fc.record({ kind: fc.constant("compare" as const), field: timeField, op, value: timeValue }),
  fc.record({ kind: fc.constant("compare" as const), field: severityField, op, value: severityValue }),
  fc.record({ kind: fc.constant("compare" as const), field: positionField, op, value: numberValue }),
  fc.record({
    kind: fc.constant("compare" as const),
    field: tagsField,
    op: fc.constant("=" as const),
    value: tagValue,
  }),
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("glob" as const),
      field: fc.oneof(stringField, extensionField, dataField, tagsField),
      runs,
    }),
  },
  fc.record({
    kind: fc.constant("present" as const),
    field: fc.oneof<fc.Arbitrary<Field>[]>(
      stringField,
      extensionField,
      dataField,
      timeField,
      severityField,
      positionField,
      tagsField,
    ),
  }),
  { weight: 3, arbitrary: fullText.map((each) => ({ kind: "text" as const, text: each })) },
);

/** Any tree, of up to some twenty conditions; and, or, not nested as a parser would give them. */
export const filters: fc.Arbitrary<Filter> = fc.letrec<{ filter: Filter }>((tie) => ({
  filter: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    { weight: 4, arbitrary: condition },
    { weight: 2, arbitrary: combined("and", tie("filter")) },
    { weight: 2, arbitrary: combined("or", tie("filter")) },
    {
      weight: 1,
      arbitrary: tie("filter").map((of): Filter => (of.kind === "not" ? of.of : { kind: "not", of })),
    },
  ),
})).filter;

function combined(kind: "and" | "or", part: fc.Arbitrary<Filter>): fc.Arbitrary<Filter> {
  return fc
    .array(part, { minLength: 2, maxLength: 3 })
    .map((parts) => ({ kind, of: parts.flatMap((each) => (each.kind === kind ? each.of : [each])) }));
}
