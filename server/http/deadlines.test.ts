import { getEventListeners } from "node:events";
import { Code } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import { abortable, abortableItems, boundDeadline, causeOf, deadlineExceeded } from "./deadlines.ts";
import { reasonOf, toConnectError } from "../errors.ts";

const LIMITS = { defaultMs: 30_000, maxMs: 120_000, maxStreamMs: 3_600_000 };
const JSON_TYPE = "application/json";
const GRPC = "application/grpc+proto";
const CONNECT_NAME = "connect-timeout-ms";
const GRPC_NAME = "grpc-timeout";

describe("boundDeadline", () => {
  it.each<[type: string, name: string, asked: string | undefined, stream: boolean, granted: string | null]>([
    [JSON_TYPE, CONNECT_NAME, undefined, false, "30000"],
    [JSON_TYPE, CONNECT_NAME, "200", false, "200"],
    [JSON_TYPE, CONNECT_NAME, "0", false, "0"],
    [JSON_TYPE, CONNECT_NAME, "120000", false, "120000"],
    [JSON_TYPE, CONNECT_NAME, "120001", false, "120000"],
    [JSON_TYPE, CONNECT_NAME, "9999999999", false, "120000"],
    [JSON_TYPE, CONNECT_NAME, "9999999999", true, "3600000"],
    [JSON_TYPE, CONNECT_NAME, "soon", false, "soon"],
    [JSON_TYPE, CONNECT_NAME, "-1", false, "-1"],
    [GRPC, GRPC_NAME, undefined, false, "30000m"],
    [GRPC, GRPC_NAME, "200m", false, "200m"],
    [GRPC, GRPC_NAME, "1n", false, "1n"],
    [GRPC, GRPC_NAME, "121S", false, "120000m"],
    [GRPC, GRPC_NAME, "99999999H", false, "120000m"],
    [GRPC, GRPC_NAME, "99999999H", true, "3600000m"],
    [GRPC, GRPC_NAME, "1x", false, "1x"],
    ["application/grpc-web+json", GRPC_NAME, undefined, true, "3600000m"],
  ])("%s with %s: %s (stream: %s) becomes %s", (type, name, asked, stream, granted) => {
    const headers = new Headers({ "content-type": type, ...(asked !== undefined && { [name]: asked }) });
    boundDeadline(headers, stream, LIMITS);
    expect(headers.get(name)).toBe(granted);
  });

  it("never asks for more than a timer can be set to, nor for more digits than gRPC has", () => {
    const limits = { ...LIMITS, maxStreamMs: 30 * 24 * 3_600_000 };
    const connect = new Headers({ "content-type": JSON_TYPE });
    boundDeadline(connect, true, limits);
    expect(connect.get(CONNECT_NAME)).toBe(String(2 ** 31 - 1));
    const grpc = new Headers({ "content-type": GRPC });
    boundDeadline(grpc, true, limits);
    expect(grpc.get(GRPC_NAME)).toBe("2147483S");
  });
});

const never = new Promise<never>(() => undefined);

describe("abortable", () => {
  it("gives what the promise gives", async () => {
    expect(await abortable(Promise.resolve(1), new AbortController().signal)).toBe(1);
    await expect(abortable(Promise.reject(new Error("x")), new AbortController().signal)).rejects.toThrow(
      "x",
    );
  });

  it("ends a promise that never settles, with why its signal was raised", async () => {
    const controller = new AbortController();
    const waiting = abortable(never, controller.signal);
    controller.abort(deadlineExceeded());
    await expect(waiting).rejects.toMatchObject({ code: Code.DeadlineExceeded });
    const gone = abortable(never, AbortSignal.abort());
    await expect(gone).rejects.toMatchObject({ code: Code.Canceled });
  });

  it("lets work that heeds its signal say how far it came", async () => {
    const controller = new AbortController();
    const unknown = toConnectError({
      code: Code.Unavailable,
      reason: "PUBLISH_OUTCOME_UNKNOWN",
      message: "",
    });
    const work = new Promise((_, reject) => {
      controller.signal.addEventListener("abort", () => setImmediate(() => reject(unknown)));
    });
    const waiting = abortable(work, controller.signal);
    controller.abort(deadlineExceeded());
    await expect(waiting).rejects.toBe(unknown);
  });

  it("leaves no listener behind", async () => {
    const { signal } = new AbortController();
    await abortable(Promise.resolve(), signal);
    await new Promise(setImmediate);
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });
});

describe("abortableItems", () => {
  it("passes items on, and tells the source when it is left", async () => {
    let left = false;
    async function* source(): AsyncGenerator<number> {
      try {
        yield 1;
        yield 2;
        yield 3;
      } finally {
        left = true;
      }
    }
    const seen: number[] = [];
    for await (const item of abortableItems(source(), new AbortController().signal)) {
      seen.push(item);
      if (item === 2) break;
    }
    expect(seen).toEqual([1, 2]);
    expect(left).toBe(true);
  });

  it("ends with the signal, though the source hangs", async () => {
    const controller = new AbortController();
    async function* source(): AsyncGenerator<number> {
      yield 1;
      await never;
    }
    const items = abortableItems(source(), controller.signal);
    expect((await items.next()).value).toBe(1);
    const waiting = items.next();
    controller.abort(deadlineExceeded());
    await expect(waiting).rejects.toMatchObject({ code: Code.DeadlineExceeded });
  });

  it("ends with the signal, though the source always has more", async () => {
    const controller = new AbortController();
    async function* source(): AsyncGenerator<number> {
      for (let i = 0; ; i += 1) yield i;
    }
    const seen: number[] = [];
    const run = async (): Promise<void> => {
      for await (const item of abortableItems(source(), controller.signal)) {
        seen.push(item);
        if (item === 10) controller.abort(deadlineExceeded());
      }
    };
    await expect(run()).rejects.toMatchObject({ code: Code.DeadlineExceeded });
    expect(seen).toHaveLength(11);
  });
});

describe("causeOf", () => {
  const expected = toConnectError({ code: Code.Unavailable, reason: "QUERY_TIMEOUT", message: "" });

  it("takes any other error of aborted work for the reason of the abort", () => {
    const signal = AbortSignal.abort(deadlineExceeded());
    expect(reasonOf(causeOf(new Error("aborted"), signal) as typeof expected)).toBe("DEADLINE_EXCEEDED");
    expect(causeOf(expected, signal)).toBe(expected);
  });

  it("leaves the errors of other work alone", () => {
    const error = new Error("x");
    expect(causeOf(error, new AbortController().signal)).toBe(error);
  });
});
