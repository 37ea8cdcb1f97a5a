import { type Decoded, MAX_ATTRIBUTES } from "./attributes.ts";
import { type CloudEvent } from "./event.ts";
import { refuse, tooManyEvents } from "./faults.ts";
import { readJsonObjects } from "./json.ts";
import { type Result } from "./reason.ts";
import { decodeMembers, jsonDocument, toStructuredJson } from "./structured-json.ts";
import { encodeUtf8 } from "./utf8.ts";

/** The media type of events in the JSON batch format. */
export const BATCH_JSON = "application/cloudevents-batch+json";

/**
 * Decodes events in the JSON batch format (CloudEvents 1.0.2, JSON format § 4), each for itself as `decodeStructuredJson`
 * does: one that is at fault spoils no other. Where the document as a whole is no JSON array in UTF-8 there are no events to
 * tell apart, and it is refused whole (MALFORMED); so is one of more than `maxEvents` (TOO_LARGE), of which none is decoded.
 * Never throws and takes linear time.
 */
export function decodeBatchJson(bytes: Uint8Array, maxEvents: number): Result<readonly Decoded[]> {
  const document = jsonDocument(bytes);
  if (document === undefined) {
    return refuse("", "MALFORMED", "The batch is not UTF-8, which JSON must be (RFC 8259 § 8.1).");
  }
  const array = readJsonObjects(document.text, maxEvents, MAX_ATTRIBUTES);
  if (!array.ok) return refuse("", "MALFORMED", `The batch ${array.description}.`);
  if (array.count > maxEvents) return tooManyEvents(array.count, maxEvents);
  const events = array.value.map((members): Decoded =>
    members === undefined
      ? refuse("", "MALFORMED", "The event is not a JSON object.")
      : decodeMembers(members, document),
  );
  return { ok: true, value: events };
}

/** Encodes events in the JSON batch format, each as `encodeStructuredJson` does. */
export function encodeBatchJson(events: readonly CloudEvent[]): Uint8Array {
  return encodeUtf8(`[${events.map(toStructuredJson).join(",")}]`);
}
