import fc from "fast-check";
import { expect, test } from "vitest";

import { ANY_ELEMENT } from "../terms.ts";
import { utf8Length } from "../utf8.ts";
import { decimalOf, plainLength, toPlain } from "./decimal.ts";
import { MAX_CONDITIONS, MAX_DEPTH, MAX_FILTER_BYTES, parseFilter } from "./parse.ts";
import { printFilter } from "./print.ts";
import { TIME_UNITS } from "./time-units.ts";
import { type Condition, type Field, type Filter, type NumberValue } from "./tree.ts";

const reserved = [
  "AND",
  "or",
  "NOT",
  "*",
  "\\",
  '"',
  "'",
  "(",
  ")",
  " ",
  "\n",
  "\t",
  "\u0001",
  "\u007f",
  "now",
  "true",
  "5",
];
const text = fc.oneof(
  fc.string({ maxLength: 8 }),
  fc.string({ unit: "binary", maxLength: 8 }).map((each) => each.replaceAll("\0", "0")),
  fc.string({ unit: fc.constantFrom(...reserved), maxLength: 5 }),
);
const string = text.map((each) => ({ kind: "string", text: each }) as const);
const number: fc.Arbitrary<NumberValue> = fc
  .tuple(fc.bigInt({ min: -(10n ** 38n) + 1n, max: 10n ** 38n - 1n }), fc.integer({ min: -30, max: 10 }))
  .map(([digits, exponent]) => decimalOf(`${digits}e${exponent}`))
  .filter((decimal) => decimal !== undefined && plainLength(decimal) <= 38)
  .map((decimal) => ({ kind: "number", decimal: decimal === undefined ? "0" : toPlain(decimal) }));
const time = fc.oneof(
  fc
    .bigInt({ min: -62_135_596_800_000_000n, max: 253_402_300_799_999_999n })
    .map((micros) => ({ kind: "time", micros }) as const),
  fc
    .tuple(fc.constantFrom(...TIME_UNITS), fc.integer({ min: -5_000, max: 5_000 }))
    .map(([[, ms], amount]) => ({ kind: "now", plusMs: amount * ms || 0 }) as const),
);
const severity = fc.oneof(
  fc.integer({ min: 1, max: 24 }).map((each) => ({ kind: "severity", low: each, high: each }) as const),
  fc
    .integer({ min: 0, max: 5 })
    .map((each) => ({ kind: "severity", low: each * 4 + 1, high: each * 4 + 4 }) as const),
);
const constant = fc.constantFrom(true, false, null).map((value) => ({ kind: "constant", value }) as const);

const segment = fc.oneof(
  text,
  fc.constantFrom("amount", "order_id", "0", "*"),
  fc.nat(999_999_999),
  fc.constant(ANY_ELEMENT),
);
const fields = {
  string: fc
    .constantFrom("id", "source", "type", "subject", "dataschema", "datacontenttype")
    .map((name) => ({ kind: "string", name }) as const),
  extension: fc.stringMatching(/^[a-z0-9]{1,20}$/).map((name) => ({ kind: "extension", name }) as const),
  data: fc.array(segment, { minLength: 1, maxLength: 8 }).map((path) => ({ kind: "data", path }) as const),
  time: fc.constantFrom("time", "receive_time").map((name) => ({ kind: "time", name }) as const),
  severity: fc.constant({ kind: "severity" } as const),
  position: fc.constantFrom("partition", "offset").map((name) => ({ kind: "position", name }) as const),
  tags: fc.constant({ kind: "tags" } as const),
};
const op = fc.constantFrom("=", "<", "<=", ">", ">=");
const compare = (field: fc.Arbitrary<Field>, value: fc.Arbitrary<unknown>, ops: fc.Arbitrary<string> = op) =>
  fc.record({ kind: fc.constant("compare"), field, op: ops, value }) as unknown as fc.Arbitrary<Condition>;
const runs = fc
  .tuple(
    text,
    fc.array(
      text.filter((run) => run !== ""),
      { maxLength: 3 },
    ),
    text,
  )
  .map(([first, between, last]) => [first, ...between, last]);

const condition: fc.Arbitrary<Condition> = fc.oneof(
  compare(fc.oneof(fields.string, fields.extension, fields.data), string),
  compare(fc.oneof(fields.extension, fields.data, fields.position), number),
  compare(fields.data, constant, fc.constant("=")),
  compare(fields.time, time),
  compare(fields.severity, severity),
  compare(fields.tags, string, fc.constant("=")),
  fc.record({
    kind: fc.constant("glob"),
    field: fc.oneof(fields.string, fields.extension, fields.data, fields.tags),
    runs,
  }) as fc.Arbitrary<Condition>,
  fc.record({
    kind: fc.constant("present"),
    field: fc.oneof(...Object.values(fields)),
  }) as fc.Arbitrary<Condition>,
  text.filter((each) => each !== "").map((each) => ({ kind: "text", text: each }) as const),
);

const tree = fc.letrec<{ filter: Filter; other: Filter }>((tie) => {
  const group = (kind: "and" | "or") =>
    fc
      .array(tie("filter"), { minLength: 2, maxLength: 4 })
      .map((of): Filter => ({ kind, of: of.flatMap((each) => (each.kind === kind ? each.of : [each])) }));
  return {
    other: fc.oneof({ depthSize: "small" }, condition, group("and"), group("or")),
    filter: fc.oneof(
      { depthSize: "small" },
      tie("other"),
      tie("other").map((of): Filter => (of.kind === "not" ? of : { kind: "not", of })),
    ),
  };
}).filter;

test("what is printed is read as the same tree, whatever the tree", () => {
  let read = 0;
  fc.assert(
    fc.property(tree, (filter) => {
      const printed = printFilter(filter);
      const parsed = parseFilter(printed);
      // Generated trees may be larger than a filter may be, and nothing else may be wrong with them.
      const isTooLarge =
        !parsed.ok && parsed.faults.every(({ metadata }) => metadata?.["limit"] !== undefined);
      if (isTooLarge) return;
      read += 1;
      expect(parsed).toEqual({ ok: true, value: filter });
    }),
    { numRuns: 5_000 },
  );
  expect(read).toBeGreaterThan(4_000);
});

test("whatever is read is printed within the bounds, as a text that is read as the same", () => {
  const word = fc.constantFrom(
    ...'type = x|source:"a*b"|-tags:noise|NOT|AND|OR|(|)|((|))|data.a[*]."b c" >= -1.50e3|data.n:5|ext.n != 05'.split(
      "|",
    ),
    ...'data.x:*|severity >= warn|severity != 7|time < now-60m|"a \\" b"|card|receive_time:*|offset > 1e3|-(|data.y != null'.split(
      "|",
    ),
  );
  let read = 0;
  fc.assert(
    fc.property(fc.array(word, { maxLength: 30 }), (words) => {
      const parsed = parseFilter(words.join(" "));
      if (!parsed.ok) return;
      read += 1;
      const printed = printFilter(parsed.value);
      expect(utf8Length(printed)).toBeLessThanOrEqual(MAX_FILTER_BYTES);
      expect(parseFilter(printed)).toEqual(parsed);
    }),
    { numRuns: 5_000 },
  );
  expect(read).toBeGreaterThan(200);
});

test("the largest filters that are read are printed and read again", () => {
  const conditions = Array.from({ length: MAX_CONDITIONS }, (_, at) => `a${at}`).join(" ");
  let nested = "a";
  for (let depth = 2; depth <= MAX_DEPTH; depth += 1)
    nested = depth % 2 === 0 ? `b OR (${nested})` : `b AND (${nested})`;
  for (const largest of [conditions, nested, `"${"x".repeat(MAX_FILTER_BYTES - 2)}"`]) {
    const parsed = parseFilter(largest);
    expect(parsed.ok).toBe(true);
    expect(parseFilter(parsed.ok ? printFilter(parsed.value) : "")).toEqual(parsed);
  }
});

test.each([
  ["", ""],
  ["  type=a   source : b ", 'type = "a" AND source = "b"'],
  ["a OR b c", '("a" OR "b") AND "c"'],
  ["(a b) (c d)", '"a" AND "b" AND "c" AND "d"'],
  ["a OR (b OR (c OR d))", '"a" OR "b" OR "c" OR "d"'],
  ["-(a b) OR c", 'NOT ("a" AND "b") OR "c"'],
  ["NOT type != a*", 'type = "a*"'],
  ["-tags:a* -tags:b", 'NOT tags:"a*" AND NOT tags:"b"'],
  ["-data.x:* data.y != 1.0", "NOT data.x:* AND data.y != 1"],
  ["NOT data.x > 1", "NOT data.x > 1"],
  ["data.x:a", 'data.x = "a" OR data.x[*] = "a"'],
  [String.raw`type = 'it\'s "so" \* \\ \u00e4\n\u0001'`, String.raw`type = "it's \"so\" \* \\ ä\n\u0001"`],
  ["type = a**b*", 'type = "a*b*"'],
  ['data."a b".c_1."1" = 1', 'data."a b".c_1."1" = 1'],
  ["data.1[ 0 ][ * ] = 1", 'data."1"[0][*] = 1'],
  ["severity >= error severity != info2", "severity >= ERROR AND severity != 10"],
  ["time >= 2026-11-01T10:30:00.5000001+01:00", 'time >= "2026-11-01T09:30:00.500Z"'],
  ["time < now-90m time > now+48h time = now-0s", "time < now-90m AND time > now+2d AND time = now"],
  ["time > 1969-12-31T23:59:59.999999Z", 'time > "1969-12-31T23:59:59.999999Z"'],
  ["offset >= 1e3 ext.n = -0.0 ext.n = '5'", 'offset >= 1000 AND ext.n = 0 AND ext.n = "5"'],
])("%s is printed as %s", (source, canonical) => {
  const parsed = parseFilter(source);
  expect(parsed.ok ? printFilter(parsed.value) : parsed.faults).toBe(canonical);
});
