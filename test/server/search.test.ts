import { toJson } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { type EventData, type StoredEvent } from "#core/event.ts";
import { formatEventName } from "#core/event-name.ts";
import { EventSchema } from "#gen/weir/v1/event_pb.ts";
import { insertEvents } from "#postgres/events.ts";
import { type Database } from "#postgres/pool.ts";
import { transaction } from "#postgres/tx.ts";

import { type EventSketch, openDatabase, sketchEvent } from "../postgres/fixture.ts";
import { startWeir, type Weir } from "../support/weir.ts";
import { type Clients, createClients, PROTOCOLS, refusalOf } from "./clients.ts";

let weir: Weir;
let token: string;
let database: Database;
let clients: Clients;
beforeAll(async () => {
  weir = await startWeir();
  token = await weir.token({ scope: "events.read" });
  database = openDatabase(weir.databaseUrl);
  clients = createClients(weir.baseUrl, token);
});
afterAll(async () => {
  await database[Symbol.asyncDispose]();
  await weir[Symbol.asyncDispose]();
});

/** Puts events into an empty store, as the persist role would. */
async function store(...events: readonly StoredEvent[]): Promise<void> {
  await database.pool.query("truncate events.event");
  await transaction(database, (tx) => insertEvents(tx, events));
}

const nameOf = ({ event }: StoredEvent): string => formatEventName(event.source, event.id);

describe("SearchEvents", () => {
  const moment = (seconds: number): string => new Date(Date.UTC(2026, 10, 20, 0, 0, seconds)).toISOString();
  // Offsets 0 to 22 of two partitions; three events share each moment.
  const sketches: EventSketch[] = Array.from({ length: 23 }, (_, index) => ({
    id: `e${index}`,
    time: moment(Math.floor(index / 3)),
    partition: index % 2,
    offset: BigInt(index),
  }));
  const events = sketches.map(sketchEvent);
  const oldestFirst = events
    .toSorted(
      (a, b) =>
        a.event.time!.seconds - b.event.time!.seconds ||
        a.position.partition - b.position.partition ||
        Number(a.position.offset - b.position.offset),
    )
    .map(nameOf);

  beforeAll(() => store(...events));

  /** The names on every page, following the tokens. */
  async function pagesOf(orderBy: string, pageSize: number): Promise<string[][]> {
    const pages: string[][] = [];
    let pageToken = "";
    do {
      const page = await clients.search.searchEvents({ orderBy, pageSize, pageToken });
      pages.push(page.events.map(({ name }) => name));
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    return pages;
  }

  test.each([
    ["", oldestFirst.toReversed()],
    ["time desc", oldestFirst.toReversed()],
    [" time   desc ", oldestFirst.toReversed()],
    ["time", oldestFirst],
  ])("in the order %j gives each event once, equal times by partition and offset", async (orderBy, names) => {
    for (const pageSize of [1, 7, 22, 23, 24]) {
      const pages = await pagesOf(orderBy, pageSize);
      expect(pages.flat()).toEqual(names);
      expect(pages.map(({ length }) => length).slice(0, -1)).toEqual(pages.slice(1).map(() => pageSize));
    }
  });

  test("has no token after a last page that is full", async () => {
    expect((await clients.search.searchEvents({ pageSize: 23 })).nextPageToken).toBe("");
    expect((await clients.search.searchEvents({ pageSize: 22 })).nextPageToken).not.toBe("");
  });

  test("goes on where it was, whatever came in meanwhile", async () => {
    const { nextPageToken } = await clients.search.searchEvents({ pageSize: 3 });
    const late = sketchEvent({ id: "late", time: moment(60), offset: 100n });
    await transaction(database, (tx) => insertEvents(tx, [late]));
    try {
      const { events: second } = await clients.search.searchEvents({ pageSize: 3, pageToken: nextPageToken });
      expect(second.map(({ name }) => name)).toEqual(oldestFirst.toReversed().slice(3, 6));
    } finally {
      await database.pool.query("delete from events.event where id = 'late'");
    }
  });

  test("has no data, and everything else", async () => {
    const accepted = sketchEvent({
      id: "whole",
      source: "/ä:b",
      type: "t",
      subject: "s",
      time: "2026-11-25T10:00:00.123456789+02:00",
      datacontenttype: "application/json",
      dataschema: "https://example.com/s",
      extensions: new Map([
        ["severitytext", "warn"],
        ["tags", "a, b,,c"],
      ]),
      data: new TextEncoder().encode('{"a":1}'),
      acceptTime: 1_796_000_000_123,
      partition: 2,
      offset: 2n ** 40n,
      topic: "events",
    });
    await transaction(database, (tx) => insertEvents(tx, [accepted]));
    const found = await clients.search.searchEvents({ pageSize: 1 });
    await database.pool.query("delete from events.event where id = 'whole'");
    expect(toJson(EventSchema, found.events[0]!)).toEqual({
      name: "events/%2F%C3%A4%3Ab:whole",
      cloudEvent: {
        id: "whole",
        source: "/ä:b",
        specVersion: "1.0",
        type: "t",
        attributes: {
          subject: { ceString: "s" },
          time: { ceTimestamp: "2026-11-25T08:00:00.123456789Z" },
          datacontenttype: { ceString: "application/json" },
          dataschema: { ceUri: "https://example.com/s" },
          severitytext: { ceString: "warn" },
          tags: { ceString: "a, b,,c" },
        },
      },
      receiveTime: new Date(1_796_000_000_123).toISOString(),
      severity: "SEVERITY_WARN",
      severityNumber: 13,
      tags: ["a", "b", "c"],
      dataSize: "7",
      position: { topic: "events", partition: 2, offset: String(2n ** 40n) },
      timeText: "2026-11-25T10:00:00.123456789+02:00",
      principal: "alice",
    });
  });

  test("takes a page size above 500 for 500, and 0 for 50", async () => {
    const many = Array.from({ length: 501 }, (_, index) => sketchEvent({ offset: BigInt(index) }));
    await store(...many);
    try {
      expect((await clients.search.searchEvents({ pageSize: 2_147_483_647 })).events).toHaveLength(500);
      expect((await clients.search.searchEvents({})).events).toHaveLength(50);
    } finally {
      await store(...events);
    }
  });

  test.each(PROTOCOLS)("tells every fault of a request at once, by %s", async (protocol) => {
    const { search } = createClients(weir.baseUrl, token, protocol);
    const request = { filter: 'typ = "a"', orderBy: "id", pageSize: -1, pageToken: "made-up" };
    const refusal = await refusalOf(search.searchEvents(request));
    expect(refusal.code).toBe(Code.InvalidArgument);
    expect(refusal.violations.map(({ field, reason }) => `${field} ${reason}`).toSorted()).toEqual([
      "filter INVALID_FILTER",
      "order_by INVALID_ORDER_BY",
      "page_size INVALID_PAGE_SIZE",
      "page_token INVALID_PAGE_TOKEN",
    ]);
  });

  test("refuses a token of another order, and one that was altered", async () => {
    const { nextPageToken } = await clients.search.searchEvents({ orderBy: "time", pageSize: 1 });
    const letter = nextPageToken[8] === "A" ? "B" : "A";
    const altered = `${nextPageToken.slice(0, 8)}${letter}${nextPageToken.slice(9)}`;
    for (const [orderBy, pageToken] of [
      ["", nextPageToken],
      ["time", altered],
      ["time", nextPageToken.slice(1)],
    ] as const) {
      const refusal = await refusalOf(clients.search.searchEvents({ orderBy, pageToken }));
      expect(refusal).toMatchObject({ code: Code.InvalidArgument, reason: "INVALID_PAGE_TOKEN" });
      expect(refusal.violations.map(({ field }) => field)).toEqual(["page_token"]);
    }
  });

  test("is a GET that may be repeated, by Connect", async () => {
    const url = new URL(`${weir.baseUrl}/weir.v1.SearchService/SearchEvents`);
    url.search = new URLSearchParams({
      connect: "v1",
      encoding: "json",
      message: '{"pageSize":1}',
    }).toString();
    const response = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
    const { events: found } = (await response.json()) as { events: { name: string }[] };
    expect(found.map(({ name }) => name)).toEqual(oldestFirst.slice(-1));
  });
});

describe("GetEvent", () => {
  const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
  const withData = (data: EventData | undefined): StoredEvent => {
    const stored = sketchEvent({ offset: 1n });
    return { ...stored, event: { ...stored.event, data } };
  };
  const plain = (data: Uint8Array): EventData => ({ bytes: data, protoType: undefined });

  test.each<[string, EventData | undefined, string | undefined]>([
    ["none", undefined, undefined],
    ["empty", plain(bytes("")), "textData"],
    ["JSON, byte for byte", plain(bytes('{"n":1.0, "b":123456789012345678901}\r\n')), "textData"],
    ["text with a byte order mark", plain(bytes("\ufeffa")), "textData"],
    ["text with a NUL", plain(bytes("a\0b")), "textData"],
    ["no UTF-8", plain(new Uint8Array([0xff, 0xfe, 0x00])), "binaryData"],
    ["half a character", plain(new Uint8Array([0x61, 0xc3])), "binaryData"],
    ["a surrogate in UTF-8", plain(new Uint8Array([0xed, 0xa0, 0x80])), "binaryData"],
    [
      "a protobuf message",
      { bytes: new Uint8Array([8, 1]), protoType: "type.googleapis.com/a.B" },
      "protoData",
    ],
  ])("gives data that are %s", async (_, data, kind) => {
    const stored = withData(data);
    await store(stored);
    const { event } = await createClients(weir.baseUrl, token, "gRPC").search.getEvent({
      name: nameOf(stored),
    });
    const found = event?.cloudEvent?.data;
    expect(found?.case).toBe(kind);
    const value = found?.case === "protoData" ? found.value.value : found?.value;
    expect(typeof value === "string" ? bytes(value) : value).toEqual(data?.bytes);
    expect(event?.dataSize).toBe(BigInt(data?.bytes.length ?? 0));
    expect(event?.dataTypeUrl).toBe(data?.protoType ?? "");
    expect(found?.case === "protoData" ? found.value.typeUrl : undefined).toBe(data?.protoType);
  });

  test("gives a protobuf payload as its bytes where the caller speaks JSON, and its type beside it", async () => {
    const stored = withData({ bytes: new Uint8Array([8, 200]), protoType: "type.googleapis.com/a.B" });
    await store(stored);
    const { search } = createClients(weir.baseUrl, token, "Connect JSON");
    const { event } = await search.getEvent({ name: nameOf(stored) });
    expect(event?.cloudEvent?.data).toEqual({ case: "binaryData", value: new Uint8Array([8, 200]) });
    expect(event?.dataTypeUrl).toBe("type.googleapis.com/a.B");

    const url = new URL(`${weir.baseUrl}/weir.v1.SearchService/GetEvent`);
    const message = JSON.stringify({ name: nameOf(stored) });
    url.search = new URLSearchParams({ connect: "v1", encoding: "json", message }).toString();
    const response = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
    expect(await response.json()).toMatchObject({ event: { cloudEvent: { binaryData: "CMg=" } } });
  });

  test("gives the one that was accepted first, the times of the others, and any by its time", async () => {
    const times = ["2026-11-20T00:00:00.000002Z", "2026-11-20T00:00:00.000001Z", "2026-11-19T00:00:00Z"];
    const stored = times.map((time, index) =>
      sketchEvent({
        id: "again",
        source: "/s",
        time,
        offset: BigInt(index),
        acceptTime: 1_796_000_000_000 + index,
      }),
    );
    await store(...stored);
    const name = "events/%2Fs:again";
    const first = await clients.search.getEvent({ name });
    expect(first.event?.timeText).toBe(times[0]);
    const at = (text: string, nanos: number) => ({ seconds: BigInt(Date.parse(text) / 1_000), nanos });
    const others = [at("2026-11-19T00:00:00Z", 0), at("2026-11-20T00:00:00Z", 1_000)];
    expect(first.otherTimes.map(({ seconds, nanos }) => ({ seconds, nanos }))).toEqual(others);

    // To the microsecond: what is below one does not tell events apart.
    const second = await clients.search.getEvent({ name, time: at("2026-11-20T00:00:00Z", 1_999) });
    expect(second.event?.timeText).toBe(times[1]);
    expect(second.otherTimes).toHaveLength(2);
    const refusal = await refusalOf(clients.search.getEvent({ name, time: at("2026-11-18T00:00:00Z", 0) }));
    expect(refusal).toMatchObject({ code: Code.NotFound, reason: "EVENT_NOT_FOUND" });
  });

  test.each(PROTOCOLS)("says what is not there, and what cannot be, by %s", async (protocol) => {
    const { search } = createClients(weir.baseUrl, token, protocol);
    for (const name of ["events/%2Fs:nowhere", "events/%00:%00"]) {
      const refusal = await refusalOf(search.getEvent({ name }));
      expect(refusal).toMatchObject({ code: Code.NotFound, reason: "EVENT_NOT_FOUND" });
      expect(refusal.message).toContain(name);
    }
    const time = { seconds: 253_402_300_800n, nanos: 0 };
    // JSON cannot even write such a time.
    const request = protocol === "Connect JSON" ? { name: "events/a" } : { name: "events/a", time };
    const refusal = await refusalOf(search.getEvent(request));
    expect(refusal).toMatchObject({ code: Code.InvalidArgument, reason: "INVALID_NAME" });
    const fields = protocol === "Connect JSON" ? ["name"] : ["name", "time"];
    expect(refusal.violations.map(({ field }) => field)).toEqual(fields);
  });

  test.each([
    "",
    "events/",
    "events/:",
    "events/a:",
    "events/:b",
    "events/a:b:c",
    "event/a:b",
    "events/a b:c",
    "events/%zz:a",
    "events/%ff:a",
  ])("refuses the name %j", async (name) => {
    expect(await refusalOf(clients.search.getEvent({ name }))).toMatchObject({ reason: "INVALID_NAME" });
  });
});
