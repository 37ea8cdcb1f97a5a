import { Code, ConnectError } from "@connectrpc/connect";
import { createServer } from "node:http";
import { getEventListeners, once } from "node:events";
import { type AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { createWeirClient, type WeirClientOptions } from "../../sdk/client.ts";
import { cloudEvent } from "../../sdk/cloud-event.ts";
import { event, numbers, outcome } from "../../sdk/publisher-rig.ts";

/** A port on 127.0.0.1 at which nothing answers. */
async function closedPort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

const unhandled: unknown[] = [];
const note = (error: unknown): void => void unhandled.push(error);
afterEach(() => unhandled.splice(0));

const tokens: [name: string, token: () => string | Promise<string>][] = [
  [
    "throws",
    () => {
      throw new Error("no token yet");
    },
  ],
  ["rejects", () => Promise.reject(new Error("no token yet"))],
];

describe("a token function that", () => {
  test.each(tokens)("%s fails its call alone, with nothing unhandled", async (_, token) => {
    process.on("unhandledRejection", note);
    const weir = createWeirClient({ baseUrl: "http://127.0.0.1:1", token });
    const failed: unknown = await weir.ingest
      .createEvent({ event: event(1) })
      .catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(ConnectError);
    expect((failed as ConnectError).rawMessage).toBe("no token yet");
    // Node looks for rejections that nobody handles once the microtasks are done.
    await new Promise(setImmediate);
    process.off("unhandledRejection", note);
    expect(unhandled).toEqual([]);
  });

  test("does not come to an end ends with its call's deadline", async () => {
    const weir = createWeirClient({ baseUrl: "http://127.0.0.1:1", token: () => new Promise(() => {}) });
    await expect(weir.ingest.createEvent({}, { timeoutMs: 50 })).rejects.toMatchObject({
      code: Code.DeadlineExceeded,
    });
  });
});

describe("an event that cannot have been sent is refused, not unknown:", () => {
  const cases: [name: string, token: WeirClientOptions["token"]][] = [["no server answers", "t"], ...tokens];
  test.each(cases)("%s", async (_, token) => {
    const baseUrl = `http://127.0.0.1:${String(await closedPort())}`;
    const publisher = createWeirClient({ baseUrl, token }).publisher({ timeoutMs: 400 });
    expect(await outcome(publisher.publish(event(1)))).toBe("refused UNREACHABLE");
  });

  test("but for one whose connection was made", async () => {
    const server = createServer((request) => request.socket.destroy()).listen(0, "127.0.0.1");
    await once(server, "listening");
    const baseUrl = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
    const publisher = createWeirClient({ baseUrl, token: "t" }).publisher({ timeoutMs: 400 });
    expect(await outcome(publisher.publish(event(1)))).toBe("unknown UNREACHABLE");
    server.close();
  });
});

test.each(["a\nb", "a\u0000", "tökén"])("refuses the token %j, which no header carries", (token) => {
  expect(() => createWeirClient({ baseUrl: "http://127.0.0.1:1", token })).toThrow(/^token must be one line/);
});

test("takes a token with white space around it, as files have", () => {
  expect(createWeirClient({ baseUrl: "http://127.0.0.1:1", token: "a\n" })).toBeDefined();
});

test("sends no text that has no UTF-8", async () => {
  const weir = createWeirClient({ baseUrl: "http://127.0.0.1:1", token: "t" });
  const broken = Object.assign(cloudEvent({ id: "1", source: "/", type: "t", time: new Date() }), {
    id: "\ud800",
  });
  const calls = [
    weir.ingest.createEvent({ event: broken }),
    weir.ingest.batchCreateEvents({ events: [event(1), broken] }),
    weir.search.searchEvents({ filter: "\udfff" }),
  ];
  for (const call of calls) {
    await expect(call).rejects.toMatchObject({
      code: Code.InvalidArgument,
      rawMessage: "The request holds a lone surrogate, which has no UTF-8.",
    });
  }
});

test("publishes that share a signal have one listener of it, however many they are", async () => {
  const publisher = createWeirClient({ baseUrl: "http://127.0.0.1:1", token: "t" }).publisher();
  const controller = new AbortController();
  const { signal } = controller;
  const sent = numbers(50).map((id) => outcome(publisher.publish(event(id), { signal })));
  expect(getEventListeners(signal, "abort")).toHaveLength(1);
  controller.abort();
  expect(new Set(await Promise.all(sent))).toEqual(new Set(["refused CANCELLED"]));
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
});
