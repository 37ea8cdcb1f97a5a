import { describe, expect, test } from "vitest";
import { createTurns } from "./turns.ts";

const never = new AbortController().signal;

async function take(turns: ReturnType<typeof createTurns>): Promise<Disposable> {
  const turn = await turns.take(never);
  if (turn === undefined) throw new Error("There was no turn.");
  return turn;
}

describe("turns", () => {
  test("run at once up to the bound, then one after the other in the order of asking", async () => {
    const turns = createTurns({ concurrency: 2, queue: 2, waitMs: 10_000 });
    const [first, second] = [await take(turns), await take(turns)];
    const order: string[] = [];
    const third = take(turns).then((turn) => (order.push("third"), turn));
    const fourth = take(turns).then((turn) => (order.push("fourth"), turn));
    expect(turns.waiting).toBe(2);

    first[Symbol.dispose]();
    first[Symbol.dispose](); // a second time frees nothing
    const held = await third;
    expect(order).toEqual(["third"]);
    expect(turns.waiting).toBe(1);

    second[Symbol.dispose]();
    (await fourth)[Symbol.dispose]();
    held[Symbol.dispose]();
    const again = [await take(turns), await take(turns)];
    expect(again).toHaveLength(2);
    expect(turns.waiting).toBe(0);
  });

  test("come later where that was said, however early they were asked for", async () => {
    const turns = createTurns({ concurrency: 1, queue: 3, waitMs: 10_000 });
    const held = await take(turns);
    const order: string[] = [];
    const run = async (name: string, urgency: "soon" | "later"): Promise<void> => {
      using turn = await turns.take(never, urgency);
      order.push(turn === undefined ? "none" : name);
    };
    const asked = [run("summary", "later"), run("page", "soon"), run("further page", "soon")];
    expect(turns.waiting).toBe(3);
    held[Symbol.dispose]();
    await Promise.all(asked);
    expect(order).toEqual(["page", "further page", "summary"]);
  });

  test("that may come later make room in a full queue for one that may not, the last of them first", async () => {
    const turns = createTurns({ concurrency: 1, queue: 2, waitMs: 10_000 });
    const held = await take(turns);
    const [first, second] = [turns.take(never, "later"), turns.take(never, "later")];
    expect(await turns.take(never, "later")).toBeUndefined();
    const page = turns.take(never);
    expect(await second).toBeUndefined();
    held[Symbol.dispose]();
    (await page)![Symbol.dispose]();
    expect(await first).toBeDefined();
  });

  test("are refused at once where the queue is full", async () => {
    const turns = createTurns({ concurrency: 1, queue: 1, waitMs: 10_000 });
    const held = await take(turns);
    const waiting = take(turns);
    expect(await turns.take(never)).toBeUndefined();
    held[Symbol.dispose]();
    expect(await waiting).toBeDefined();
  });

  test("are refused after the wait, and the place in the queue is free again", async () => {
    const turns = createTurns({ concurrency: 1, queue: 1, waitMs: 20 });
    const held = await take(turns);
    expect(await turns.take(never)).toBeUndefined();
    expect(turns.waiting).toBe(0);
    held[Symbol.dispose]();
    expect(await turns.take(never)).toBeDefined();
  });

  test("are given up by the signal, before the wait and during it", async () => {
    const turns = createTurns({ concurrency: 1, queue: 1, waitMs: 10_000 });
    const held = await take(turns);
    const gone = new AbortController();
    const waiting = turns.take(gone.signal);
    gone.abort(new Error("gone"));
    await expect(waiting).rejects.toThrow("gone");
    await expect(turns.take(gone.signal)).rejects.toThrow("gone");
    expect(turns.waiting).toBe(0);
    held[Symbol.dispose]();
    expect(await turns.take(never)).toBeDefined();
  });
});
