import { create } from "@bufbuild/protobuf";
import { AnySchema } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { parseTimestamp } from "#core/timestamp.ts";
import { type CloudEvent_CloudEventAttributeValue as AttributeValue } from "#gen/io/cloudevents/v1/cloudevents_pb.ts";
import { Stage } from "#gen/weir/v1/event_pb.ts";
import { type ReceivedRecord } from "#kafka/ports.ts";
import { decodeRecord } from "#kafka/record.ts";

import { readTopic } from "../support/topic.ts";
import { startWeir, type Weir } from "../support/weir.ts";
import { createClients, PROTOCOLS } from "./clients.ts";
import { sketch, toBinaryMode, toMessage, toStructured } from "./events.ts";

let weir: Weir;
let token: string;
beforeAll(async () => {
  weir = await startWeir();
  token = await weir.token({ scope: "events.write", sub: "shop@example.com" });
});
afterAll(() => weir[Symbol.asyncDispose]());

const TRACE_PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/** The records of one event on the log, in their order. */
async function recordsOf(id: string): Promise<ReceivedRecord[]> {
  const records = await readTopic(weir.brokers, weir.topic);
  return records.filter(({ headers }) =>
    headers.some(([name, value]) => name === "ce_id" && value?.toString() === id),
  );
}

function headersOf({ headers }: ReceivedRecord): Record<string, string | undefined> {
  return Object.fromEntries(headers.map(([name, value]) => [name, value?.toString()]));
}

describe.each(PROTOCOLS)("CreateEvent by %s", (protocol) => {
  test("answers where the event stands on the log, and there it is", async () => {
    const { ingest } = createClients(weir.baseUrl, token, protocol, {
      traceparent: TRACE_PARENT,
      tracestate: "rojo=00f067aa0ba902b7",
    });
    const source = `/shop/${protocol.replace(/\W/g, "-")}`;
    const event = sketch(
      { source, subject: "ö 1", datacontenttype: "application/json", ext: "x,y" },
      '{"n":1.0}',
    );
    const before = Date.now();
    const { receipt } = await ingest.createEvent({ event: toMessage(event), waitFor: Stage.ACCEPTED });
    const after = Date.now();

    const { id = "", time = "" } = event.attributes;
    const [record, ...others] = await recordsOf(id);
    expect(others).toEqual([]);
    const acceptTime =
      Number(receipt?.acceptTime?.seconds) * 1_000 + Number(receipt?.acceptTime?.nanos) / 1e6;
    expect(receipt).toMatchObject({
      name: `events/${encodeURIComponent(source)}:${id}`,
      partitionKey: `${source}#ö 1`,
      position: { topic: weir.topic, partition: record?.partition, offset: record?.offset },
      stage: Stage.ACCEPTED,
      deadLetter: "",
    });
    expect(acceptTime).toBeGreaterThanOrEqual(before);
    expect(acceptTime).toBeLessThanOrEqual(after);

    expect(record).toMatchObject({ timestamp: acceptTime, value: Buffer.from('{"n":1.0}') });
    expect(record?.key?.toString()).toBe(`${source}#ö 1`);
    expect(headersOf(record!)).toEqual({
      ce_specversion: "1.0",
      ce_id: id,
      ce_source: source,
      ce_type: "com.example.tested",
      ce_subject: "ö 1",
      ce_time: time,
      ce_ext: "x,y",
      "content-type": "application/json",
      "weir-principal": "shop@example.com",
      "weir-accept-time": new Date(acceptTime).toISOString(),
      traceparent: TRACE_PARENT,
      tracestate: "rojo=00f067aa0ba902b7",
    });
  });
});

test("every edge puts the same record on the log", async () => {
  const { ingest } = createClients(weir.baseUrl, token);
  const source = "/same";
  const event = sketch(
    { source, datacontenttype: "application/json", tags: "a,b", ext: "ü%" },
    '{"b":1, "a":[2]}\n',
  );
  // What stands around a JSON value in structured mode is no part of it.
  const bare = { ...event, data: '{"b":1, "a":[2]}' };
  await ingest.createEvent({ event: toMessage(bare) });
  for (const { headers, body } of [toStructured(bare), toBinaryMode(bare)]) {
    const response = await fetch(`${weir.baseUrl}/v1/events`, {
      method: "POST",
      headers: { ...headers, authorization: `Bearer ${token}` },
      body,
    });
    expect(response.status).toBe(200);
  }
  const records = await recordsOf(event.attributes["id"]!);
  expect(records).toHaveLength(3);
  const [first, ...others] = records.map((record) => {
    const { "weir-accept-time": _, ...headers } = headersOf(record);
    return {
      key: record.key?.toString(),
      value: record.value?.toString(),
      headers,
      partition: record.partition,
    };
  });
  for (const other of others) expect(other).toEqual(first);
});

test("an attribute of every kind, and data that are no text, arrive as their canonical form", async () => {
  const { ingest } = createClients(weir.baseUrl, token, "gRPC");
  const message = toMessage(sketch());
  const put = (name: string, attr: AttributeValue["attr"]): void => {
    message.attributes[name] = { $typeName: "io.cloudevents.v1.CloudEvent.CloudEventAttributeValue", attr };
  };
  put("bool", { case: "ceBoolean", value: false });
  put("int", { case: "ceInteger", value: -5 });
  put("bytes", { case: "ceBytes", value: new Uint8Array([0xff, 0xee]) });
  put("uri", { case: "ceUri", value: "https://example.com/a" });
  put("uriref", { case: "ceUriRef", value: "../b" });
  message.data = { case: "binaryData", value: new Uint8Array([0xff, 0x00, 0xfe]) };
  await ingest.createEvent({ event: message });
  const [record] = await recordsOf(message.id);
  expect(headersOf(record!)).toMatchObject({
    ce_bool: "false",
    ce_int: "-5",
    ce_bytes: "/+4=",
    ce_uri: "https://example.com/a",
    ce_uriref: "../b",
  });
  expect(new Uint8Array(record!.value!)).toEqual(new Uint8Array([0xff, 0x00, 0xfe]));
});

test("a protobuf payload keeps its type", async () => {
  const { ingest } = createClients(weir.baseUrl, token, "gRPC");
  const message = toMessage(sketch());
  const typeUrl = "type.googleapis.com/shop.Order";
  message.data = { case: "protoData", value: create(AnySchema, { typeUrl, value: new Uint8Array([8, 1]) }) };
  await ingest.createEvent({ event: message });
  const [record] = await recordsOf(message.id);
  const decoded = decodeRecord(record!);
  expect(decoded.ok && decoded.value.event.data).toEqual({ bytes: Buffer.from([8, 1]), protoType: typeUrl });
});

test("no data, and empty data, stay apart", async () => {
  const { ingest } = createClients(weir.baseUrl, token);
  const [without, empty] = [toMessage(sketch()), toMessage(sketch({}, ""))];
  await Promise.all([without, empty].map((event) => ingest.createEvent({ event })));
  expect((await recordsOf(without.id))[0]?.value).toBeNull();
  expect((await recordsOf(empty.id))[0]?.value).toEqual(Buffer.alloc(0));
});

test("a time keeps its text where the format carries text", async () => {
  const text = new Date().toISOString().replace("Z", "5+00:00");
  const { headers, body } = toStructured(sketch({ id: "time-as-text", time: text }));
  await fetch(`${weir.baseUrl}/v1/events`, {
    method: "POST",
    headers: { ...headers, authorization: `Bearer ${token}` },
    body,
  });
  const [record] = await recordsOf("time-as-text");
  expect(headersOf(record!)["ce_time"]).toBe(text);
  expect(parseTimestamp(text)?.nanos).toBeGreaterThan(0);
});

test("a repeat is acknowledged again", async () => {
  const { ingest } = createClients(weir.baseUrl, token);
  const event = toMessage(sketch());
  const [first, second] = [await ingest.createEvent({ event }), await ingest.createEvent({ event })];
  expect(second.receipt?.name).toBe(first.receipt?.name);
  expect(second.receipt?.position?.offset).toBeGreaterThan(first.receipt!.position!.offset);
});

test("events of one key keep the order in which they were sent, each waiting for the one before", async () => {
  const { ingest } = createClients(weir.baseUrl, token);
  const offsets: bigint[] = [];
  for (let index = 0; index < 20; index += 1) {
    const { receipt } = await ingest.createEvent({ event: toMessage(sketch({ source: "/ordered" })) });
    offsets.push(receipt!.position!.offset);
  }
  expect(offsets).toEqual(offsets.toSorted((a, b) => Number(a - b)));
});

test("a trace context that does not conform costs no event", async () => {
  const { ingest } = createClients(weir.baseUrl, token, "Connect JSON", {
    traceparent: "00-0-0-0",
    tracestate: "a=b",
  });
  const event = toMessage(sketch());
  await ingest.createEvent({ event });
  expect(headersOf((await recordsOf(event.id))[0]!)).not.toHaveProperty("traceparent");
});

test("what came in is measured", async () => {
  const page = await (await fetch(`${weir.baseUrl}/metrics`)).text();
  const accepted = (protocol: string): number =>
    Number(
      new RegExp(
        `^weir_ingest_events_total\\{protocol="${protocol}",outcome="accepted"\\} (\\d+)$`,
        "m",
      ).exec(page)?.[1],
    );
  expect(accepted("rpc")).toBeGreaterThan(20);
  expect(accepted("http")).toBeGreaterThan(2);
  expect(page).toContain('weir_ingest_event_size_bucket{protocol="rpc",le="256"}');
});
