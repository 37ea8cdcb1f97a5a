import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { once } from "node:events";
import { type AddressInfo } from "node:net";

import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, expect, test } from "vitest";

import {
  attributeOf,
  cloudEvent,
  type CloudEventInit,
  createWeirClient,
  dataOf,
  formatEventName,
  Severity,
  Stage,
  type WeirClient,
  weirErrorOf,
} from "../../sdk/index.ts";
import { startWeir, type Weir } from "../support/weir.ts";

const soon = { timeout: 20_000, interval: 50 };

let weir: Weir;
let client: WeirClient;
beforeAll(async () => {
  weir = await startWeir({ workers: true });
  client = createWeirClient({ baseUrl: weir.baseUrl, token: () => weir.token() });
});
afterAll(() => weir[Symbol.asyncDispose]());

function sketch(init: Partial<CloudEventInit> = {}): CloudEventInit {
  return { id: randomUUID(), source: "/sdk", type: "com.example.sdk", time: new Date(), ...init };
}

test("publishes, finds and reads back, byte for byte", async () => {
  const data = new Uint8Array([0x00, 0xff, 0xc3, 0x28]);
  const time = "2026-11-29T10:30:00.123456+01:00";
  const extensions = { severitytext: "WARN", tags: "eu,retail", sequence: 7, due: new Date(0), digest: data };
  const init = sketch({ data, time, subject: "order-17", datacontenttype: "image/png", extensions });
  const { receipt } = await client.ingest.createEvent({ event: cloudEvent(init) });
  const name = formatEventName(init.source, init.id);
  expect(receipt).toMatchObject({ name, partitionKey: "/sdk#order-17", stage: Stage.ACCEPTED });

  const get = () => client.search.getEvent({ name });
  await expect.poll(() => get().catch(weirErrorOf), soon).toHaveProperty("event");
  const { event } = await get();
  const found = event?.cloudEvent;
  expect(dataOf(found)).toEqual(data);
  expect(event).toMatchObject({ name, severity: Severity.WARN, tags: ["eu", "retail"], dataSize: 4n });
  const names = ["time", "subject", "datacontenttype", "sequence", "due", "digest", "none"];
  expect(names.map((each) => attributeOf(found, each))).toEqual([
    "2026-11-29T09:30:00.123456Z",
    "order-17",
    "image/png",
    "7",
    "1970-01-01T00:00:00Z",
    "AP/DKA==",
    undefined,
  ]);
  const { events } = await client.search.searchEvents({ pageSize: 500 });
  expect(events.map((each) => each.name)).toContain(name);
});

test("follows the pages of a search, and asks for none that nobody comes to", async () => {
  const events = Array.from({ length: 5 }, (_, index) =>
    cloudEvent(
      sketch({ id: `paged-${index}`, subject: "paged", time: new Date(Date.now() - index * 1_000) }),
    ),
  );
  await client.ingest.batchCreateEvents({ events });
  const query = { filter: "subject = paged", pageSize: 2 };
  const idsOf = async (options: object = {}): Promise<(string | undefined)[]> => {
    const ids = [];
    for await (const { cloudEvent: found } of client.events({ ...query, ...options })) ids.push(found?.id);
    return ids;
  };
  const newest = [0, 1, 2, 3, 4].map((index) => `paged-${index}`);
  await expect.poll(() => idsOf(), soon).toEqual(newest);
  expect(await idsOf({ orderBy: "time" })).toEqual(newest.toReversed());

  const requests: string[] = [];
  const token = () => (requests.push("one"), weir.token());
  for await (const event of createWeirClient({ baseUrl: weir.baseUrl, token }).events(query)) {
    if (event.cloudEvent?.id === "paged-1") break;
  }
  expect(requests).toHaveLength(1);
  const refused = idsOf({ filter: "typ = x" });
  expect(await refused.catch(weirErrorOf)).toMatchObject({ reason: "INVALID_FILTER" });
});

test("reads every fault of a refusal out of the server's own answer", async () => {
  const event = cloudEvent(sketch({ id: "", type: "", time: "2001-01-01T00:00:00Z" }));
  const refusal = weirErrorOf(await client.ingest.createEvent({ event }).catch((error: unknown) => error));
  expect(refusal?.violations.map(({ field }) => field)).toEqual(
    expect.arrayContaining(["event.id", "event.type"]),
  );
  expect(refusal).toMatchObject({
    code: Code.InvalidArgument,
    reason: "INVALID_ATTRIBUTES",
    retryAfterMs: undefined,
  });
});

test("tells apart what a token lacks", async () => {
  const reasons = async (token: string): Promise<unknown> =>
    createWeirClient({ baseUrl: weir.baseUrl, token })
      .ingest.createEvent({ event: cloudEvent(sketch()) })
      .catch((error: unknown) => weirErrorOf(error)?.reason);
  expect(await reasons(await weir.token({ scope: "events.read" }))).toBe("SCOPE_MISSING");
  expect(await reasons("no.token.atall")).toBe("TOKEN_INVALID");
});

test("asks for the token before every call", async () => {
  const tokens: string[] = [];
  const fresh = async (): Promise<string> => {
    tokens.push(await weir.token());
    return tokens.at(-1)!;
  };
  const own = createWeirClient({ baseUrl: weir.baseUrl, token: fresh });
  await own.ingest.validateEvent({ event: cloudEvent(sketch()) });
  await own.ingest.validateEvent({ event: cloudEvent(sketch()) });
  expect(tokens).toHaveLength(2);
});

test("a call ends at its deadline, be it the server or the token that does not come", async () => {
  const silent = createServer(() => {});
  silent.listen(0, "127.0.0.1");
  await once(silent, "listening");
  const baseUrl = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const code = async (token: string | (() => Promise<string>)): Promise<unknown> =>
    createWeirClient({ baseUrl, token, timeoutMs: 100 })
      .search.searchEvents({})
      .catch((error: unknown) => weirErrorOf(error)?.code);
  expect(await code("token")).toBe(Code.DeadlineExceeded);
  expect(await code(() => new Promise(() => {}))).toBe(Code.DeadlineExceeded);
  silent.closeAllConnections();
  silent.close();
});

test("refuses a base URL that is none", () => {
  for (const baseUrl of ["", "127.0.0.1:8080", "/api", "ftp://weir.example"]) {
    expect(() => createWeirClient({ baseUrl, token: "" })).toThrow(TypeError);
  }
});
