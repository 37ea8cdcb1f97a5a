import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { ANY_ELEMENT } from "../terms.ts";
import { MAX_CONDITIONS, MAX_DEPTH, MAX_FILTER_BYTES, parseFilter } from "./parse.ts";

/** The faults of a text as position and description. */
function faultsOf(text: string): string[] {
  const parsed = parseFilter(text);
  return parsed.ok ? [] : parsed.faults.map(({ description }) => description.replace(/^At /, ""));
}

const treeOf = (text: string): unknown => {
  const parsed = parseFilter(text);
  return parsed.ok ? parsed.value : parsed.faults;
};

describe("a sound text", () => {
  test.each(["", " ", "\n\t"])("without any condition, %j, is no filter", (text) => {
    expect(parseFilter(text)).toEqual({ ok: true, value: undefined });
  });

  test("becomes one tree", () => {
    const field = { kind: "string", name: "type" };
    expect(treeOf('type = "a*b" -(data.x[*]."y z"[3] >= 1.50 OR card) ext.n = 5')).toEqual({
      kind: "and",
      of: [
        { kind: "glob", field, runs: ["a", "b"] },
        {
          kind: "not",
          of: {
            kind: "or",
            of: [
              {
                kind: "compare",
                field: { kind: "data", path: ["x", ANY_ELEMENT, "y z", 3] },
                op: ">=",
                value: { kind: "number", decimal: "1.5" },
              },
              { kind: "text", text: "card" },
            ],
          },
        },
        {
          kind: "compare",
          field: { kind: "extension", name: "n" },
          op: "=",
          value: { kind: "number", decimal: "5" },
        },
      ],
    });
  });

  test.each([
    ["OR binds tighter than AND", "a b OR c AND d", "a AND (b OR c) AND d"],
    ["AND may be left out", "a b c", "a AND b AND c"],
    ["- and NOT are one, and two of them none", "-a NOT b --c NOT -d", "NOT a AND NOT b AND c AND d"],
    ["NOT is for what follows at once", "NOT a OR b", "(NOT a) OR b"],
    ["!= is NOT =", "type != x", "NOT type = x"],
    ["spaces around operators are free", "type=x source  :  y\noffset>\t3", "type = x source : y offset > 3"],
    ["brackets need no spaces", "(a)OR(b)-(c)NOT(d)", "(a OR b) AND NOT c AND NOT d"],
    ["either quotes do", `type = "x" 'a "b"'`, String.raw`type = x "a \"b\""`],
    [
      "an unquoted value may have colons, slashes and hyphens",
      "source=https://a-b.c/d",
      'source = "https://a-b.c/d"',
    ],
    ["a number is text for a field of text", "id = 007 subject = 1e3", 'id = "007" subject = "1e3"'],
    ["true is text for an extension", "ext.x = true", 'ext.x = "true"'],
    [
      ": is = for what there is one of",
      "type:x severity:WARN offset:3",
      "type = x severity = WARN offset = 3",
    ],
    ["a severity has its name in any case", "severity>=Warn2", "severity >= 14"],
    ["words that are fields' names are words", "type data ext", '"type" "data" "ext"'],
    ["hyphens belong to words", "card-declined", '"card-declined"'],
    ["the time may be unquoted", "time>=2026-11-01T09:30:00.25Z", 'time >= "2026-11-01T09:30:00.250Z"'],
    ["a relative time may be quoted", "time > 'now-1d'", "time > now-24h"],
  ])("%s: %s", (_, text, same) => {
    expect(treeOf(text)).toEqual(treeOf(same));
    expect(parseFilter(text).ok).toBe(true);
  });
});

describe("what is wrong is told with its place", () => {
  test.each([
    ["typ = x", '0: There is no field "typ". Did you mean type?'],
    ["receiveTime > now", '0: There is no field "receiveTime". Did you mean receive_time?'],
    ["tag:x", '0: There is no field "tag". Did you mean tags?'],
    ["type == x", '5: There is no operator "==". Did you mean =?'],
    ["type <> x", '5: There is no operator "<>". Did you mean !=?'],
    ["offset => 5", '7: There is no operator "=>". Did you mean >=?'],
    ["type ~ x", '5: There is no operator "~".'],
    [
      "a and b",
      "2: Conditions are joined by AND in capitals, or in quotes where it is a word to look for. Did you mean AND?",
    ],
    ["a || b", "2: Conditions are joined by OR in capitals. Did you mean OR?"],
    ["a&&b", "1: Conditions are joined by AND in capitals. Did you mean AND?"],
    ["not a", "0: What is not wanted begins with NOT in capitals, or with -. Did you mean NOT?"],
    ["!tags:x", "0: What is not wanted begins with NOT in capitals, or with -. Did you mean NOT?"],
    ["tags = x", "0: An event has many tags: one is looked for with a colon. Did you mean tags:x?"],
    [
      'tags != "x y"',
      '0: An event has many tags: one is looked for with a colon. Did you mean NOT tags:"x y"?',
    ],
    ["tags > x", "0: An event has many tags: one is looked for with a colon."],
    ['data["a b"] = 1', '4: This bracket holds no index of an array. Did you mean ."a b"?'],
    ["data.a[b].c = 1", "6: This bracket holds no index of an array. Did you mean .b?"],
    ["data.a[-1] = 1", "6: This bracket holds no index of an array."],
    ["data.a[ = 1", "6: This bracket holds no index of an array."],
    ["data.a. = 1", "6: After this point a name is missing."],
    ["data.* = 1", "4: No star stands for any name; [*] is any element of an array."],
    ['data."a*" = 1', String.raw`5: In a name a star is written \*.`],
    ["data = 1", "0: A path is missing after data."],
    ["type.x = 1", "0: The field type has nothing inside. Did you mean type?"],
    [
      "ext.Tenant-Id = 1",
      "0: This is the name of no extension: it has lower-case letters a–z and digits only. Did you mean ext.tenantid?",
    ],
    ["ext = 1", "0: This is the name of no extension: it has lower-case letters a–z and digits only."],
    ['"type" = x', "0: The name of a field stands without quotes. Did you mean type?"],
    ["type =", "6: A value is missing."],
    ["type = AND a", "7: A value is missing."],
    ["type = = x", "7: A value is missing."],
    ["type = (a OR b) c", "7: A value is missing. A field has one value: a = x OR a = y."],
    ["data.a[0]", "9: An operator is missing after this field."],
    ["type > a*", String.raw`7: A star stands for anything with = and != only; the character is \*.`],
    ["card*", String.raw`0: Full text finds whole words, without *; the character is \* in quotes.`],
    ['""', "0: There is nothing in these quotes to look for."],
    ['type = "a', "7: This quote is not closed."],
    ["it's", '2: "\'s" cannot follow here; what holds such characters is put in quotes.'],
    [String.raw`type = "a\d"`, String.raw`9: There is no escape "\\d". Did you mean \\d?`],
    [String.raw`"\u0000"`, "1: No event can have the character U+0000."],
    [String.raw`"\ud83d"`, "0: Half of a surrogate pair stands alone."],
    ["a\0b", "1: The filter has the character U+0000 or half of a surrogate pair."],
    ["a\ud83d", "0: The filter has the character U+0000 or half of a surrogate pair."],
    ["offset = x", '9: offset is a number, and "x" is none.'],
    ['offset = "5"', '9: offset is a number, and "5" is text. Did you mean 5?'],
    [
      "data.x = True",
      '9: "True" is written in lower case, or in quotes where it is text. Did you mean true?',
    ],
    ["data.x > null", "9: Nothing is smaller or larger than null."],
    ["severity > warning", '11: There is no severity "warning". Did you mean WARN?'],
    ["severity = 25", '11: There is no severity "25".'],
    ["time > now - 15m", "7: A relative time has no spaces. Did you mean now-15m?"],
    ["time > now-1y", '7: There is no unit of time "y".'],
    ["time > now-5217w", "7: This is more than a hundred years from now."],
    ["time > 2026-02-30T00:00:00Z", '7: The time "2026-02-30T00:00:00Z" has no such day.'],
    ["a OR", "2: A condition is missing after OR."],
    ["AND a", "0: A condition is missing before AND."],
    ["a AND OR b", "6: A condition is missing before OR."],
    ["a NOT", "2: A condition is missing after NOT."],
    ["- a", '0: Nothing can begin with "-" here.'],
    ["(a", "0: This bracket is not closed."],
    ["a)", "1: No bracket is open that this one closes."],
    ["()", "0: There is nothing in these brackets."],
    ["type(x)", "4: There are no functions; a space is missing before this bracket."],
    ['"a""b"', String.raw`3: "\"b\"" cannot follow here; what holds such characters is put in quotes.`],
  ])("%s", (text, fault) => {
    expect(faultsOf(text)[0]).toBe(fault);
  });

  test("the time may lack what can be guessed", () => {
    const guess = (text: string): unknown => {
      const parsed = parseFilter(text);
      return parsed.ok ? undefined : parsed.faults[0].metadata?.["suggestion"];
    };
    expect(guess("time > 2026-11-01")).toBe('"2026-11-01T00:00:00Z"');
    expect(guess("time > '2026-11-01 09:30'")).toBe('"2026-11-01T09:30:00Z"');
    expect(guess("time > 2026-11-01T09:30:15")).toBe('"2026-11-01T09:30:15Z"');
    expect(guess("time > yesterday")).toBeUndefined();
  });

  test("for programs too", () => {
    const parsed = parseFilter("card typ = x");
    expect(parsed).toMatchObject({
      ok: false,
      faults: [
        {
          field: "filter",
          reason: "INVALID_FILTER",
          metadata: {
            position: "5",
            suggestion: "type",
            expected: expect.stringMatching(/^id, source, .*data\.PATH$/),
          },
        },
      ],
    });
  });

  test("all of it at once, each thing once", () => {
    expect(
      faultsOf("typ == x and severity >= WRAN tags = y && (offset > z OR time > now-1y data.a..b = 1"),
    ).toEqual([
      '0: There is no field "typ". Did you mean type?',
      '4: There is no operator "==". Did you mean =?',
      "9: Conditions are joined by AND in capitals, or in quotes where it is a word to look for. Did you mean AND?",
      '25: There is no severity "WRAN". Did you mean WARN?',
      "30: An event has many tags: one is looked for with a colon. Did you mean tags:y?",
      "39: Conditions are joined by AND in capitals. Did you mean AND?",
      '52: offset is a number, and "z" is none.',
      '64: There is no unit of time "y".',
      "77: After this point a name is missing.",
      "42: This bracket is not closed.",
    ]);
  });
});

describe("the bounds", () => {
  const limitOf = (text: string): string[] => {
    const parsed = parseFilter(text);
    const all = parsed.ok ? [] : parsed.faults;
    return all.map(
      ({ metadata }) => `${metadata?.["actual"]} of ${metadata?.["limit"]} ${metadata?.["unit"]}`,
    );
  };

  test("bytes of UTF-8", () => {
    expect(limitOf(`"${"ä".repeat(MAX_FILTER_BYTES / 2 - 1)}"`)).toEqual([]);
    expect(limitOf(`"${"ä".repeat(MAX_FILTER_BYTES / 2)}"`)).toEqual(["4098 of 4096 bytes"]);
  });

  test("bytes of the canonical form", () => {
    expect(limitOf(`'${'"'.repeat(3_000)}'`)).toEqual(["6002 of 4096 bytes"]);
  });

  test("conditions, of which data.PATH:VALUE has two", () => {
    const words = (count: number): string => Array.from({ length: count }, () => "a").join(" ");
    expect(limitOf(words(MAX_CONDITIONS))).toEqual([]);
    expect(limitOf(words(MAX_CONDITIONS + 1))).toEqual(["65 of 64 conditions"]);
    expect(limitOf(`${words(MAX_CONDITIONS - 2)} data.a:1`)).toEqual([]);
    expect(limitOf(`${words(MAX_CONDITIONS - 1)} data.a:1`)).toEqual(["65 of 64 conditions"]);
  });

  test("depth, of the tree and of brackets", () => {
    const nested = (depth: number): string =>
      depth === 1 ? "a" : `b ${depth % 2 === 0 ? "OR" : "AND"} (${nested(depth - 1)})`;
    expect(limitOf(nested(MAX_DEPTH))).toEqual([]);
    expect(limitOf(nested(MAX_DEPTH + 1))).toEqual(["17 of 16 levels"]);
    expect(limitOf(`${"(".repeat(MAX_DEPTH)}a${")".repeat(MAX_DEPTH)}`)).toEqual([]);
    expect(limitOf(`${"(".repeat(MAX_DEPTH + 1)}a${")".repeat(MAX_DEPTH + 1)}`)).toEqual([
      "undefined of 16 levels",
    ]);
    expect(limitOf("(".repeat(4_000))).toHaveLength(17);
  });

  test("segments of a path", () => {
    expect(limitOf("data.a.b.c.d.e.f.g[0] = 1")).toEqual([]);
    expect(limitOf("data.a.b.c.d.e.f.g[0].i = 1")).toEqual(["9 of 8 segments"]);
    expect(limitOf("data.a.b.c.d.e.f.g:1")).toEqual([]);
    expect(limitOf("data.a.b.c.d.e.f.g.h:1")).toEqual(["9 of 8 segments"]);
    expect(limitOf("data.a.b.c.d.e.f.g.h:*")).toEqual([]);
  });

  test("digits of a number", () => {
    const digits = "12345678901234567890123456789012345678";
    for (const number of [digits, `-${digits}`, `0.${digits}`, "1e37", "1e-38"])
      expect(limitOf(`data.a = ${number}`)).toEqual([]);
    for (const number of [`${digits}9`, `0.${digits}9`, "1e38", "1e-39", "1e38"])
      expect(limitOf(`data.a = ${number}`)).toEqual(["39 of 38 digits"]);
    expect(limitOf("data.a = 1e999999999")).toEqual(["1000000000 of 38 digits"]);
    expect(limitOf("data.a = 0e999999999")).toEqual([]);
  });
});

describe("hostile texts", () => {
  const pieces = [
    ..."( ) [ ] . : = != < <= > >= \" ' \\ * - ! & | && || , ~ AND OR NOT and or not".split(" "),
    ..."type typ data data.a ext.n tags severity time offset data.a[*] data[0] now now-5m -5 1e999 1e-5 true null \"a\" 'b*'".split(
      " ",
    ),
    ...'\\u0000 \\ud800 \\" \\* \ud800 \0 é 😀'.split(" "),
    " ",
    "\n",
    "x".repeat(200),
    "9".repeat(60),
    "(".repeat(30),
  ];
  const text = fc.oneof(
    fc.array(fc.constantFrom(...pieces), { maxLength: 40 }).map((each) => each.join("")),
    fc.array(fc.constantFrom(...pieces), { maxLength: 20 }).map((each) => each.join(" ")),
    fc.string({ unit: "binary", maxLength: 80 }),
  );

  test("are all answered, with a tree or with faults that have their place in the text", () => {
    fc.assert(
      fc.property(text, (source) => {
        const parsed = parseFilter(source);
        const places = parsed.ok
          ? []
          : parsed.faults.map(({ metadata }) => Number(metadata?.["position"] ?? 0));
        expect(places.filter((place) => !(place >= 0 && place <= source.length))).toEqual([]);
      }),
      { numRuns: 20_000 },
    );
  });

  test.each(pieces.filter((piece) => piece.trim() !== ""))(
    "take time in proportion to their length: %j over and over",
    (piece) => {
      for (const each of [piece, `${piece} `, `"${piece}`, `(${piece}`]) {
        const filled = each.repeat(Math.ceil(MAX_FILTER_BYTES / each.length)).slice(0, MAX_FILTER_BYTES);
        const began = Date.now();
        parseFilter(filled);
        expect(Date.now() - began).toBeLessThan(1_000);
      }
    },
  );
});
