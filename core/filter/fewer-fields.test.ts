import { describe, expect, test } from "vitest";
import { parseFilter } from "./parse.ts";

const ONLY = ["id", "type", "time", "offset"];

describe("a filter where not all fields are there", () => {
  test("asks about those that are", () => {
    for (const text of ['id = "1" OR type = "a.*"', "time >= now-1h offset > 5", "-type:*", ""]) {
      expect(parseFilter(text, ONLY)).toEqual(parseFilter(text));
    }
  });

  test("is told each of the others by its name and its place, and that there is no full text", () => {
    const text = 'type = "a" subject = "b" OR data.x > 5 ext.tenant:* -tags:eu word "a phrase" tipe = "c"';
    const parsed = parseFilter(text, ONLY);
    const faults = parsed.ok ? [] : parsed.faults;
    expect(
      faults.map(({ reason, metadata }) => [reason, text.slice(Number(metadata?.["position"]))[0]]),
    ).toEqual([
      ["INVALID_FILTER", "s"],
      ["INVALID_FILTER", "d"],
      ["INVALID_FILTER", "e"],
      ["INVALID_FILTER", "t"],
      ["INVALID_FILTER", "w"],
      ["INVALID_FILTER", '"'],
      ["INVALID_FILTER", "t"],
    ]);
    expect(faults.map(({ description }) => description)).toEqual([
      "At 11: The field subject cannot be asked about here; there are id, type, time, offset.",
      expect.stringMatching(/^At 28: The field data /),
      expect.stringMatching(/^At 39: The field ext /),
      expect.stringMatching(/^At 53: The field tags /),
      "At 61: Full text cannot be looked for here.",
      "At 66: Full text cannot be looked for here.",
      'At 77: There is no field "tipe". Did you mean type?',
    ]);
  });
});
