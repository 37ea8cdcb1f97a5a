import { expect, test } from "vitest";

import { cutText } from "./record-values.ts";

test("a text within the bound stays, and a longer one is cut at a character and is longer than the bound", () => {
  expect(cutText("é".repeat(5), 10)).toBe("é".repeat(5));
  expect(cutText("é".repeat(6), 11)).toBe(`${"é".repeat(5)}…`);
  expect(cutText("😀".repeat(3), 11)).toBe("😀😀…");
  expect(Buffer.byteLength(cutText("a".repeat(1_000_000), 512))).toBe(515);
});
