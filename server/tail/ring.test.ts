import { describe, expect, test } from "vitest";

import { createRing } from "./ring.ts";
import { type Stretch } from "./stretch.ts";

const place = (a: number, b = 0): ReadonlyMap<number, bigint> =>
  new Map([
    [0, BigInt(a)],
    [1, BigInt(b)],
  ]);
const stretch = (start: Stretch["start"], end: Stretch["end"], weight = 10): Stretch => ({
  start,
  end,
  weight,
  events: [],
  matching: () => [],
});

/** A ring of 25 that begins at 5/0, with stretches of 10. */
function fill(...ends: (readonly [number, number])[]) {
  const ring = createRing(25);
  ring.begin(place(5));
  for (const [a, b] of ends) ring.push(stretch(ring.end!, place(a, b)));
  return ring;
}

describe("the ring", () => {
  test("keeps the newest, and the very newest whatever it weighs", () => {
    const ring = fill([6, 0], [7, 0], [8, 0]);
    expect([0, 1, 2, 3].map((number) => ring.get(number)?.end)).toEqual([
      undefined,
      place(7),
      place(8),
      undefined,
    ]);
    expect([ring.weight, ring.next, ring.end]).toEqual([20, 3, place(8)]);
    ring.push(stretch(place(8), place(9), 1_000));
    expect([ring.get(2), ring.get(3)?.weight, ring.weight]).toEqual([undefined, 1_000, 1_000]);
    ring.push(stretch(place(9), place(10)));
    expect([ring.get(3), ring.weight, ring.next]).toEqual([undefined, 10, 5]);
  });

  test("knows with which stretch a place goes on without missing anything, or that it does not reach back so far", () => {
    const ring = fill([6, 0], [6, 4]);
    expect(ring.numberFor(place(4))).toBeUndefined();
    expect(ring.numberFor(place(5))).toBe(0);
    expect(ring.numberFor(place(6))).toBe(1);
    // Between the two ends, or ahead in one partition alone: from the last beginning that it has come to.
    expect(ring.numberFor(place(6, 2))).toBe(1);
    expect(ring.numberFor(place(5, 9))).toBe(0);
    expect(ring.numberFor(place(4, 9))).toBeUndefined();
    expect(ring.numberFor(place(6, 4))).toBe(2);
    expect(ring.numberFor(place(9, 9))).toBe(2);
    expect(createRing(1).numberFor(place(9))).toBeUndefined();
  });

  test("holds nothing once it is cleared, and numbers on", () => {
    const ring = fill([6, 0], [7, 0]);
    ring.clear();
    expect([ring.end, ring.weight, ring.get(1), ring.next]).toEqual([undefined, 0, undefined, 2]);
    ring.begin(place(20));
    expect([ring.numberFor(place(20)), ring.numberFor(place(7))]).toEqual([2, undefined]);
  });

  test("wakes all who wait when there is something new, each at its time, and when its signal is raised", async () => {
    const ring = fill();
    const gone = new AbortController();
    const ends: string[] = [];
    const note = (name: string, ms: number): Promise<void> =>
      ring.wait(ms, gone.signal).then(() => void ends.push(name));
    const both = [note("first", 60_000), note("second", 60_000)];
    ring.push(stretch(place(5), place(6)));
    await Promise.all(both);
    await note("timed", 10);
    const last = note("given up", 60_000);
    gone.abort();
    await last;
    await note("too late", 60_000);
    expect(ends).toEqual(["first", "second", "timed", "given up", "too late"]);
  });
});
