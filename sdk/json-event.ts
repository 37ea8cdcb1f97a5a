import { create } from "@bufbuild/protobuf";
import { TimestampSchema } from "@bufbuild/protobuf/wkt";
import { attributesOf } from "../core/attributes.ts";
import { decodeStructuredJson } from "../core/structured-json.ts";
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
 * byte. Never throws. What it finds is what the server would find; whether `time` is there and within the server's window
 * is the server's to say.
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
    const value = create(TimestampSchema, { seconds: BigInt(time.seconds), nanos: time.nanos });
    attributes.push(["time", { attr: { case: "ceTimestamp", value } }]);
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
