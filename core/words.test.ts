import fc from "fast-check";
import { expect, test } from "vitest";

import { WORD_LENGTH, wordsOf } from "./words.ts";

test.each<readonly [string, readonly string[]]>([
  ["", []],
  ["…—\n\t", []],
  ["Card DECLINED, card", ["card", "declined", "card"]],
  ["com.acme.order_created-v1", ["com", "acme", "order", "created", "v1"]],
  ["/acme/shops/17?x=y", ["acme", "shops", "17", "x", "y"]],
  ["don't", ["don", "t"]],
  ["2026-11-30T10:00Z", ["2026", "11", "30t10", "00z"]],
  ["id 3F2504E0-4F89-11D3-9A0C-0305E82C3301, 5-6", ["id", "3f2504e0-4f89-11d3-9a0c-0305e82c3301", "5", "6"]],
  ["3f2504e0-4f89-11d3-9a0c-0305e82c33011", ["3f2504e0", "4f89", "11d3", "9a0c", "0305e82c33011"]],
  ["x3f2504e0-4f89-11d3-9a0c-0305e82c3301", ["x3f2504e0", "4f89", "11d3", "9a0c", "0305e82c3301"]],
  ["3f2504e0-4f89-11d3-9a0c-0305e82c3301é", ["3f2504e0", "4f89", "11d3", "9a0c", "0305e82c3301é"]],
  ["é 3f2504e0-4f89-11d3-9a0c-0305e82c3301-x", ["é", "3f2504e0-4f89-11d3-9a0c-0305e82c3301", "x"]],
  ["Ärger im CAFÉ", ["ärger", "im", "café"]],
  ["ΣΊΣΥΦΟΣ", ["σίσυφος"]],
  ["東京タワー 高さ", ["東京タワー", "高さ"]],
  ["٣٤ a\0b \ud800c", ["٣٤", "a", "b", "c"]],
  ["x".repeat(200), ["x".repeat(WORD_LENGTH)]],
])("the words of %j", (text, words) => {
  expect(wordsOf(text)).toEqual(words);
});

test("what stands around a text changes none of its words, and ASCII is read as any other text is", () => {
  const text = fc.oneof(
    fc.string({ unit: "binary", maxLength: 80 }),
    fc.string({ unit: fc.constantFrom("a", "B", "9", "-", "_", " ", ".", "é", "0"), maxLength: 120 }),
    fc.uuid(),
  );
  fc.assert(
    fc.property(fc.array(text, { maxLength: 5 }), (texts) => {
      const words = texts.flatMap(wordsOf);
      expect(wordsOf(texts.join(" "))).toEqual(words);
      // A sign beyond ASCII that is no letter takes the other way through.
      expect(wordsOf(`… ${texts.join(" ")}`)).toEqual(words);
    }),
    { numRuns: 2_000 },
  );
});

test("hostile texts take time in proportion to their length", () => {
  const uuid = "3f2504e0-4f89-11d3-9a0c-0305e82c3301";
  for (const unit of ["a", "a ", "é", "0-", "00000000-0000-", uuid, `${uuid}-`, "\ud800"]) {
    const began = Date.now();
    wordsOf(unit.repeat(Math.ceil(1_000_000 / unit.length)));
    expect(Date.now() - began).toBeLessThan(5_000);
  }
});
