import { type Decoded, MAX_ATTRIBUTES, tooManyAttributes } from "./attributes.ts";
import { anySize, encodedSize, lengthDelimited, textField, timestampSize } from "./encoded-size.ts";
import { type CloudEvent, type EventData, type Timestamp } from "./event.ts";
import { type AttributeValue, decodeEventMessage, type MessageData } from "./event-message.ts";
import { createFaults, refuse } from "./faults.ts";
import {
  boolAt,
  fieldNumber,
  int32At,
  int64At,
  lengthTag,
  readFields,
  varintTag,
} from "./protobuf-reader.ts";
import { createProtobufWriter, type ProtobufWriter } from "./protobuf-writer.ts";
import { decodeUtf8, decodeUtf8At } from "./utf8.ts";

/** The media type of an event in the protobuf format. */
export const STRUCTURED_PROTOBUF = "application/cloudevents+protobuf";

// io.cloudevents.v1.CloudEvent
const ID = lengthTag(1);
const SOURCE = lengthTag(2);
const SPEC_VERSION = lengthTag(3);
const TYPE = lengthTag(4);
const ATTRIBUTES = lengthTag(5);
const BINARY_DATA = lengthTag(6);
const TEXT_DATA = lengthTag(7);
const PROTO_DATA = lengthTag(8);
// An entry of its map
const KEY = lengthTag(1);
const VALUE = lengthTag(2);
// CloudEventAttributeValue
const CE_BOOLEAN = varintTag(1);
const CE_INTEGER = varintTag(2);
const CE_STRING = lengthTag(3);
const CE_BYTES = lengthTag(4);
const CE_URI = lengthTag(5);
const CE_URI_REF = lengthTag(6);
const CE_TIMESTAMP = lengthTag(7);
// google.protobuf.Any
const TYPE_URL = lengthTag(1);
const ANY_VALUE = lengthTag(2);
// google.protobuf.Timestamp
const SECONDS = varintTag(1);
const NANOS = varintTag(2);

/**
 * Decodes an io.cloudevents.v1.CloudEvent (CloudEvents protobuf format). Never throws, whatever the bytes, and takes linear
 * time. The payload shares memory with the bytes.
 *
 * As proto3 has it: unknown fields are skipped, groups too; of a field that comes twice, of the members of a oneof and of
 * map entries with one name the last counts; a message that comes twice is merged. A known field of another wire type is
 * refused, where others skip it: what was sent would be lost.
 */
export function decodeStructuredProtobuf(bytes: Uint8Array): Decoded {
  /** id, source, spec_version and type, by their numbers. */
  const texts: (string | undefined)[] = ["", "", "", "", ""];
  const attributes = new Map<string, AttributeValue>();
  let data: MessageData | undefined = { case: undefined };
  const isMessage = readFields(bytes, 0, bytes.length, (tag, start, end) => {
    switch (tag) {
      case ID:
      case SOURCE:
      case SPEC_VERSION:
      case TYPE: {
        const text = decodeUtf8At(bytes, start, end);
        texts[fieldNumber(tag)] = text;
        return text !== undefined;
      }
      case ATTRIBUTES:
        return readEntry(bytes, start, end, attributes) && attributes.size <= MAX_ATTRIBUTES;
      case BINARY_DATA:
      case TEXT_DATA: {
        // The payload of a text is its bytes.
        const value = bytes.subarray(start, end);
        data = { case: "binaryData", value };
        return tag === BINARY_DATA || decodeUtf8(value) !== undefined;
      }
      case PROTO_DATA:
        data = readAny(bytes, start, end, data);
        return data !== undefined;
      default:
        return fieldNumber(tag) > 8;
    }
  });
  if (attributes.size > MAX_ATTRIBUTES) return tooManyAttributes();
  if (!isMessage) {
    const description =
      "The event is no io.cloudevents.v1.CloudEvent in protobuf, or a string of it is not UTF-8.";
    return refuse("", "MALFORMED", description);
  }
  const [, id, source, specVersion, type] = texts;
  return decodeEventMessage({ id, source, specVersion, type, attributes, data }, createFaults());
}

// Each of these reads the message that lies from `start` to `end`, into what came of it before; undefined, or false, where
// it is none.

function readEntry(
  bytes: Uint8Array,
  start: number,
  end: number,
  attributes: Map<string, AttributeValue>,
): boolean {
  let name: string | undefined = "";
  let value: AttributeValue | undefined = { case: undefined };
  const isEntry = readFields(bytes, start, end, (tag, from, to) => {
    switch (tag) {
      case KEY:
        name = decodeUtf8At(bytes, from, to);
        return name !== undefined;
      case VALUE:
        value = readValue(bytes, from, to, value);
        return value !== undefined;
      default:
        return fieldNumber(tag) > 2;
    }
  });
  if (isEntry) attributes.set(name, value);
  return isEntry;
}

function readValue(
  bytes: Uint8Array,
  start: number,
  end: number,
  before: AttributeValue | undefined,
): AttributeValue | undefined {
  let value = before;
  const isValue = readFields(bytes, start, end, (tag, from, to) => {
    value = fieldNumber(tag) > 7 ? value : attributeAt(bytes, from, to, tag, value);
    return value !== undefined;
  });
  return isValue ? value : undefined;
}

function attributeAt(
  bytes: Uint8Array,
  start: number,
  end: number,
  tag: number,
  before: AttributeValue | undefined,
): AttributeValue | undefined {
  switch (tag) {
    case CE_BOOLEAN:
      return { case: "ceBoolean", value: boolAt(bytes, start, end) };
    case CE_INTEGER:
      return { case: "ceInteger", value: int32At(bytes, start, end) };
    case CE_BYTES:
      return { case: "ceBytes", value: bytes.subarray(start, end) };
    case CE_STRING:
      return textValue("ceString", decodeUtf8At(bytes, start, end));
    case CE_URI:
      return textValue("ceUri", decodeUtf8At(bytes, start, end));
    case CE_URI_REF:
      return textValue("ceUriRef", decodeUtf8At(bytes, start, end));
    case CE_TIMESTAMP:
      return readTimestamp(bytes, start, end, before);
    default:
      return undefined;
  }
}

function textValue(
  name: "ceString" | "ceUri" | "ceUriRef",
  text: string | undefined,
): AttributeValue | undefined {
  return text === undefined ? undefined : { case: name, value: text };
}

function readTimestamp(
  bytes: Uint8Array,
  start: number,
  end: number,
  before: AttributeValue | undefined,
): AttributeValue | undefined {
  let { seconds, nanos } = before?.case === "ceTimestamp" ? before.value : { seconds: 0, nanos: 0 };
  const isTimestamp = readFields(bytes, start, end, (tag, from, to) => {
    if (tag === SECONDS) seconds = int64At(bytes, from, to);
    else if (tag === NANOS) nanos = int32At(bytes, from, to);
    else return fieldNumber(tag) > 2;
    return true;
  });
  return isTimestamp ? { case: "ceTimestamp", value: { seconds, nanos } } : undefined;
}

function readAny(
  bytes: Uint8Array,
  start: number,
  end: number,
  before: MessageData | undefined,
): MessageData | undefined {
  let { typeUrl, value }: { typeUrl: string | undefined; value: Uint8Array } =
    before?.case === "protoData" ? before.value : { typeUrl: "", value: new Uint8Array() };
  const isAny = readFields(bytes, start, end, (tag, from, to) => {
    if (tag === TYPE_URL) typeUrl = decodeUtf8At(bytes, from, to);
    else if (tag === ANY_VALUE) value = bytes.subarray(from, to);
    else return fieldNumber(tag) > 2;
    return typeUrl !== undefined;
  });
  return isAny && typeUrl !== undefined ? { case: "protoData", value: { typeUrl, value } } : undefined;
}

/**
 * Encodes an event as io.cloudevents.v1.CloudEvent in the canonical form whose size `encodedSize` gives: time as
 * ce_timestamp, dataschema as ce_uri, every other attribute as ce_string; data as text_data where they are UTF-8, else as
 * binary_data, or as proto_data. `decodeStructuredProtobuf` gives the same event back, but that its time is in UTC and to the
 * nanosecond.
 */
export function encodeStructuredProtobuf(event: CloudEvent): Uint8Array {
  const writer = createProtobufWriter(encodedSize(event));
  writer.string(ID, event.id);
  writer.string(SOURCE, event.source);
  writer.string(SPEC_VERSION, "1.0");
  writer.string(TYPE, event.type);
  writeText(writer, "subject", CE_STRING, event.subject);
  if (event.time !== undefined) writeTime(writer, event.time);
  writeText(writer, "datacontenttype", CE_STRING, event.datacontenttype);
  writeText(writer, "dataschema", CE_URI, event.dataschema);
  for (const [name, value] of event.extensions) writeText(writer, name, CE_STRING, value);
  if (event.data !== undefined) writeData(writer, event.data);
  return writer.bytes;
}

function writeText(writer: ProtobufWriter, name: string, tag: number, value: string | undefined): void {
  if (value === undefined) return;
  beginEntry(writer, name, textField(value));
  writer.string(tag, value);
}

function writeTime(writer: ProtobufWriter, time: Timestamp): void {
  const size = timestampSize(time);
  beginEntry(writer, "time", lengthDelimited(size));
  writer.message(CE_TIMESTAMP, size);
  if (time.seconds !== 0) writer.integer(SECONDS, time.seconds);
  if (time.nanos !== 0) writer.integer(NANOS, time.nanos);
}

/** Begins an entry of the map up to the field of its value, which has that size. */
function beginEntry(writer: ProtobufWriter, name: string, size: number): void {
  writer.message(ATTRIBUTES, textField(name) + lengthDelimited(size));
  writer.string(KEY, name);
  writer.message(VALUE, size);
}

function writeData(writer: ProtobufWriter, { bytes, protoType }: EventData): void {
  if (protoType === undefined) {
    writer.bytesField(decodeUtf8(bytes) === undefined ? BINARY_DATA : TEXT_DATA, bytes);
    return;
  }
  writer.message(PROTO_DATA, anySize(bytes, protoType));
  if (protoType !== "") writer.string(TYPE_URL, protoType);
  if (bytes.length > 0) writer.bytesField(ANY_VALUE, bytes);
}
