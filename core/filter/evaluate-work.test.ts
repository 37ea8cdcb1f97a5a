import fc from "fast-check";
import { expect, test } from "vitest";

import { INCOMPLETE_TERM, termsOf } from "../terms.ts";
import { encodeUtf8 } from "../utf8.ts";
import { createEvaluator } from "./evaluate.ts";
import { filterOf, matches, NOW, type Sketch, stored } from "./event-sketch.ts";
import { examine } from "./examine.ts";

const payload = (data: string): Sketch => ({ data });

test("a plain word is among an event's words when its term is among the row's terms, and a hash has the last word", () => {
  const event = { subject: "declined" };
  expect(matches("refunded", event, termsOf(stored({ subject: "refunded" }).event))).toBe(true);
  expect(matches("declined", event, [])).toBe(false);
  // What has digits, or is more than a word, is looked at too.
  expect(matches("order5", event, termsOf(stored({ subject: "order5" }).event))).toBe(false);
  expect(matches('"refunded."', event, termsOf(stored({ subject: "refunded." }).event))).toBe(false);
});

test("of an event that does not have all of its terms, the text itself decides", () => {
  const event = { subject: "Card declined" };
  for (const text of ["declined", "decl", '"rd dec"'])
    expect(matches(text, event, [INCOMPLETE_TERM])).toBe(true);
  expect(matches("refunded", event, [INCOMPLETE_TERM])).toBe(false);
});

test("a payload is decoded once, however many filters look at it, and not at all where none has to", () => {
  let decoded = 0;
  const event = stored(payload('{"a":1,"s":"declined"}'));
  const data = event.event.data!;
  Object.defineProperty(data, "bytes", {
    get: () => {
      decoded += 1;
      return encodeUtf8('{"a":1,"s":"declined"}');
    },
  });
  const examined = examine(event, termsOf(stored(payload('{"s":"declined"}')).event));
  decoded = 0;
  const ask = (text: string): boolean => createEvaluator(filterOf(text))(examined, NOW);
  expect(ask("data.a = 1 type = other")).toBe(false);
  expect(ask("declined")).toBe(true);
  expect(decoded).toBe(0);
  for (const text of ["data.a = 1", "data.s = declined", '"declined"', '"declined" OR data.a > 5'])
    expect(ask(text)).toBe(true);
  expect(decoded).toBe(1);
});

test("whatever the payload's numbers, they are compared as whole numbers of the last decimal place", () => {
  const number = fc.tuple(
    fc.oneof(
      fc.bigInt({ min: -20n, max: 20n }),
      fc.bigInt({ min: 10n ** 15n - 3n, max: 10n ** 15n + 3n }),
      fc.bigInt({ min: 2n ** 53n - 2n, max: 2n ** 53n + 2n }),
    ),
    fc.integer({ min: 0, max: 20 }),
  );
  fc.assert(
    fc.property(number, number, ([a, scaleA], [b, scaleB]) => {
      const [left, right] = [a * 10n ** BigInt(20 - scaleA), b * 10n ** BigInt(20 - scaleB)];
      const event = payload(`{"n":${a}e-${scaleA}}`);
      expect(matches(`data.n < ${b}e-${scaleB}`, event)).toBe(left < right);
      expect(matches(`data.n = ${b}e-${scaleB}`, event)).toBe(left === right);
      expect(matches(`data.n >= ${b}e-${scaleB}`, event)).toBe(left >= right);
    }),
    { numRuns: 2_000 },
  );
});

test("a large payload takes time in proportion to its size, whatever is asked", () => {
  const filters = [
    '"aaaaaaaaab"',
    "data[*][*] = 1",
    'data[*] = "*a*b*a*b*"',
    "data[*] = 12345678901234567890",
    "data[*][*][*][*][*][*][*][*]:*",
  ];
  for (const [open, unit, close] of [
    ['["', "a", '"]'],
    ["[", '"aaaaaaaa",', "1]"],
    ["[", "12345678901234567890,", "1]"],
    ["[", "[[[[[[[[1]]]]]]]],", "1]"],
  ] as const) {
    const event = payload(open + unit.repeat(1_000_000 / unit.length) + close);
    for (const text of filters) {
      const began = Date.now();
      matches(text, event, [INCOMPLETE_TERM]);
      expect(Date.now() - began).toBeLessThan(5_000);
    }
  }
});
