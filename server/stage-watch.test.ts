import { describe, expect, test } from "vitest";

import { type LogOffsets } from "#core/tail-cursor.ts";
import { type Follower } from "#postgres/progress.ts";
import { createStageWatch, type Place } from "./stage-watch.ts";

/** A watch whose progress is the test's, with everything that it asked for. */
function openWatch(judge: (places: readonly Place[]) => Promise<readonly (string | undefined)[]> = stored) {
  const followers = new Set<Follower>();
  const asked: (readonly Place[])[] = [];
  const stop = new AbortController();
  const watch = createStageWatch<string>({
    progress: {
      follow(follower) {
        followers.add(follower);
        return { [Symbol.dispose]: () => void followers.delete(follower) };
      },
    },
    judge(places) {
      asked.push(places);
      return judge(places);
    },
    capacity: 1_500,
    telemetry: { record: () => undefined },
    stopping: stop.signal,
  });
  return {
    watch,
    followers,
    asked,
    stop,
    pass: (passed: LogOffsets): void => followers.forEach((follower) => follower(passed)),
  };
}

const stored = (places: readonly Place[]): Promise<string[]> => Promise.resolve(places.map(() => "stored"));
const place = (offset: number, partition = 0): Place => ({ partition, offset: BigInt(offset) });
const { signal } = new AbortController();
const LONG = { timeoutMs: 60_000, signal };

describe("a watched stage", () => {
  test("judges all that it passed at once, whoever waits, and leaves the rest waiting", async () => {
    const { watch, asked, pass } = openWatch();
    const waits = [0, 1, 2, 3].map((offset) => watch.wait([place(offset), place(offset, 1)], LONG));
    const single = watch.wait([place(7)], LONG);
    expect(watch.waiting).toBe(9);
    pass(new Map([[0, 4n]]));
    pass(
      new Map([
        [0, 7n],
        [1, 4n],
      ]),
    );
    await expect.poll(() => asked).toHaveLength(1);
    expect(asked[0]).toMatchObject([place(0), place(1), place(2), place(3)]);
    pass(
      new Map([
        [0, 7n],
        [1, 4n],
      ]),
    );
    expect(await Promise.all(waits)).toEqual(Array(4).fill(["stored", "stored"]));
    expect(asked).toHaveLength(2);
    expect(watch.waiting).toBe(1);
    pass(new Map([[0, 8n]]));
    expect(await single).toEqual(["stored"]);
  });

  test("is not followed while nobody waits", async () => {
    const { watch, followers, pass } = openWatch();
    expect(followers.size).toBe(0);
    const wait = watch.wait([place(0)], LONG);
    expect(followers.size).toBe(1);
    pass(new Map([[0, 1n]]));
    await wait;
    expect(followers.size).toBe(0);
  });

  test("says at the deadline what it has, and never waits for more than it may", async () => {
    const { watch, followers, pass } = openWatch();
    const wait = watch.wait([place(0), place(5)], { timeoutMs: 50, signal });
    pass(new Map([[0, 1n]]));
    expect(await wait).toEqual(["stored", undefined]);
    expect([watch.waiting, followers.size]).toEqual([0, 0]);
    const many = Array.from({ length: 1_501 }, (_, offset) => place(offset));
    expect(await watch.wait(many, LONG)).toEqual(many.map(() => undefined));
  });

  test("judges many in portions", async () => {
    const { watch, asked, pass } = openWatch();
    const wait = watch.wait(
      Array.from({ length: 1_500 }, (_, offset) => place(offset)),
      LONG,
    );
    pass(new Map([[0, 1_500n]]));
    expect(await wait).toHaveLength(1_500);
    expect(asked.map(({ length }) => length)).toEqual([1_000, 500]);
  });

  test("asks again where it could not be told, and then answers", async () => {
    let isAway = true;
    const { watch, asked, pass } = openWatch((places) =>
      isAway ? Promise.reject(new Error("away")) : stored(places),
    );
    const wait = watch.wait([place(0)], LONG);
    pass(new Map([[0, 1n]]));
    await expect.poll(() => asked).toHaveLength(1);
    await Promise.resolve();
    isAway = false;
    await expect
      .poll(() => {
        pass(new Map([[0, 1n]]));
        return watch.waiting;
      })
      .toBe(0);
    expect(await wait).toEqual(["stored"]);
  });

  test.each(["client", "server"] as const)("ends with its %s", async (which) => {
    const { watch, stop } = openWatch();
    const client = new AbortController();
    const wait = watch.wait([place(0)], { ...LONG, signal: client.signal });
    (which === "client" ? client : stop).abort();
    expect(await wait).toEqual([undefined]);
    expect(watch.waiting).toBe(0);
  });
});
