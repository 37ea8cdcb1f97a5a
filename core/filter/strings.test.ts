import fc from "fast-check";
import { expect, test } from "vitest";

import { encodeUtf8 } from "../utf8.ts";
import { compareStrings, createFinder, createGlob } from "./strings.ts";

const text = fc.oneof(
  fc.string({ unit: "binary", maxLength: 6 }),
  fc.string({ unit: fc.constantFrom("a", "b", "é", "\uffff", "😀", "\u{10000}", "\ud7ff"), maxLength: 6 }),
);

function byteOrder(a: string, b: string): number {
  const [left, right] = [encodeUtf8(a), encodeUtf8(b)];
  for (let at = 0; at < Math.min(left.length, right.length); at += 1)
    if (left[at] !== right[at]) return left[at]! - right[at]!;
  return left.length - right.length;
}

test("strings are in the order of their UTF-8 bytes", () => {
  fc.assert(
    fc.property(text, text, (a, b) => {
      expect(Math.sign(compareStrings(a, b))).toBe(Math.sign(byteOrder(a, b)));
    }),
    { numRuns: 5_000 },
  );
  expect(compareStrings("\uffff", "😀")).toBeLessThan(0);
});

test("the runs of a glob stand in their order, whatever is between them, and each has its own place", () => {
  const unit = fc.constantFrom("a", "b", ".");
  const run = fc.string({ unit, maxLength: 3 });
  fc.assert(
    fc.property(
      fc.string({ unit, maxLength: 12 }),
      fc.array(run, { minLength: 2, maxLength: 5 }),
      (held, runs) => {
        const expression = new RegExp(`^${runs.map((each) => each.replaceAll(".", "\\.")).join("[^]*")}$`);
        expect(createGlob(runs)(held)).toBe(expression.test(held));
      },
    ),
    { numRuns: 10_000 },
  );
});

test("a string is found where it first occurs, however long it is and however nearly the text matches before", () => {
  const unit = fc.constantFrom("a", "aaaaaaaaaaaaaaaa", "ab", "aab", "b");
  const part = fc.string({ unit, maxLength: 12 });
  const parts = fc.array(part, { maxLength: 4 }).map((each) => each.join(""));
  let found = 0;
  fc.assert(
    fc.property(parts, part, parts, fc.boolean(), (before, sought, after, isThere) => {
      const text = before + (isThere ? sought : sought.slice(0, -1)) + after;
      const from = before.length >> 1;
      const expected = text.indexOf(sought, from);
      if (sought.length > 40 && expected > from) found += 1;
      expect(createFinder(sought)(text, from)).toBe(expected);
    }),
    { numRuns: 10_000 },
  );
  expect(found).toBeGreaterThan(100);
});

test("eight times the text takes some eight times the time, whatever is looked for", () => {
  const long = "a".repeat(2_000);
  for (const runs of [
    Array.from({ length: 400 }, () => "aaaaaaaab"),
    [`b${long}`],
    [`${long}b`],
    [`${long}b${long}`],
  ]) {
    const matches = createGlob(["", ...runs, ""]);
    const timed = (length: number): number => {
      const held = "a".repeat(length);
      const began = Date.now();
      for (let round = 0; round < 5; round += 1) expect(matches(held)).toBe(false);
      return Date.now() - began;
    };
    timed(100_000);
    const once = timed(100_000);
    expect(once).toBeLessThan(200);
    expect(timed(800_000)).toBeLessThan(24 * Math.max(10, once));
  }
});
