import { expect, it } from "vitest";

import { ConfigError, loadConfig } from "../config.ts";

const read = (paths: string): unknown =>
  loadConfig(["maintenance"], { WEIR_SEARCH_NUMBER_PATHS: paths }).maintenance.numberPaths;

it("reads which paths of payloads have an index of their numbers, as filters have them, each once", () => {
  expect(read('data.amount, data.lines[0]."unit price",,data.amount')).toEqual([
    ["amount"],
    ["lines", 0, "unit price"],
  ]);
  expect(read("")).toEqual([]);
});

it.each([
  "amount",
  "data",
  "data.lines[*].price",
  "data.a data.b",
  "type",
  "data.a OR data.b",
  "data.a.",
  "1",
])("refuses %s, which is no path to one place of a payload", (bad) => {
  expect(() => read(bad)).toThrow(ConfigError);
  expect(() => read(bad)).toThrow(/WEIR_SEARCH_NUMBER_PATHS.*such as data\.amount/);
});

it("takes eight paths at most", () => {
  const paths = Array.from({ length: 9 }, (_, index) => `data.n${index}`);
  expect(read(paths.slice(1).join(","))).toHaveLength(8);
  expect(() => read(paths.join(","))).toThrow(/8 paths at most/);
});
