import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { AnySchema } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { attributeOf, cloudEvent, type CloudEventInit, dataOf } from "./cloud-event.ts";
import { type CloudEvent, CloudEventSchema } from "./gen/io/cloudevents/v1/cloudevents_pb.ts";

const ORDER = {
  id: "1",
  source: "/shop",
  type: "com.acme.order.placed",
  time: "2026-11-01T09:30:00Z",
} as const;

/** The event as the other side reads it. */
function sent(init: Partial<CloudEventInit>): CloudEvent {
  return fromBinary(CloudEventSchema, toBinary(CloudEventSchema, cloudEvent({ ...ORDER, ...init })));
}

test("carries every attribute in its CloudEvents type", () => {
  const event = sent({
    subject: "order-17",
    datacontenttype: "application/json",
    dataschema: "https://acme.example/order.json",
    extensions: {
      severitytext: "WARN",
      sequence: -3,
      sampled: false,
      due: new Date("2026-12-01T00:00:00.250Z"),
      digest: new Uint8Array([0xff, 0x00]),
    },
  });
  expect([event.id, event.source, event.specVersion, event.type]).toEqual(["1", "/shop", "1.0", ORDER.type]);
  expect(
    Object.fromEntries(Object.entries(event.attributes).map(([name, value]) => [name, value.attr.case])),
  ).toEqual({
    time: "ceTimestamp",
    subject: "ceString",
    datacontenttype: "ceString",
    dataschema: "ceUri",
    severitytext: "ceString",
    sequence: "ceInteger",
    sampled: "ceBoolean",
    due: "ceTimestamp",
    digest: "ceBytes",
  });
  const text = (name: string): string | undefined => attributeOf(event, name);
  expect(["subject", "dataschema", "sequence", "sampled", "due", "digest"].map(text)).toEqual([
    "order-17",
    "https://acme.example/order.json",
    "-3",
    "false",
    "2026-12-01T00:00:00.250Z",
    "/wA=",
  ]);
});

test("leaves out what was not given", () => {
  const event = sent({ subject: undefined, extensions: undefined });
  expect(Object.keys(event.attributes)).toEqual(["time"]);
  expect(event.data.case).toBeUndefined();
  expect(attributeOf(event, "subject")).toBeUndefined();
  expect(attributeOf(event, "toString")).toBeUndefined();
  expect(attributeOf(undefined, "subject")).toBeUndefined();
});

test.each([
  ["2026-11-01T09:30:00Z", "2026-11-01T09:30:00Z"],
  ["2026-11-01T10:30:00.123456789+01:00", "2026-11-01T09:30:00.123456789Z"],
  ["1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59.500Z"],
  [new Date("1969-12-31T23:59:59.999Z"), "1969-12-31T23:59:59.999Z"],
])("sends the time %s in UTC, to the nanosecond", (time, utc) => {
  expect(attributeOf(sent({ time }), "time")).toBe(utc);
});

test("gives data back byte for byte, and tells empty from none", () => {
  const bytes = new Uint8Array([0x00, 0xff, 0xc3, 0x28]);
  expect(dataOf(sent({ data: bytes }))).toEqual(bytes);
  expect(dataOf(sent({ data: "grün" }))).toEqual(new TextEncoder().encode("grün"));
  expect(dataOf(sent({ data: new Uint8Array() }))).toEqual(new Uint8Array());
  expect(dataOf(sent({ data: "" }))).toEqual(new Uint8Array());
  expect(dataOf(sent({}))).toBeUndefined();
  expect(dataOf(undefined)).toBeUndefined();
  const value = create(AnySchema, { typeUrl: "type.googleapis.com/acme.Order", value: bytes });
  expect(dataOf(create(CloudEventSchema, { data: { case: "protoData", value } }))).toEqual(bytes);
});

test.each<[string, Partial<CloudEventInit>]>([
  ["time", { time: new Date(Number.NaN) }],
  ["time", { time: "2026-11-01 09:30" }],
  ["time", { time: "2026-02-30T00:00:00Z" }],
  ["due", { extensions: { due: new Date("never") } }],
  ["big", { extensions: { big: 2 ** 31 } }],
  ["half", { extensions: { half: 0.5 } }],
  ["none", { extensions: { none: Number.NaN } }],
  ["subject", { extensions: { subject: "order-17" } }],
  ["specversion", { extensions: { specversion: "1.0" } }],
  ["id", { id: "\ud800" }],
  ["note", { extensions: { note: "\udc00" } }],
  ["data", { data: "\ud800" }],
])("refuses to alter %s silently (%o)", (name, init) => {
  expect(() => sent(init)).toThrow(new RegExp(`^${name} `));
  expect(() => sent(init)).toThrow(TypeError);
});

test("keeps an extension of any name, be it one of JavaScript's own", () => {
  const extensions = JSON.parse('{"__proto__": "kept", "constructor": "kept"}') as Record<string, string>;
  expect(attributeOf(sent({ extensions }), "constructor")).toBe("kept");
  expect(Object.keys(cloudEvent({ ...ORDER, extensions }).attributes)).toContain("__proto__");
});
