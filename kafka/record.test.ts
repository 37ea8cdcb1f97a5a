import { describe, expect, test } from "vitest";

import { type AcceptedEvent } from "#core/event.ts";
import { parseTimestamp } from "#core/timestamp.ts";

import { type ReceivedRecord, type RecordHeader } from "./ports.ts";
import { decodeRecord, encodeRecord } from "./record.ts";

const accepted: AcceptedEvent = {
  event: {
    id: "1",
    source: "/orders",
    type: "com.example.order",
    subject: "order 7",
    time: parseTimestamp("2026-11-01T10:00:00.5+01:00"),
    datacontenttype: "application/json",
    dataschema: undefined,
    extensions: new Map([["tenant", "acmé"]]),
    data: { bytes: Buffer.from('{"total": 1.10}'), protoType: undefined },
  },
  acceptTime: 1_793_530_800_123,
  principal: "älice",
  traceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  traceState: "vendor=1",
};
const text = (bytes: Uint8Array | null | undefined): string => Buffer.from(bytes ?? []).toString();

function received(record: Partial<ReceivedRecord>): ReceivedRecord {
  return {
    topic: "t",
    partition: 2,
    offset: 9n,
    key: null,
    value: null,
    headers: [],
    timestamp: 77,
    ...record,
  };
}

describe("the record of an event", () => {
  test("is keyed by its partition key, timed by its accept time, and carries what Weir knows in headers", () => {
    const record = encodeRecord(accepted, "t", 12);
    expect(text(record.key)).toBe("/orders#order 7");
    expect(record).toMatchObject({ topic: "t", timestamp: 1_793_530_800_123 });
    const headers = Object.fromEntries(record.headers.map(([name, value]) => [name, text(value)]));
    expect(headers).toMatchObject({
      ce_id: "1",
      ce_tenant: "acmé",
      "content-type": "application/json",
      "weir-principal": "älice",
      "weir-accept-time": "2026-11-01T11:00:00.123Z",
      traceparent: accepted.traceParent,
      tracestate: "vendor=1",
    });
    expect(text(record.value)).toBe('{"total": 1.10}');
  });

  test("goes where Java's client puts the same key", () => {
    // By org.apache.kafka.clients.producer.internals.BuiltInPartitioner.partitionForKey.
    const { event } = accepted;
    const keyed = (key: string): AcceptedEvent => ({
      ...accepted,
      event: { ...event, extensions: new Map([["partitionkey", key]]) },
    });
    expect(["a", "21", "foobar"].map((key) => encodeRecord(keyed(key), "t", 12).partition)).toEqual([
      4, 0, 6,
    ]);
  });

  test("has the key's own attribute as well, and no attribute that the event has not", () => {
    const extensions = new Map([["partitionkey", "tenant 1"]]);
    const record = encodeRecord({ ...accepted, event: { ...accepted.event, extensions } }, "t", 12);
    expect(text(record.key)).toBe("tenant 1");
    const names = record.headers.map(([name]) => name).filter((name) => name.startsWith("ce_"));
    const core = ["specversion", "id", "source", "type", "subject", "time"];
    expect(names).toEqual([...core, "partitionkey"].map((name) => `ce_${name}`));
  });

  test("gives the event back, with its place", () => {
    const { timestamp: _timestamp, ...record } = encodeRecord(accepted, "t", 12);
    expect(decodeRecord(received({ ...record, offset: 5n }))).toEqual({
      ok: true,
      value: { ...accepted, position: { topic: "t", partition: record.partition, offset: 5n } },
    });
  });

  test("of another producer has no principal, and was accepted when the record was made", () => {
    const headers: RecordHeader[] = [
      ["ce_specversion", Buffer.from("1.0")],
      ["ce_id", Buffer.from("1")],
      ["ce_source", Buffer.from("/elsewhere")],
      ["ce_type", Buffer.from("t")],
      ["weir-accept-time", Buffer.from("yesterday")],
      ["weir-principal", Buffer.from([0xff])],
    ];
    const decoded = decodeRecord(received({ headers }));
    expect(decoded).toMatchObject({
      ok: true,
      value: { principal: "", acceptTime: 77, traceParent: undefined },
    });
  });

  test.each([
    ["a NUL in its principal", "weir-principal", "al\0ice"],
    ["a line break in its principal", "weir-principal", "alice\nbob"],
    ["a NUL in its traceparent", "traceparent", `${accepted.traceParent ?? ""}\0`],
    ["a traceparent that is none", "traceparent", "yesterday"],
    ["a NUL in its tracestate", "tracestate", "vendor=\0"],
  ])("of another producer with %s is taken without it", (_, name, value) => {
    const { headers, ...record } = encodeRecord(accepted, "t", 12);
    const others = headers.filter(([other]) => other !== name);
    const decoded = decodeRecord(received({ ...record, headers: [...others, [name, Buffer.from(value)]] }));
    const lost = {
      "weir-principal": { principal: "" },
      traceparent: { traceParent: undefined, traceState: undefined },
      tracestate: { traceParent: accepted.traceParent, traceState: undefined },
    };
    expect(decoded).toMatchObject({ ok: true, value: lost[name as keyof typeof lost] });
  });

  test("is refused where it is no event, and where the decoder itself fails", () => {
    expect(decodeRecord(received({}))).toMatchObject({ ok: false, faults: [{ reason: "UNKNOWN_MODE" }] });
    const hostile = received({});
    Object.defineProperty(hostile, "headers", {
      get() {
        throw new Error("a fault of our own");
      },
    });
    expect(decodeRecord(hostile)).toMatchObject({
      ok: false,
      faults: [{ reason: "DECODER_FAULT", description: "The decoder failed: a fault of our own" }],
    });
  });
});
