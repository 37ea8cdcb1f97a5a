import { type Decoded } from "./attributes.ts";
import { decodeBatchJson } from "./batch-json.ts";
import { decodeBatchProtobuf } from "./batch-protobuf.ts";
import { quote, refuse } from "./faults.ts";
import { decodeHttpBinary, type HttpHeaders, httpContentMode } from "./http-binary.ts";
import { type Result } from "./reason.ts";
import { decodeStructuredJson } from "./structured-json.ts";
import { decodeStructuredProtobuf } from "./structured-protobuf.ts";

/** An event format that can be read and written. */
export type EventFormat = "json" | "protobuf";

/** What an HTTP message carries: one event, or a batch. `Decoded` may be a refusal, of that one event. */
export type HttpEvents =
  | { readonly mode: "binary"; readonly event: Decoded }
  | { readonly mode: "structured"; readonly format: EventFormat; readonly event: Decoded }
  | { readonly mode: "batch"; readonly format: EventFormat; readonly events: readonly Decoded[] };

/**
 * Decodes what an HTTP message carries, in the content mode that its headers say (HTTP binding § 3). Never throws and takes
 * linear time. Payloads may share memory with the body.
 *
 * Refused whole, with the field "": UNKNOWN_MODE where the message is no CloudEvent, UNSUPPORTED_MEDIA_TYPE for an event
 * format that is not known, MALFORMED for a Content-Type that comes twice and for a batch whose events cannot be told apart,
 * TOO_LARGE for one of more than `maxEvents`.
 */
export function decodeHttp(
  headers: HttpHeaders,
  body: Uint8Array,
  { maxEvents }: { readonly maxEvents: number },
): Result<HttpEvents> {
  const contentMode = httpContentMode(headers);
  const { mode } = contentMode;
  if (mode === "unknown") return refuse("", "UNKNOWN_MODE", `The message is no CloudEvent. ${TAKEN}`);
  if (mode === "binary") return { ok: true, value: { mode, event: decodeHttpBinary(headers, body) } };
  const { format } = contentMode;
  if (format !== "json" && format !== "protobuf") {
    const problem = `Events in the format ${quote(format)} are not taken.`;
    return refuse("", "UNSUPPORTED_MEDIA_TYPE", `${problem} ${TAKEN}`);
  }
  if (isContentTypeRepeated(headers)) {
    return refuse("", "MALFORMED", "The header Content-Type is given more than once; give it once.");
  }
  if (mode === "structured") {
    const event = format === "json" ? decodeStructuredJson(body) : decodeStructuredProtobuf(body);
    return { ok: true, value: { mode, format, event } };
  }
  const events = format === "json" ? decodeBatchJson(body, maxEvents) : decodeBatchProtobuf(body, maxEvents);
  return events.ok ? { ok: true, value: { mode, format, events: events.value } } : events;
}

const TAKEN =
  "Send an event as application/cloudevents+json or application/cloudevents+protobuf, or its attributes as ce- headers (ce-specversion: 1.0, …) with its data as the body; or many as application/cloudevents-batch+json or application/cloudevents-batch+protobuf.";

function isContentTypeRepeated(headers: HttpHeaders): boolean {
  let count = 0;
  for (const [name] of headers) if (name.toLowerCase() === "content-type") count += 1;
  return count > 1;
}
