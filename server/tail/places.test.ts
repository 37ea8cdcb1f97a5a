import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { distance, furthest, hasReached } from "./places.ts";

const places = fc
  .array(fc.tuple(fc.nat(4), fc.bigInt({ min: 0n, max: 5n })), { maxLength: 5 })
  .map((entries) => new Map(entries));
const at = (place: ReadonlyMap<number, bigint>): bigint[] =>
  [0, 1, 2, 3, 4].map((partition) => place.get(partition) ?? 0n);

describe("places on the log", () => {
  test("are compared in every partition, and the furthest of two has reached both", () => {
    fc.assert(
      fc.property(places, places, (a, b) => {
        expect(hasReached(a, b)).toBe(at(a).every((offset, partition) => offset >= at(b)[partition]!));
        expect(at(furthest(a, b))).toEqual(
          at(a).map((offset, partition) => (offset > at(b)[partition]! ? offset : at(b)[partition]!)),
        );
        // A place is never made where one of the two will do.
        expect(furthest(a, b) === b).toBe(hasReached(b, a));
        const ahead = at(b).reduce((sum, offset, partition) => {
          const behind = offset - at(a)[partition]!;
          return sum + (behind > 0n ? behind : 0n);
        }, 0n);
        expect(distance(a, b)).toBe(ahead);
      }),
    );
  });
});
