import { create } from "@bufbuild/protobuf";
import { TimestampSchema } from "@bufbuild/protobuf/wkt";
import { attributesOf } from "../core/attributes.ts";
import { encodeBase64 } from "../core/base64.ts";
import { decodeEventMessage } from "../core/event-message.ts";
import { createFaults } from "../core/faults.ts";
import { decodeStructuredJson, toStructuredJson } from "../core/structured-json.ts";
import { timestampFrom } from "../core/timestamp.ts";
import { type Violation } from "./error.ts";
import {
  type CloudEvent,
  type CloudEvent_CloudEventAttributeValue as AttributeValue,
  CloudEventSchema,
} from "./gen/io/cloudevents/v1/cloudevents_pb.ts";

/** An event that was read, or every fault for which it is none. */
export type ParsedEvent =
  | { readonly event: CloudEvent; readonly violations?: undefined }
  | { readonly event?: undefined; readonly violations: readonly Violation[] };

/** What has a field of its own in the message, and what is no text there. */
const OWN_FIELDS: readonly string[] = ["id", "source", "specversion", "type", "time"];

/**
 * Reads an event in CloudEvents' JSON format, as text or as its UTF-8. JSON data are kept as they are written, byte for
 * byte, and so is `time`, as text where a protobuf timestamp would change it. Never throws. What it finds is what the
 * server would find; whether `time` is there and within the server's window is the server's to say.
 *
 * @example
 * ```ts
 * const { event, violations } = parseCloudEvent(line);
 * if (event === undefined) throw new Error(violations.map(({ description }) => description).join(" "));
 * ```
 */
export function parseCloudEvent(json: string | Uint8Array): ParsedEvent {
  const decoded = decodeStructuredJson(typeof json === "string" ? new TextEncoder().encode(json) : json);
  if (!decoded.ok) {
    return {
      violations: decoded.faults.map(({ field, description, reason }) => ({ field, description, reason })),
    };
  }
  const { id, source, type, time, data } = decoded.value;
  const attributes: [name: string, value: { attr: AttributeValue["attr"] }][] = [];
  for (const [name, value] of attributesOf(decoded.value)) {
    if (OWN_FIELDS.includes(name)) continue;
    attributes.push([name, { attr: { case: name === "dataschema" ? "ceUri" : "ceString", value } }]);
  }
  if (time !== undefined) {
    const { text, seconds, nanos } = time;
    const isExact = timestampFrom(seconds, nanos).text === text;
    const value = create(TimestampSchema, { seconds: BigInt(seconds), nanos });
    attributes.push([
      "time",
      { attr: isExact ? { case: "ceTimestamp", value } : { case: "ceString", value: text } },
    ]);
  }
  const event = create(CloudEventSchema, {
    id,
    source,
    specVersion: "1.0",
    type,
    attributes: Object.fromEntries(attributes),
    data: data === undefined ? { case: undefined } : { case: "binaryData", value: data.bytes },
  });
  return { event };
}

/**
 * Writes an event in CloudEvents' JSON format, on one line; `parseCloudEvent` gives it back, its payload byte for byte. The
 * payload is in `data` where that keeps every byte, else in `data_base64`; of a protobuf payload (proto_data) it is the
 * message's own bytes, whose type the format has no place for.
 *
 * Throws a TypeError, naming every fault, for a message that is no CloudEvent, which no answer of Weir holds.
 *
 * @example
 * ```ts
 * for await (const { events } of weir.search.exportEvents({ filter: 'type = "com.acme.order.*"' })) {
 *   for (const { cloudEvent } of events) if (cloudEvent) console.log(formatCloudEvent(cloudEvent));
 * }
 * ```
 */
export function formatCloudEvent(event: CloudEvent): string {
  const attributes = Object.entries(event.attributes).map(([name, { attr }]) => [name, attr] as const);
  const decoded = decodeEventMessage({ ...event, attributes }, createFaults());
  if (!decoded.ok) throw new TypeError(decoded.faults.map(({ description }) => description).join(" "));
  const { data } = decoded.value;
  const text = toStructuredJson(decoded.value);
  // Line breaks of a JSON payload, the only ones there can be, belong to its bytes.
  if (data === undefined || !/[\n\r]/.test(text)) return text;
  const head = toStructuredJson({ ...decoded.value, data: undefined }).slice(0, -1);
  return `${head},"data_base64":"${encodeBase64(data.bytes)}"}`;
}
