import fc from "fast-check";
import { expect, test } from "vitest";
import { createLanes } from "./lanes.ts";

interface Item {
  readonly key: string;
  readonly bytes: number;
  readonly number: number;
}

const limits = { events: 4, bytes: 100 };

test("fills a batch from the lanes in turn, within the limits", () => {
  const lanes = createLanes<Item>();
  for (const [number, key] of ["a", "a", "b", "a", "c", "c"].entries()) lanes.add({ key, bytes: 10, number });
  expect(lanes.open).toEqual({ events: 6, bytes: 60 });
  expect(lanes.take(limits).map(({ number }) => number)).toEqual([0, 1, 3, 2]);
  expect(lanes.open).toEqual({ events: 2, bytes: 20 });
  expect(lanes.take({ events: 4, bytes: 15 }).map(({ number }) => number)).toEqual([4]);
  expect(lanes.take(limits)).toEqual([]);
});

test("lets a larger item pass alone", () => {
  const lanes = createLanes<Item>();
  for (const [number, bytes] of [10, 500, 10].entries()) lanes.add({ key: "a", bytes, number });
  const sizes: number[] = [];
  for (let batch = lanes.take(limits); batch.length > 0; batch = lanes.take(limits)) {
    sizes.push(batch.length);
    lanes.reopen(["a"]);
  }
  expect(sizes).toEqual([1, 1, 1]);
});

test("holds back what comes after something that is put back", () => {
  const lanes = createLanes<Item>();
  const items = [0, 1, 2, 3].map((number) => ({ key: "a", bytes: 1, number }));
  for (const item of items.slice(0, 3)) lanes.add(item);
  lanes.take(limits);
  lanes.add(items[3]!);
  lanes.putBack(items.slice(1, 3));
  expect(lanes.open.events).toBe(0);
  expect(lanes.take(limits)).toEqual([]);
  lanes.reopen(["a", "never seen"]);
  expect(lanes.take(limits)).toEqual(items.slice(1));
});

test("loses one of many in a time that does not grow with them", () => {
  const lanes = createLanes<Item>();
  const items = Array.from({ length: 200_000 }, (_, number) => ({ key: "a", bytes: 1, number }));
  for (const item of items) lanes.add(item);
  const started = performance.now();
  for (const item of items.toReversed()) if (item.number > 0) lanes.withdraw(item);
  expect(performance.now() - started).toBeLessThan(3_000);
  expect(lanes.take(limits)).toEqual([items[0]]);
});

/** Puts items in and takes them out by a list of steps, and lets each taken batch come back partly refused. */
function play(steps: readonly { readonly add: string; readonly act: number }[]): {
  readonly done: readonly Item[];
  readonly withdrawn: ReadonlySet<Item>;
  readonly added: readonly Item[];
} {
  const lanes = createLanes<Item>();
  const [added, done, withdrawn] = [[] as Item[], [] as Item[], new Set<Item>()];
  const underWay: Item[][] = [];
  const busy = (): string[] => underWay.flat().map(({ key }) => key);
  const conclude = (refused: number): void => {
    const batch = underWay.shift() ?? [];
    const settled = batch.slice(0, Math.max(0, batch.length - refused));
    done.push(...settled);
    lanes.putBack(batch.slice(settled.length));
    lanes.reopen(batch.map(({ key }) => key));
  };
  const take = (): void => {
    const batch = lanes.take(limits);
    expect(batch.length).toBeLessThanOrEqual(limits.events);
    for (const { key } of batch) expect(busy()).not.toContain(key);
    if (batch.length > 0) underWay.push(batch);
  };
  for (const { add, act } of steps) {
    const item = { key: add, bytes: (act * 7) % 60, number: added.length };
    added.push(item);
    lanes.add(item);
    if (act % 4 === 0) take();
    if (act % 5 === 0) conclude(act % 3);
    const victim = added[act % added.length]!;
    if (act % 11 === 0 && !done.includes(victim) && !underWay.flat().includes(victim)) {
      lanes.withdraw(victim);
      withdrawn.add(victim);
    }
  }
  for (
    let rounds = 0;
    rounds < 10 * steps.length && (lanes.open.events > 0 || underWay.length > 0);
    rounds++
  ) {
    take();
    conclude(0);
  }
  expect(lanes.open).toEqual({ events: 0, bytes: 0 });
  return { done, withdrawn, added };
}

test("gives out everything once, in the order of its key, whatever comes between", () => {
  const step = fc.record({ add: fc.constantFrom("a", "b", "c", "d"), act: fc.nat(60) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const { done, withdrawn, added } = play(steps);
      for (const key of ["a", "b", "c", "d"]) {
        const wanted = added.filter((item) => item.key === key && !withdrawn.has(item));
        expect(done.filter((item) => item.key === key)).toEqual(wanted);
      }
    }),
  );
});
