import { create, toBinary } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";

import {
  type CloudEvent,
  CloudEventBatchSchema,
  CloudEventSchema,
} from "#gen/io/cloudevents/v1/cloudevents_pb.ts";

import { parseTimestamp } from "../../core/timestamp.ts";

/** An event as a sender has it in mind: attributes as text, specversion too, and data as text. */
export interface Sketch {
  readonly attributes: Readonly<Record<string, string>>;
  readonly data: string | undefined;
}

const OWN_FIELDS = ["id", "source", "specversion", "type"];
let serial = 0;

/** A sound event of this moment with an id of its own; undefined leaves an attribute out. */
export function sketch(attributes: Readonly<Record<string, string | undefined>> = {}, data?: string): Sketch {
  serial += 1;
  const all = {
    specversion: "1.0",
    id: `e-${process.pid}-${serial}`,
    source: "/test/server",
    type: "com.example.tested",
    time: new Date().toISOString(),
    ...attributes,
  };
  return { attributes: Object.fromEntries(Object.entries(all).filter(isGiven)), data };
}

function isGiven(entry: [string, string | undefined]): entry is [string, string] {
  return entry[1] !== undefined;
}

/** The event as the message of the contract. */
export function toMessage({ attributes, data }: Sketch): CloudEvent {
  const { id = "", source = "", specversion = "", type = "" } = attributes;
  const others = Object.entries(attributes).filter(([name]) => !OWN_FIELDS.includes(name));
  return create(CloudEventSchema, {
    id,
    source,
    specVersion: specversion,
    type,
    attributes: Object.fromEntries(others.map(([name, value]) => [name, { attr: toAttribute(name, value) }])),
    data: data === undefined ? { case: undefined } : { case: "textData", value: data },
  });
}

function toAttribute(name: string, value: string): CloudEvent["attributes"][string]["attr"] {
  const time = name === "time" ? parseTimestamp(value) : undefined;
  if (time === undefined) return { case: "ceString", value };
  const timestamp = timestampFromDate(new Date(time.seconds * 1000));
  timestamp.nanos = time.nanos;
  return { case: "ceTimestamp", value: timestamp };
}

/** What goes into fetch. */
export interface HttpEvent {
  readonly headers: Record<string, string>;
  readonly body: string | Uint8Array<ArrayBuffer>;
}

/** What goes into fetch, as text. */
export interface TextEvent extends HttpEvent {
  readonly body: string;
}

/** The event in structured mode, as JSON; its data as the JSON that they are. */
export function toStructured({ attributes, data }: Sketch): TextEvent {
  const members = Object.entries(attributes).map(
    ([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`,
  );
  if (data !== undefined) members.push(`"data":${data}`);
  return { headers: { "content-type": "application/cloudevents+json" }, body: `{${members.join(",")}}` };
}

/** The event in structured mode, as protobuf. */
export function toStructuredProtobuf(event: Sketch): HttpEvent {
  return {
    headers: { "content-type": "application/cloudevents+protobuf" },
    body: Buffer.from(toBinary(CloudEventSchema, toMessage(event))),
  };
}

/** The events as a batch of JSON. */
export function toJsonBatch(events: readonly Sketch[]): TextEvent {
  const body = `[${events.map((event) => toStructured(event).body).join(",")}]`;
  return { headers: { "content-type": "application/cloudevents-batch+json" }, body };
}

/** The events as a batch of protobuf. */
export function toProtobufBatch(events: readonly Sketch[]): HttpEvent {
  const batch = create(CloudEventBatchSchema, { events: events.map(toMessage) });
  return {
    headers: { "content-type": "application/cloudevents-batch+protobuf" },
    body: Buffer.from(toBinary(CloudEventBatchSchema, batch)),
  };
}

/** The event in binary mode. */
export function toBinaryMode({ attributes, data = "" }: Sketch): TextEvent {
  const headers = Object.entries(attributes).map(([name, value]) => [
    name === "datacontenttype" ? "content-type" : `ce-${name}`,
    encodeURI(value),
  ]);
  return { headers: Object.fromEntries(headers) as Record<string, string>, body: data };
}
