import { create, toBinary } from "@bufbuild/protobuf";

import { type CloudEvent, CloudEventSchema } from "#gen/io/cloudevents/v1/cloudevents_pb.ts";
import { BatchCreateEventsRequestSchema, CreateEventRequestSchema } from "#gen/weir/v1/ingest_pb.ts";

import { cloudEvent } from "../sdk/index.ts";

/** How large an event is as a protobuf message. */
export const EVENT_BYTES = 600;

/** Events of EVENT_BYTES bytes, of this moment, over 100 keys. */
export function sampleEvents(count: number): CloudEvent[] {
  return Array.from({ length: count }, (_, index) => {
    const event = (padding: string): CloudEvent =>
      cloudEvent({
        id: `bench-${String(index).padStart(8, "0")}`,
        source: `/bench/source-${String(index % 100).padStart(2, "0")}`,
        type: "com.example.order.placed",
        time: new Date(),
        datacontenttype: "application/json",
        data: JSON.stringify({ order: index + 100_000, currency: "EUR", total: 4_999, note: padding }),
      });
    const spare = EVENT_BYTES - toBinary(CloudEventSchema, event("")).byteLength;
    return event("x".repeat(spare));
  });
}

/** Where a request goes, and what it is. */
export interface RequestParts {
  readonly path: string;
  readonly token: string;
  readonly contentType: string;
  readonly body: Uint8Array;
}

/** The bytes of an HTTP/1.1 request, as the load generator takes them. */
export function requestBytes({ path, token, contentType, body }: RequestParts): string {
  const lines = [
    `POST ${path} HTTP/1.1`,
    "host: 127.0.0.1",
    `authorization: Bearer ${token}`,
    `content-type: ${contentType}`,
    `content-length: ${body.byteLength}`,
  ];
  return Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`), body]).toString("base64");
}

/** A CreateEvent of the Connect protocol in protobuf. */
export function unaryRequest(token: string): string {
  const [event] = sampleEvents(1);
  const body = toBinary(CreateEventRequestSchema, create(CreateEventRequestSchema, { event: event! }));
  return requestBytes({
    path: "/weir.v1.IngestService/CreateEvent",
    token,
    contentType: "application/proto",
    body,
  });
}

/** A BatchCreateEvents of the Connect protocol in protobuf. */
export function batchRequest(token: string, count: number): string {
  const message = create(BatchCreateEventsRequestSchema, { events: sampleEvents(count) });
  return requestBytes({
    path: "/weir.v1.IngestService/BatchCreateEvents",
    token,
    contentType: "application/proto",
    body: toBinary(BatchCreateEventsRequestSchema, message),
  });
}

/** An event of the HTTP binding, structured as JSON. */
export function jsonRequest(token: string): string {
  const [event] = sampleEvents(1);
  const data = event!.data.case === "textData" ? event!.data.value : "null";
  const { id, source, type } = event!;
  const attributes = {
    specversion: "1.0",
    id,
    source,
    type,
    time: new Date().toISOString(),
    datacontenttype: "application/json",
  };
  const text = `${JSON.stringify(attributes).slice(0, -1)},"data":${data}}`;
  return requestBytes({
    path: "/v1/events",
    token,
    contentType: "application/cloudevents+json",
    body: Buffer.from(text),
  });
}

/** An event of the HTTP binding, structured as protobuf. */
export function protobufRequest(token: string): string {
  const [event] = sampleEvents(1);
  return requestBytes({
    path: "/v1/events",
    token,
    contentType: "application/cloudevents+protobuf",
    body: toBinary(CloudEventSchema, event!),
  });
}
