import { create, toJson } from "@bufbuild/protobuf";
import { base64Encode } from "@bufbuild/protobuf/wire";
import { timestampFromDate, TimestampSchema } from "@bufbuild/protobuf/wkt";
import { parseTimestamp } from "../core/timestamp.ts";
import { type CloudEvent, CloudEventSchema } from "./gen/io/cloudevents/v1/cloudevents_pb.ts";

/** The value of an extension attribute: text, a 32-bit integer, a boolean, a time (to the millisecond) or bytes. */
export type ExtensionValue = string | number | boolean | Date | Uint8Array;

/** What an event is made of. Weir requires id, source, type and time; nothing is filled in for you. */
export interface CloudEventInit {
  /** Identifies the event within its source: the same source, id and time again is the same event, stored once. */
  readonly id: string;
  /** Where it happened, a URI reference such as "/shop/checkout". */
  readonly source: string;
  /** What happened, such as "com.acme.order.placed". */
  readonly type: string;
  /** When it happened: a Date, or RFC 3339 text where milliseconds are not enough. It is sent in UTC. */
  readonly time: Date | string;
  /** What it happened to, within the source. Events of one source and subject stay in order. */
  readonly subject?: string | undefined;
  /** The media type of data, such as "application/json". */
  readonly datacontenttype?: string | undefined;
  /** The schema that data adheres to, an absolute URI. */
  readonly dataschema?: string | undefined;
  /** The payload, kept byte for byte: bytes, or text that is sent as UTF-8. Write JSON with JSON.stringify. */
  readonly data?: Uint8Array | string | undefined;
  /** Extension attributes by name, such as `{ severitytext: "WARN", tags: "eu,retail" }`. */
  readonly extensions?: Readonly<Record<string, ExtensionValue>> | undefined;
}

const OWN_FIELD = [
  "id",
  "source",
  "specversion",
  "type",
  "subject",
  "time",
  "datacontenttype",
  "dataschema",
  "data",
];

type Attribute = CloudEvent["attributes"][string]["attr"];

/**
 * The message for an event, to hand to `ingest.createEvent`.
 *
 * Throws a TypeError, naming the attribute, for what a message cannot carry: a time that is neither a valid Date nor
 * RFC 3339 text, a number that is no 32-bit integer, text with a lone surrogate, an extension named as an attribute of
 * CloudEvents itself. Everything else is the server's to check.
 *
 * @example
 * ```ts
 * const event = cloudEvent({
 *   id: "order-17",
 *   source: "/shop",
 *   type: "com.acme.order.placed",
 *   time: new Date(),
 *   datacontenttype: "application/json",
 *   data: JSON.stringify({ amount: 120 }),
 * });
 * ```
 */
export function cloudEvent(init: CloudEventInit): CloudEvent {
  const attributes: [name: string, value: { attr: Attribute }][] = [
    ["time", { attr: timeAttribute(init.time) }],
  ];
  for (const name of ["subject", "datacontenttype"] as const) {
    const value = init[name];
    if (value !== undefined) attributes.push([name, { attr: textAttribute(name, value) }]);
  }
  if (init.dataschema !== undefined) {
    attributes.push([
      "dataschema",
      { attr: { case: "ceUri", value: wellFormed("dataschema", init.dataschema) } },
    ]);
  }
  for (const [name, value] of Object.entries(init.extensions ?? {})) {
    if (OWN_FIELD.includes(name)) throw new TypeError(`${name} is no extension: give it beside extensions`);
    attributes.push([name, { attr: extensionAttribute(name, value) }]);
  }
  return create(CloudEventSchema, {
    id: wellFormed("id", init.id),
    source: wellFormed("source", init.source),
    specVersion: "1.0",
    type: wellFormed("type", init.type),
    attributes: Object.fromEntries(attributes),
    data: dataField(init.data),
  });
}

/**
 * The payload as bytes, exactly as its producer sent it; undefined where the event has none, which differs from empty.
 * Of a protobuf payload (proto_data) it is the message's own bytes.
 *
 * @example
 * ```ts
 * const { event } = await weir.search.getEvent({ name });
 * const order: unknown = JSON.parse(new TextDecoder().decode(dataOf(event?.cloudEvent)));
 * ```
 */
export function dataOf(event: CloudEvent | undefined): Uint8Array | undefined {
  switch (event?.data.case) {
    case "binaryData":
      return event.data.value;
    case "textData":
      return new TextEncoder().encode(event.data.value);
    case "protoData":
      return event.data.value.value;
    default:
      return undefined;
  }
}

/**
 * An attribute's value as its CloudEvents string: subject, time (RFC 3339, UTC), datacontenttype, dataschema or an
 * extension; undefined where the event does not have it. Throws an Error for a time outside the years 0001 to 9999, which no
 * stored event has.
 *
 * @example
 * ```ts
 * attributeOf(event, "subject"); // "order-17"
 * ```
 */
export function attributeOf(event: CloudEvent | undefined, name: string): string | undefined {
  if (event === undefined || !Object.hasOwn(event.attributes, name)) return undefined;
  const attr = event.attributes[name]?.attr;
  if (attr?.case === undefined) return undefined;
  switch (attr.case) {
    case "ceTimestamp":
      return toJson(TimestampSchema, attr.value);
    case "ceBytes":
      return base64Encode(attr.value);
    default:
      return String(attr.value);
  }
}

function timeAttribute(time: Date | string): Attribute {
  if (typeof time !== "string") return dateAttribute("time", time);
  const parsed = parseTimestamp(time);
  if (parsed === undefined) {
    throw new TypeError(
      `time must be an RFC 3339 date and time, such as "2026-11-01T09:30:00Z", not "${time}"`,
    );
  }
  const { seconds, nanos } = parsed;
  return { case: "ceTimestamp", value: create(TimestampSchema, { seconds: BigInt(seconds), nanos }) };
}

function dateAttribute(name: string, value: Date): Attribute {
  if (Number.isNaN(value.getTime())) throw new TypeError(`${name} is an invalid Date`);
  return { case: "ceTimestamp", value: timestampFromDate(value) };
}

function textAttribute(name: string, value: string): Attribute {
  return { case: "ceString", value: wellFormed(name, value) };
}

function extensionAttribute(name: string, value: ExtensionValue): Attribute {
  if (typeof value === "string") return textAttribute(name, value);
  if (typeof value === "boolean") return { case: "ceBoolean", value };
  if (value instanceof Date) return dateAttribute(name, value);
  if (value instanceof Uint8Array) return { case: "ceBytes", value };
  if (Number.isInteger(value) && value === (value | 0)) return { case: "ceInteger", value };
  throw new TypeError(
    `${name} must be text, a 32-bit integer, a boolean, a Date or bytes, not ${String(value)}`,
  );
}

function dataField(data: Uint8Array | string | undefined): CloudEvent["data"] {
  if (data === undefined) return { case: undefined };
  if (typeof data === "string") return { case: "textData", value: wellFormed("data", data) };
  return { case: "binaryData", value: data };
}

/**
 * Whether all text in a message, however deep, has UTF-8: a lone surrogate has none, and encoding would silently put U+FFFD
 * in its place, so that two ids could become one.
 */
export function isWellFormed(value: unknown): boolean {
  if (typeof value === "string") return value.isWellFormed();
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return true;
  // Every event comes by here: no list is made of what it has.
  for (const name in value) {
    if (!name.isWellFormed() || !isWellFormed((value as Record<string, unknown>)[name])) return false;
  }
  return true;
}

function wellFormed(name: string, text: string): string {
  if (!text.isWellFormed()) throw new TypeError(`${name} holds a lone surrogate, which has no UTF-8`);
  return text;
}
