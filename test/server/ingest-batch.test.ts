import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { type Receipt, Stage } from "#gen/weir/v1/event_pb.ts";
import { type BatchCreateEventsResponse, type EventResult } from "#gen/weir/v1/ingest_pb.ts";

import { type WeirError } from "../../sdk/error.ts";
import { readTopic } from "../support/topic.ts";
import { startWeir, type Weir } from "../support/weir.ts";
import { createClients, PROTOCOLS, refusalOf, statusRefusalOf } from "./clients.ts";
import { sketch, type Sketch, toMessage } from "./events.ts";

let weir: Weir;
let token: string;
beforeAll(async () => {
  weir = await startWeir();
  token = await weir.token({ scope: "events.write", sub: "shop@example.com" });
});
afterAll(() => weir[Symbol.asyncDispose]());

/** The ids on the log of each key, in their order, and how often each id is there. */
async function logOf(server: Weir): Promise<{ byKey: Map<string, string[]>; counts: Map<string, number> }> {
  const byKey = new Map<string, string[]>();
  const counts = new Map<string, number>();
  for (const { key, headers } of await readTopic(server.brokers, server.topic)) {
    const id = headers.find(([name]) => name === "ce_id")?.[1]?.toString() ?? "";
    const ids = byKey.get(String(key)) ?? [];
    byKey.set(String(key), [...ids, id]);
    counts.set(id, (counts.get(id) ?? 0) + 1);
  }
  return { byKey, counts };
}

function receiptOf({ outcome }: EventResult): Receipt {
  if (outcome.case !== "receipt") throw new Error(`Refused: ${JSON.stringify(outcome.value?.message)}`);
  return outcome.value;
}

function refusalAt({ results }: BatchCreateEventsResponse, index: number): WeirError {
  const outcome = results[index]?.outcome;
  if (outcome?.case !== "error") throw new Error(`Event ${index} was taken.`);
  return statusRefusalOf(outcome.value);
}

/** Events of some keys by turns. */
function sketches(count: number, keys: number, source = "/batch"): Sketch[] {
  return Array.from({ length: count }, (_, index) => sketch({ source: `${source}/${index % keys}` }));
}

async function metric(name: string): Promise<number> {
  const page = await (await fetch(`${weir.baseUrl}/metrics`)).text();
  return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\d+)$`, "m").exec(page)?.[1] ?? 0);
}

describe.each(PROTOCOLS)("BatchCreateEvents by %s", (protocol) => {
  test("answers each event by its index: a receipt, or the error that CreateEvent gives", async () => {
    const { ingest } = createClients(weir.baseUrl, token, protocol);
    const source = `/mixed/${protocol.replace(/\W/g, "-")}`;
    const bad = [{ id: "" }, { source: "a b", "a-b": "1" }, { id: "i".repeat(513) }, { time: undefined }];
    const events = [
      sketch({ source, partitionkey: "ö" }),
      ...bad.map((fault) => sketch({ source, ...fault })),
      sketch({ source, subject: "s" }),
    ].map(toMessage);
    const response = await ingest.batchCreateEvents({ events, waitFor: Stage.ACCEPTED });

    expect(response.results).toHaveLength(events.length);
    for (let index = 1; index <= bad.length; index += 1) {
      const unary = await refusalOf(ingest.createEvent({ event: events[index]! }));
      expect(unary.violations.length).toBeGreaterThan(0);
      expect(refusalAt(response, index)).toEqual(unary);
    }
    const [first, last] = [receiptOf(response.results[0]!), receiptOf(response.results.at(-1)!)];
    expect(first).toMatchObject({
      partitionKey: "ö",
      stage: Stage.ACCEPTED,
      position: { topic: weir.topic },
    });
    expect(last.partitionKey).toBe(`${source}#s`);
    const { counts } = await logOf(weir);
    expect(events.map(({ id }) => counts.get(id) ?? 0)).toEqual([1, 0, 0, 0, 0, 1]);
  });

  test("refuses a batch that is empty, or is too many, or too much, whatever its events are", async () => {
    const { ingest } = createClients(weir.baseUrl, token, protocol);
    const before = await logOf(weir);
    const empty = await refusalOf(ingest.batchCreateEvents({ events: [] }));
    expect(empty).toMatchObject({ code: Code.InvalidArgument, reason: "INVALID_REQUEST" });
    expect(empty.violations.map(({ field }) => field)).toEqual(["events"]);

    const unsound = toMessage(sketch({ id: "" }));
    const many = await refusalOf(
      ingest.batchCreateEvents({ events: [...sketches(256, 3).map(toMessage), unsound] }),
    );
    expect(many).toMatchObject({ code: Code.InvalidArgument, reason: "TOO_LARGE" });
    expect(many.metadata).toEqual({ limit: "256", actual: "257", unit: "events" });
    expect(many.violations.map(({ field }) => field)).toEqual(["events"]);

    const event = toMessage(sketch({ id: "large" }, "x".repeat(1_000_000)));
    const much = await refusalOf(ingest.batchCreateEvents({ events: [...Array(9).fill(event), unsound] }));
    expect(much).toMatchObject({ code: Code.InvalidArgument, reason: "TOO_LARGE" });
    expect(much.metadata).toMatchObject({ limit: "8388608", unit: "bytes" });
    expect(Number(much.metadata["actual"])).toBeGreaterThan(9_000_000);
    expect(await logOf(weir)).toEqual(before);
  });

  test("refuses a stage that is not served, for the whole batch", async () => {
    const { ingest } = createClients(weir.baseUrl, token, protocol);
    const call = ingest.batchCreateEvents({ events: [toMessage(sketch())], waitFor: Stage.FANNED_OUT });
    expect(await refusalOf(call)).toMatchObject({ code: Code.Unimplemented, reason: "STAGE_UNSUPPORTED" });
    const none = await refusalOf(ingest.batchCreateEvents({ events: [], waitFor: Stage.FANNED_OUT }));
    expect(none).toMatchObject({ code: Code.InvalidArgument, reason: "INVALID_REQUEST" });
    expect(none.violations.map(({ field }) => field)).toEqual(["events", "wait_for"]);
  });
});

test("a whole batch shares produce requests, and keeps the order of each key", async () => {
  const { ingest } = createClients(weir.baseUrl, token, "gRPC");
  const events = sketches(256, 7, "/ordered").map(toMessage);
  const requests = await metric("weir_publish_batch_size_count");
  const { results } = await ingest.batchCreateEvents({ events });
  expect((await metric("weir_publish_batch_size_count")) - requests).toBe(1);
  expect(results.map((result) => receiptOf(result).name)).toEqual(
    events.map(({ id, source }) => `events/${encodeURIComponent(source)}:${id}`),
  );
  const { byKey } = await logOf(weir);
  for (let key = 0; key < 7; key += 1) {
    const sent = events.filter(({ source }) => source === `/ordered/${key}`).map(({ id }) => id);
    expect(byKey.get(`/ordered/${key}`)).toEqual(sent);
  }
});

test("as much as a batch may be is taken: 256 events, and 8 MiB", async () => {
  const { ingest } = createClients(weir.baseUrl, token);
  const events = sketches(256, 5, "/much").map((each) => toMessage({ ...each, data: "x".repeat(32_000) }));
  const { results } = await ingest.batchCreateEvents({ events });
  expect(results.map((result) => receiptOf(result).stage)).toEqual(Array(256).fill(Stage.ACCEPTED));
});

test("an event without a place in the producer's queue holds back those of its key, and no others", async () => {
  await using small = await startWeir({ env: { WEIR_PRODUCER_QUEUE_SIZE: "2MiB" } });
  const { ingest } = createClients(small.baseUrl, await small.token());
  const large = "x".repeat(900_000);
  const events = [
    sketch({ source: "/a" }, large),
    sketch({ source: "/b" }, large),
    sketch({ source: "/a" }, large),
    sketch({ source: "/a", id: "" }),
    sketch({ source: "/a" }),
    sketch({ source: "/b" }),
    sketch({ source: "/a" }),
  ].map(toMessage);
  const response = await ingest.batchCreateEvents({ events });
  const refused = { code: Code.Unavailable, reason: "PRODUCER_UNAVAILABLE", retryAfterMs: 1_000 };
  for (const index of [2, 4, 6]) {
    expect(refusalAt(response, index)).toMatchObject({ ...refused, metadata: { cause: "QUEUE_FULL" } });
  }
  expect(refusalAt(response, 3)).toMatchObject({ reason: "INVALID_ATTRIBUTES" });
  const { byKey } = await logOf(small);
  const ids = (...indexes: number[]): string[] => indexes.map((index) => events[index]!.id);
  expect(Object.fromEntries(byKey)).toEqual({ "/a": ids(0), "/b": ids(1, 5) });
});

test.each([
  ["more than the queue takes: what is refused is sent again", "1024", true],
  ["as the queue takes them", "8192", false],
])("many batches at once, %s, and every key keeps its order", async (_, queue, isRefused) => {
  await using busy = await startWeir({ env: { WEIR_PRODUCER_QUEUE: queue } });
  const busyToken = await busy.token();
  const [senders, batches, size] = [12, 4, 256];
  let refusals = 0;
  const send = async (sender: number): Promise<string[]> => {
    const { ingest } = createClients(busy.baseUrl, busyToken, "gRPC");
    const all = sketches(batches * size, 3, `/sender-${sender}`).map(toMessage);
    let rest = [...all];
    while (rest.length > 0) {
      const events = rest.slice(0, size);
      const response = await ingest.batchCreateEvents({ events });
      const again = events.filter((_, index) => {
        if (response.results[index]?.outcome.case === "receipt") return false;
        expect(refusalAt(response, index)).toMatchObject({
          reason: "PRODUCER_UNAVAILABLE",
          metadata: { cause: "QUEUE_FULL" },
        });
        return true;
      });
      refusals += again.length;
      rest = [...again, ...rest.slice(size)];
    }
    return all.map(({ id }) => id);
  };
  const sent = (await Promise.all(Array.from({ length: senders }, (_, sender) => send(sender)))).flat();
  expect(refusals > 0).toBe(isRefused);
  const { byKey, counts } = await logOf(busy);
  expect(sent.filter((id) => counts.get(id) !== 1)).toEqual([]);
  expect(counts.size).toBe(sent.length);
  const place = new Map(sent.map((id, index) => [id, index]));
  for (const ids of byKey.values()) {
    const places = ids.map((id) => place.get(id)!);
    expect(places).toEqual(places.toSorted((a, b) => a - b));
  }
});
