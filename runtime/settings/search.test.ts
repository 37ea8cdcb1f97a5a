import { expect, it } from "vitest";

import { ConfigError, loadConfig } from "../config.ts";

it("reads which extensions have a facet: names, each once, eight of them at most", () => {
  const read = (names: string): unknown =>
    loadConfig(["search"], { WEIR_SEARCH_FACET_EXTENSIONS: names }).search.facetExtensions;
  expect(read("tenant, region,,tenant")).toEqual(["tenant", "region"]);
  expect(read("a,b,c,d,e,f,g,h")).toHaveLength(8);
  expect(read("")).toEqual([]);
  for (const bad of ["a,b,c,d,e,f,g,h,i", "Tenant", "a-b", "ä", "a b", "a".repeat(41)]) {
    expect(() => read(bad)).toThrow(ConfigError);
    expect(() => read(bad)).toThrow(/WEIR_SEARCH_FACET_EXTENSIONS/);
  }
});
