import { Code, ConnectError } from "@connectrpc/connect";
import fc from "fast-check";
import { afterEach, describe, expect, test, vi } from "vitest";
import {
  accept,
  type Answer,
  event,
  failure,
  failureWithRetry,
  INVALID,
  numbers,
  outcome,
  outcomes,
  rig,
  status,
  UNAVAILABLE,
  UNKNOWN,
  type Verdict,
} from "./publisher-rig.ts";

afterEach(() => vi.useRealTimers());

describe("a publisher repeats", () => {
  test("the events that may pass later, and those of their key behind them, but no others", async () => {
    let isDown = true;
    const { publisher, log, calls } = rig((ids) =>
      ids.map((id) => (id.startsWith("a") && id !== "a0" && isDown ? UNAVAILABLE : "receipt")),
    );
    const publish = (id: string): Promise<string> =>
      outcome(publisher.publish(event(id, { subject: id[0]! })));
    const first = ["a0", "b0", "a1", "a2", "b1"].map(publish);
    await expect.poll(() => log).toEqual(["a0", "b0", "b1"]);
    const second = ["a3", "b2"].map(publish);
    await expect.poll(() => log).toContain("b2");
    // A repeat of the first that wait may take it along, but it never goes ahead of them.
    expect(calls.filter((ids) => ids.includes("a3") && !ids.includes("a1"))).toEqual([]);
    isDown = false;
    await Promise.all([...first, ...second]);
    expect(log.filter((id) => id.startsWith("a"))).toEqual(["a0", "a1", "a2", "a3"]);
  });

  test.each([
    ["of Weir with a delay", failureWithRetry()],
    ["of Weir's deadline", failure(Code.DeadlineExceeded, "DEADLINE_EXCEEDED")],
    ["of a proxy", new ConnectError("bad gateway", Code.Unavailable)],
    ["of the network", new TypeError("fetch failed")],
  ])("a whole call after an answer %s", async (_, error) => {
    const { publisher, calls, log } = rig((ids, call) => {
      if (call === 1) throw error;
      return accept(ids, call);
    });
    expect(await outcomes(numbers(3).map((id) => publisher.publish(event(id))))).toEqual(["0", "1", "2"]);
    expect(calls).toHaveLength(2);
    expect(log).toEqual(["0", "1", "2"]);
  });

  test.each([
    ["its faults", INVALID, "refused INVALID_ATTRIBUTES"],
    ["its time", status(Code.OutOfRange, "TIME_OUT_OF_WINDOW"), "refused TIME_OUT_OF_WINDOW"],
    [
      "what an operator must cure",
      status(Code.Unavailable, "PRODUCER_UNAVAILABLE"),
      "refused PRODUCER_UNAVAILABLE",
    ],
    ["a fault of the server", status(Code.Internal, "INTERNAL"), "unknown INTERNAL"],
  ])("nothing that is refused for %s, and goes on with its key", async (_, verdict, expected) => {
    const { publisher, calls, log } = rig((ids) => ids.map((id) => (id === "1" ? verdict : "receipt")));
    const receipts = numbers(3).map((id) => publisher.publish(event(id)));
    expect(await outcomes(receipts)).toEqual(["0", expected, "2"]);
    expect(calls).toHaveLength(1);
    expect(log).toEqual(["0", "2"]);
  });

  test.each([Code.Unauthenticated, Code.PermissionDenied, Code.Unimplemented])(
    "no call that is refused with code %i",
    async (code) => {
      const { publisher, calls } = rig(() => {
        throw failure(code, "SCOPE_MISSING");
      });
      expect(await outcome(publisher.publish(event(1)))).toBe("refused SCOPE_MISSING");
      expect(calls).toHaveLength(1);
    },
  );

  test("a call whose token has expired, where each call has a token of its own", async () => {
    const expired = failure(Code.Unauthenticated, "TOKEN_EXPIRED");
    const answer: Answer = (ids, call) => {
      if (call < 3) throw expired;
      return accept(ids, call);
    };
    const fresh = rig(answer, {}, true);
    expect(await outcomes(numbers(3).map((id) => fresh.publisher.publish(event(id))))).toEqual([
      "0",
      "1",
      "2",
    ]);
    const fixed = rig(answer, {}, false);
    expect(await outcome(fixed.publisher.publish(event(1)))).toBe("refused TOKEN_EXPIRED");
    expect(fixed.calls).toHaveLength(1);
  });

  test("later and later, never sooner than the server asks for, and with one call at a time", async () => {
    vi.useFakeTimers();
    const times: number[] = [];
    const { publisher } = rig(
      () => {
        times.push(Date.now());
        throw failureWithRetry(1_000);
      },
      { batchEvents: 1, timeoutMs: 30_000 },
    );
    const receipts = numbers(10).map((id) => publisher.publish(event(id, { subject: String(id) })));
    const settled = outcomes(receipts);
    await vi.advanceTimersByTimeAsync(31_000);
    expect(await settled).toEqual(numbers(10).map(() => "refused PRODUCER_UNAVAILABLE"));
    // Four at first, then one after each pause of a second and more.
    const pauses = times.slice(4).map((time, index) => time - times[index + 3]!);
    expect(Math.min(...pauses)).toBeGreaterThanOrEqual(1_000);
    expect(times.length).toBeLessThanOrEqual(4 + 30);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(6_000);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("keeps the order of every key, and each receipt to its event, whatever is answered", async () => {
    vi.useFakeTimers();
    const verdict = fc.constantFrom<Verdict | "call">(
      "receipt",
      "receipt",
      UNAVAILABLE,
      UNKNOWN,
      INVALID,
      "call",
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(3), { maxLength: 60 }),
        fc.array(verdict, { maxLength: 80 }),
        async (keys, script) => {
          const answers = [...script];
          const { publisher, log } = rig(
            (ids) => {
              // As the server does: a key goes no further in this batch once one of it could not be taken.
              const held = new Set<string>();
              const verdicts = ids.map((id): Verdict => {
                const next = answers.shift() ?? "receipt";
                if (next === "call") throw failureWithRetry();
                const key = id.split(":")[0]!;
                if (held.has(key)) return UNAVAILABLE;
                if (next === UNAVAILABLE || next === UNKNOWN) held.add(key);
                return next;
              });
              return verdicts;
            },
            { batchEvents: 5 },
          );
          const receipts = keys.map((key, index) =>
            outcome(publisher.publish(event(`${key}:${index}`, { extensions: { partitionkey: `k${key}` } }))),
          );
          const closing = publisher.close();
          await vi.advanceTimersByTimeAsync(120_000);
          await closing;
          const results = await Promise.all(receipts);
          for (const [index, key] of keys.entries()) {
            expect([`${key}:${index}`, "refused INVALID_ATTRIBUTES", "unknown INVALID_ATTRIBUTES"]).toContain(
              results[index],
            );
          }
          for (const key of numbers(4)) {
            const ofKey = log.filter((id) => id.startsWith(`${key}:`));
            expect(ofKey).toEqual(ofKey.toSorted((a, b) => Number(a.slice(2)) - Number(b.slice(2))));
          }
          expect(new Set(log).size).toBe(log.length);
          expect(publisher.buffered).toEqual({ events: 0, bytes: 0 });
        },
      ),
      { numRuns: 200 },
    );
  });
});
