import { type Decoded } from "./attributes.ts";
import { encodedSize, lengthDelimited } from "./encoded-size.ts";
import { type CloudEvent } from "./event.ts";
import { refuse, tooManyEvents } from "./faults.ts";
import { fieldNumber, lengthTag, readFields } from "./protobuf-reader.ts";
import { createProtobufWriter } from "./protobuf-writer.ts";
import { type Result } from "./reason.ts";
import { decodeStructuredProtobuf, encodeStructuredProtobuf } from "./structured-protobuf.ts";

/** The media type of events in the protobuf batch format. */
export const BATCH_PROTOBUF = "application/cloudevents-batch+protobuf";

/** The one field of io.cloudevents.v1.CloudEventBatch. */
const EVENTS = lengthTag(1);

/**
 * Decodes an io.cloudevents.v1.CloudEventBatch (CloudEvents protobuf format § 5), each event for itself as
 * `decodeStructuredProtobuf` does: one that is at fault, or no message, spoils no other. Bytes that cannot be told apart into
 * events are refused whole (MALFORMED); so are more than `maxEvents` (TOO_LARGE), of which none is decoded. Never throws and
 * takes linear time. Payloads share memory with the bytes.
 */
export function decodeBatchProtobuf(bytes: Uint8Array, maxEvents: number): Result<readonly Decoded[]> {
  const places: (readonly [start: number, end: number])[] = [];
  let count = 0;
  const isBatch = readFields(bytes, 0, bytes.length, (tag, start, end) => {
    if (tag !== EVENTS) return fieldNumber(tag) !== 1;
    count += 1;
    if (count <= maxEvents) places.push([start, end]);
    return true;
  });
  if (!isBatch) {
    return refuse("", "MALFORMED", "The batch is no io.cloudevents.v1.CloudEventBatch in protobuf.");
  }
  if (count > maxEvents) return tooManyEvents(count, maxEvents);
  return {
    ok: true,
    value: places.map(([start, end]) => decodeStructuredProtobuf(bytes.subarray(start, end))),
  };
}

/** Encodes events as io.cloudevents.v1.CloudEventBatch, each as `encodeStructuredProtobuf` does. */
export function encodeBatchProtobuf(events: readonly CloudEvent[]): Uint8Array {
  const size = events.reduce((sum, event) => sum + lengthDelimited(encodedSize(event)), 0);
  const writer = createProtobufWriter(size);
  for (const event of events) writer.bytesField(EVENTS, encodeStructuredProtobuf(event));
  return writer.bytes;
}
