import fc from "fast-check";
import { expect, test } from "vitest";

import { chooseWindows, type Window, type WindowQuery } from "./search-windows.ts";
import { type MonthStatistics } from "./store-statistics.ts";

const DAY = 86_400_000_000n;
const MONTH = 30n * DAY;

/** A month of evenly spread events, the first term in a half of them, each further one in a tenth of those of the one before. */
function month(index: number, rows: number, sketch: Partial<MonthStatistics> = {}): MonthStatistics {
  const from = BigInt(index) * MONTH;
  return {
    from,
    before: from + MONTH,
    rows,
    added: 0,
    times: Array.from({ length: 101 }, (_, part) => from + (MONTH * BigInt(part)) / 100n),
    numberPaths: new Set(),
    frequencyOf: (term) => 0.5 / 10 ** term,
    ...sketch,
  };
}

const MILLION = [0, 1, 2].map((index) => month(index, 1_000_000));
const query = (sketch: Partial<WindowQuery> = {}): WindowQuery => ({
  needs: { kind: "terms", all: [0] },
  numberPaths: [],
  isNewestFirst: true,
  from: undefined,
  before: undefined,
  limit: 51,
  ...sketch,
});
const waysOf = (windows: readonly Window[]): string => windows.map(({ way }) => way).join(" ");

test("without terms it goes along the order, over all that is asked about", () => {
  const windows = chooseWindows(query({ needs: undefined, from: 5n, before: 9n }), MILLION);
  expect(windows).toEqual([{ from: 5n, before: 9n, way: "walk" }]);
});

test("what is rare is gathered at once, over all months", () => {
  const windows = chooseWindows(query({ needs: { kind: "terms", all: [6] } }), MILLION);
  expect(windows).toEqual([{ from: undefined, before: undefined, way: "gather" }]);
});

test("what is frequent is walked over", () => {
  expect(waysOf(chooseWindows(query(), MILLION))).toBe("walk");
});

test("what is walked over has an end, where it costs less to gather the rest than to walk over all of it in vain", () => {
  const windows = chooseWindows(query({ needs: { kind: "terms", all: [1] } }), MILLION);
  expect(waysOf(windows)).toBe("walk gather sift gather gather");
  expect(windows[0]!.from).toBeGreaterThan(3n * MONTH - 2n * DAY);
});

test("what is in between is gathered, in a short window first, where that costs less", () => {
  const windows = chooseWindows(query({ needs: { kind: "terms", all: [2] } }), MILLION);
  expect(waysOf(windows.slice(0, 3))).toBe("gather sift gather");
  expect(windows[0]!.from).toBeGreaterThan(2n * MONTH);
});

test("of a part of a month what is rare is sifted, as the index of the order would have to tell of each event where it is", () => {
  const ask = (term: number): string =>
    waysOf(
      chooseWindows(
        query({ needs: { kind: "terms", all: [term] }, from: MONTH, before: MONTH + 9n * DAY }),
        MILLION,
      ),
    );
  expect([6, 4, 2].map(ask)).toEqual(["sift", "sift", "gather sift"]);
});

test("without statistics it gathers", () => {
  expect(waysOf(chooseWindows(query(), []))).toBe("gather");
});

test("of a number whose path has an index, the first events are looked at, then the index", () => {
  const months = MILLION.map((each) => ({ ...each, numberPaths: new Set(["path"]) }));
  const asked = query({ needs: undefined, numberPaths: ["path"] });
  expect(waysOf(chooseWindows(asked, months)).startsWith("walk gather")).toBe(true);
  expect(waysOf(chooseWindows(asked, MILLION))).toBe("walk");
});

test("whatever the statistics say, the windows are all of the time that is asked about, once, in order", () => {
  const moment = fc.option(fc.bigInt({ min: -MONTH, max: 5n * MONTH }), { nil: undefined });
  const needs = fc.constantFrom<WindowQuery["needs"]>(
    undefined,
    ...[0, 1, 2, 3, 4, 9].map((term) => ({ kind: "terms" as const, all: [term] })),
    {
      kind: "and",
      of: [
        { kind: "terms", all: [0, 1] },
        {
          kind: "or",
          of: [
            { kind: "terms", all: [2] },
            { kind: "terms", all: [3] },
          ],
        },
      ],
    },
  );
  const asked = fc.record({
    needs,
    numberPaths: fc.constantFrom([], ["path"]),
    isNewestFirst: fc.boolean(),
    from: moment,
    before: moment,
    limit: fc.constantFrom(1, 51, 501, 10_001, 50_001),
  });
  const months = fc
    .array(
      fc.record({
        rows: fc.constantFrom(0, 10, 10_000, 3_000_000),
        added: fc.constantFrom(0, 10, 5_000),
        isKnown: fc.boolean(),
        isIndexed: fc.boolean(),
      }),
      { maxLength: 8 },
    )
    .map((sketches) =>
      sketches.map(({ rows, added, isKnown, isIndexed }, index) =>
        month(index, rows + added, {
          added,
          numberPaths: new Set(isIndexed ? ["path"] : []),
          ...(!isKnown && { times: [] }),
        }),
      ),
    );
  fc.assert(
    fc.property(asked, months, (each, statistics) => {
      const windows = chooseWindows(each, statistics);
      const oldestFirst = each.isNewestFirst ? windows.toReversed() : windows;
      expect(oldestFirst[0]!.from).toBe(each.from);
      expect(oldestFirst.at(-1)!.before).toBe(each.before);
      for (const [index, { from }] of oldestFirst.entries())
        expect(index === 0 || from === oldestFirst[index - 1]!.before).toBe(true);
      expect(windows.length).toBeLessThanOrEqual(7);
    }),
    { numRuns: 2_000 },
  );
});
