import fc from "fast-check";
import { expect, test } from "vitest";

import { compareDecimals, decimalOf, plainLength, toPlain } from "./decimal.ts";

const read = (text: string) => {
  const decimal = decimalOf(text);
  if (decimal === undefined) throw new Error(`${text} is no number`);
  return decimal;
};

test.each([
  ["0", "0"],
  ["-0", "0"],
  ["-0.00e7", "0"],
  ["007".slice(2), "7"],
  ["1.50", "1.5"],
  ["-1.25e1", "-12.5"],
  ["12000e-2", "120"],
  ["1e3", "1000"],
  ["0.00120E2", "0.12"],
  ["1E-3", "0.001"],
  ["12345678901234567890.123456789", "12345678901234567890.123456789"],
])("%s is %s in plain notation", (text, plain) => {
  expect(toPlain(read(text))).toBe(plain);
  expect(plainLength(read(text))).toBe(plain.replace(/^-?(?:0\.)?/, "").replace(".", "").length);
});

test.each(["", "-", "+1", "01", "1.", ".5", "1e", "0x10", "1_000", " 1", "1 ", "NaN", "Infinity", "١"])(
  "%j is no number",
  (text) => {
    expect(decimalOf(text)).toBeUndefined();
  },
);

/** A number as a fraction of whole numbers, and one of the ways to write it. */
const number = fc
  .record({
    unscaled: fc.oneof(
      fc.bigInt({ min: -999n, max: 999n }),
      fc.bigInt({ min: -(10n ** 40n), max: 10n ** 40n }),
    ),
    scale: fc.integer({ min: 0, max: 12 }),
    shift: fc.integer({ min: -9, max: 9 }),
  })
  .map(({ unscaled, scale, shift }) => {
    const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(scale + 1, "0");
    const cut = digits.length - scale;
    const fraction = scale === 0 ? "" : `.${digits.slice(cut)}`;
    const text = `${unscaled < 0n ? "-" : ""}${digits.slice(0, cut)}${fraction}${shift === 0 ? "" : `e${shift}`}`;
    return { text, scaled: unscaled * 10n ** BigInt(21 - scale + shift) };
  });

test("numbers are in the order of their values, however they are written", () => {
  fc.assert(
    fc.property(number, number, (a, b) => {
      const order = a.scaled < b.scaled ? -1 : a.scaled > b.scaled ? 1 : 0;
      expect(Math.sign(compareDecimals(read(a.text), read(b.text)))).toBe(order);
      expect(compareDecimals(read(toPlain(read(a.text))), read(a.text))).toBe(0);
    }),
    { numRuns: 5_000 },
  );
});
