import { create } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { afterEach, describe, expect, test, vi } from "vitest";
import { CloudEventSchema } from "./gen/io/cloudevents/v1/cloudevents_pb.ts";
import { type PublishError } from "./publish-error.ts";
import {
  accept,
  event,
  failure,
  INVALID,
  numbers,
  outcome,
  outcomes,
  rig,
  type Rig,
  UNAVAILABLE,
  UNKNOWN,
  type Verdict,
} from "./publisher-rig.ts";
import { type Publisher, type PublisherOptions } from "./publisher.ts";

afterEach(() => vi.useRealTimers());

describe("gathers", () => {
  test("what is published within the linger into one call, whole and in order", async () => {
    const { publisher, calls } = rig(accept);
    const receipts = numbers(100).map((id) => publisher.publish(event(id, { subject: String(id % 7) })));
    expect(await outcomes(receipts)).toEqual(numbers(100).map(String));
    expect(calls).toHaveLength(1);
    expect(publisher.buffered).toEqual({ events: 0, bytes: 0 });
  });

  test("up to the number and the bytes of a batch, without waiting for the linger", async () => {
    const { publisher, calls } = rig(accept, { lingerMs: 60_000, batchEvents: 10, batchBytes: 1_000 });
    const small = numbers(10).map((id) => publisher.publish(event(id, { subject: String(id) })));
    await outcomes(small);
    const large = ["a", "b"].map((id) =>
      publisher.publish(event(id, { subject: id, data: "x".repeat(900) })),
    );
    await outcomes(large);
    expect(calls).toEqual([numbers(10).map(String), ["a"], ["b"]]);
  });

  test("at once what is flushed, and sends while it waits for answers", async () => {
    const { publisher, calls } = rig(accept, { lingerMs: 60_000 });
    const receipt = publisher.publish(event(1));
    await publisher.flush();
    expect(await outcome(receipt)).toBe("1");
    expect(calls).toEqual([["1"]]);
  });

  test("into smaller calls where the server says that it takes no more", async () => {
    const sizes: number[] = [];
    const { publisher, log } = rig((ids) => {
      sizes.push(ids.length);
      if (ids.length > 30)
        throw failure(Code.InvalidArgument, "TOO_LARGE", {
          limit: "30",
          actual: String(ids.length),
          unit: "events",
        });
      return accept(ids, 0);
    });
    const receipts = numbers(100).map((id) => publisher.publish(event(id)));
    expect(await outcomes(receipts)).toEqual(numbers(100).map(String));
    expect(log).toEqual(numbers(100).map(String));
    expect(sizes).toEqual([100, 50, 25, 25, 25, 25]);
  });

  test("by bytes where the whole message is too large, down to the one event that is", async () => {
    const { publisher } = rig((ids) => {
      if (ids.includes("7")) throw failure(Code.ResourceExhausted, "MESSAGE_TOO_LARGE");
      return accept(ids, 0);
    });
    const result = await outcomes(numbers(20).map((id) => publisher.publish(event(id))));
    expect(result).toEqual(numbers(20).map((id) => (id === 7 ? "refused MESSAGE_TOO_LARGE" : String(id))));
  });
});

describe("gives up", () => {
  test("at the deadline, and says whether the event may be on the log", async () => {
    vi.useFakeTimers();
    const { publisher } = rig((ids) => ids.map((id) => (id === "maybe" ? UNKNOWN : UNAVAILABLE)), {
      timeoutMs: 2_000,
    });
    const receipts = ["maybe", "not"].map((id) => outcome(publisher.publish(event(id, { subject: id }))));
    await vi.advanceTimersByTimeAsync(1_999);
    expect(publisher.buffered.events).toBe(2);
    await vi.advanceTimersByTimeAsync(1);
    expect(await Promise.all(receipts)).toEqual([
      "unknown PUBLISH_OUTCOME_UNKNOWN",
      "refused PRODUCER_UNAVAILABLE",
    ]);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("an event whose answer does not come, and takes the next of its key only after it", async () => {
    vi.useFakeTimers();
    const { promise, resolve } = Promise.withResolvers<Verdict[]>();
    const { publisher, calls } = rig((ids, call) => (call === 1 ? promise : accept(ids, call)), {
      timeoutMs: 1_000,
    });
    const first = outcome(publisher.publish(event(1)));
    await vi.advanceTimersByTimeAsync(500);
    const second = outcome(publisher.publish(event(2)));
    await vi.advanceTimersByTimeAsync(500);
    expect(await first).toBe("unknown DEADLINE_EXCEEDED");
    expect(calls).toEqual([["1"]]);
    resolve(["receipt"]);
    await vi.advanceTimersByTimeAsync(0);
    expect(await second).toBe("2");
  });

  test("what its own signal cancels, and tells what was never sent", async () => {
    const { promise, resolve } = Promise.withResolvers<Verdict[]>();
    const { publisher, calls } = rig((ids, call) => (call === 1 ? promise : accept(ids, call)));
    const controller = new AbortController();
    const { signal } = controller;
    const sent = outcome(publisher.publish(event(1), { signal }));
    await expect.poll(() => calls).toHaveLength(1);
    const waiting = outcome(publisher.publish(event(2), { signal }));
    const other = outcome(publisher.publish(event(3)));
    controller.abort();
    expect(await sent).toBe("unknown CANCELLED");
    expect(await waiting).toBe("refused CANCELLED");
    expect(await outcome(publisher.publish(event(4), { signal }))).toBe("refused CANCELLED");
    resolve(["receipt"]);
    expect(await other).toBe("3");
    expect(calls).toEqual([["1"], ["3"]]);
  });

  test("a large buffer in a time that grows with it, not with its square", async () => {
    const controller = new AbortController();
    const { publisher } = rig(() => new Promise(() => {}), {
      signal: controller.signal,
      bufferEvents: 1e6,
      onRefused: () => {},
    });
    for (const id of numbers(50_000)) void publisher.publish(event(id));
    const started = performance.now();
    controller.abort();
    expect(publisher.buffered.events).toBe(0);
    expect(performance.now() - started).toBeLessThan(5_000);
  });

  test("everything when the publisher's signal is raised, and leaves no timer", async () => {
    vi.useFakeTimers();
    const controller = new AbortController();
    const { publisher } = rig((ids) => ids.map(() => UNAVAILABLE), { signal: controller.signal });
    const receipts = outcomes(numbers(3).map((id) => publisher.publish(event(id))));
    await vi.advanceTimersByTimeAsync(7);
    controller.abort();
    expect(await receipts).toEqual(numbers(3).map(() => "refused CANCELLED"));
    expect(await outcome(publisher.publish(event(9)))).toBe("refused CANCELLED");
    await Promise.all([publisher.flush(), publisher.ready(), publisher.close()]);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("the buffer", () => {
  const stalled = (options: PublisherOptions): Rig & { readonly answer: () => void } => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const all = rig(async (ids) => (await promise, ids.map(() => "receipt")), options);
    return { ...all, answer: () => resolve() };
  };

  test("refuses what has no room, where that is asked for", async () => {
    const { publisher, answer } = stalled({ bufferEvents: 3, onFull: "refuse" });
    const receipts = numbers(5).map((id) => outcome(publisher.publish(event(id))));
    expect(await Promise.all(receipts.slice(3))).toEqual(["refused BUFFER_FULL", "refused BUFFER_FULL"]);
    expect(publisher.buffered.events).toBe(3);
    answer();
    expect(await Promise.all(receipts.slice(0, 3))).toEqual(["0", "1", "2"]);
    expect(await outcome(publisher.publish(event(5)))).toBe("5");
  });

  test("keeps a producer waiting that asks whether there is room, by number and by bytes", async () => {
    for (const bounds of [{ bufferEvents: 3 }, { bufferBytes: 100 }]) {
      const { publisher, answer, log } = stalled(bounds);
      let published = 0;
      const producing = (async () => {
        for (const id of numbers(20)) {
          await publisher.ready();
          void publisher.publish(event(id));
          published += 1;
          expect(publisher.buffered.events).toBeLessThanOrEqual(4);
        }
      })();
      await expect.poll(() => published).toBeGreaterThanOrEqual(2);
      const before = published;
      await new Promise((resolve) => setTimeout(resolve));
      expect(published).toBe(before);
      answer();
      await producing;
      await publisher.close();
      expect(log).toEqual(numbers(20).map(String));
    }
  });

  test("keeps its bounds however many producers ask for a place, each before it publishes", async () => {
    for (const [bounds, most] of [
      [{ bufferEvents: 10 }, { events: 10, bytes: 1_000 }],
      [{ bufferBytes: 400 }, { events: 400, bytes: 400 + 50 }],
    ] as const) {
      const { publisher, answer, log } = stalled(bounds);
      let peak = { events: 0, bytes: 0 };
      const produce = async (id: number): Promise<unknown> => {
        await publisher.ready();
        const receipt = publisher.publish(event(id));
        if (publisher.buffered.bytes > peak.bytes) peak = publisher.buffered;
        return await receipt;
      };
      const producing = Promise.all(numbers(3_000).map(produce));
      await expect.poll(() => publisher.buffered.events).toBeGreaterThan(5);
      await new Promise((resolve) => setTimeout(resolve));
      answer();
      await producing;
      expect(peak.events).toBeGreaterThan(5);
      expect(peak.events).toBeLessThanOrEqual(most.events);
      expect(peak.bytes).toBeLessThan(most.bytes);
      // In the order of their asking.
      expect(log).toEqual(numbers(3_000).map(String));
    }
  });

  test("keeps a place for a second for a producer that asked and is slow, and no longer", async () => {
    vi.useFakeTimers();
    const { publisher } = rig(accept, { bufferEvents: 2 });
    void publisher.publish(event(1));
    await publisher.flush();
    await Promise.all([publisher.ready(), publisher.ready()]);
    let isThrough = false;
    const third = publisher.ready().then(() => (isThrough = true));
    await vi.advanceTimersByTimeAsync(999);
    expect(isThrough).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    await third;
    expect(vi.getTimerCount()).toBe(0);
  });

  test("lets everybody through whose publisher is ended by its signal", async () => {
    const controller = new AbortController();
    const { publisher } = stalled({ bufferEvents: 2, signal: controller.signal });
    const asking = numbers(50).map(async (id) => {
      await publisher.ready();
      return await outcome(publisher.publish(event(id)));
    });
    await expect.poll(() => publisher.buffered.events).toBe(2);
    controller.abort();
    expect(new Set(await Promise.all(asking))).toEqual(new Set(["refused CANCELLED"]));
  });

  test.each([
    ["batchEvents", 1.5],
    ["bufferEvents", 10.5],
    ["lingerMs", -5],
    ["lingerMs", Number.NaN],
  ])("has no %s of %d", (name, value) => {
    expect(() => rig(accept, { [name]: value })).toThrow(new RegExp(`^${name} must be`));
  });

  test.each([0, -1, Number.NaN])("has no bounds of %d", (bound) => {
    for (const name of ["batchEvents", "batchBytes", "bufferEvents", "bufferBytes", "timeoutMs"]) {
      expect(() => rig(accept, { [name]: bound })).toThrow(new RegExp(`^${name} must be at least 1`));
    }
  });
});

describe("ends", () => {
  test("with everything settled, and takes nothing more", async () => {
    let receipt: Promise<string> | undefined;
    let publisher: Publisher | undefined;
    {
      await using own = rig(accept, { lingerMs: 60_000 }).publisher;
      publisher = own;
      receipt = outcome(own.publish(event(1)));
    }
    expect(publisher.buffered.events).toBe(0);
    expect(await receipt).toBe("1");
    expect(await outcome(publisher.publish(event(2)))).toBe("refused CLOSED");
    await publisher.close();
  });

  test("a flush with what was there, not with what comes after", async () => {
    const { promise, resolve } = Promise.withResolvers<Verdict[]>();
    const { publisher } = rig((ids) => (ids.includes("late") ? promise : accept(ids, 0)), { lingerMs: 0 });
    const early = publisher.publish(event("early", { subject: "1" }));
    const flushed = publisher.flush();
    const late = publisher.publish(event("late", { subject: "2" }));
    await flushed;
    expect((await early).name).toBe("early");
    expect(publisher.buffered.events).toBe(1);
    resolve(["receipt"]);
    await late;
  });
});

describe("tells", () => {
  test("of every refusal with the event and all that the server said", async () => {
    const refused: PublishError[] = [];
    const { publisher } = rig((ids) => ids.map((id) => (id === "1" ? INVALID : "receipt")), {
      onRefused: (error) => refused.push(error),
    });
    const sent = event(1, { data: "grün" });
    for (const each of [event(0), sent, event(2)]) void publisher.publish(each);
    await publisher.close();
    void publisher.publish(event(3));
    await new Promise((resolve) => setTimeout(resolve));
    expect(refused.map(({ reason }) => reason)).toEqual(["INVALID_ATTRIBUTES", "CLOSED"]);
    expect(refused[0]).toMatchObject({ name: "PublishError", outcome: "refused", event: sent });
    expect(refused[0]?.answer).toMatchObject({
      code: Code.InvalidArgument,
      message: "it is INVALID_ATTRIBUTES",
    });
    expect(refused[0]?.message).toBe('Event "1" of "/s" was not published: it is INVALID_ATTRIBUTES');
  });

  test("of text that has no UTF-8, instead of making two ids one", async () => {
    const { publisher, calls } = rig(accept);
    const broken = ["id", "source", "type"].map((name) => Object.assign(event(1), { [name]: "\ud800" }));
    const attribute = event(1);
    attribute.attributes["subject"] = {
      ...attribute.attributes["time"]!,
      attr: { case: "ceString", value: "\udfff" },
    };
    const data = Object.assign(event(1), { data: { case: "textData", value: "a\ud800b" } });
    for (const each of [...broken, attribute, data]) {
      await expect(publisher.publish(each)).rejects.toMatchObject({
        outcome: "refused",
        reason: "INVALID_ATTRIBUTES",
        message: expect.stringContaining("lone surrogate") as string,
      });
    }
    expect(calls).toEqual([]);
  });

  test("of an event that cannot be encoded, and keeps it from the others", async () => {
    const broken = create(CloudEventSchema, {
      id: "1",
      attributes: { a: { attr: { case: "ceInteger", value: 0.5 } } },
    });
    const { publisher, calls } = rig(accept);
    expect(await outcomes([publisher.publish(broken), publisher.publish(event(2))])).toEqual([
      "refused INVALID_ATTRIBUTES",
      "2",
    ]);
    expect(calls).toEqual([["2"]]);
  });
});
