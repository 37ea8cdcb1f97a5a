import { type Filter } from "./tree.ts";

/** What it takes to look at an event: its attributes, its payload, all of its texts. */
export type Cost = 0 | 1 | 2;

/** The cost of the dearest condition of a filter. */
export function costOf(filter: Filter): Cost {
  switch (filter.kind) {
    case "and":
    case "or":
      return filter.of.map(costOf).reduce((a, b) => (a > b ? a : b));
    case "not":
      return costOf(filter.of);
    case "text":
      return 2;
    default:
      return filter.field.kind === "data" ? 1 : 0;
  }
}

/** Those first that may spare looking at more; in their order where they cost the same. */
export function cheapestFirst(filters: readonly Filter[]): readonly Filter[] {
  return filters.toSorted((a, b) => costOf(a) - costOf(b));
}
