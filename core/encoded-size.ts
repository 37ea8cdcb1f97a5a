import { type CloudEvent, type EventData, type Timestamp } from "./event.ts";
import { utf8Length } from "./utf8.ts";

/**
 * The size in bytes of the event as an encoded io.cloudevents.v1.CloudEvent in canonical form (time as ce_timestamp,
 * dataschema as ce_uri, other attributes as ce_string; data as text_data if UTF-8, else binary_data, or proto_data),
 * reckoned without encoding it.
 */
export function encodedSize(event: CloudEvent): number {
  let size = textField(event.id) + textField(event.source) + textField("1.0") + textField(event.type);
  if (event.subject !== undefined) size += attribute("subject", textField(event.subject));
  if (event.time !== undefined) size += attribute("time", lengthDelimited(timestampSize(event.time)));
  if (event.datacontenttype !== undefined)
    size += attribute("datacontenttype", textField(event.datacontenttype));
  if (event.dataschema !== undefined) size += attribute("dataschema", textField(event.dataschema));
  for (const [name, value] of event.extensions) size += attribute(name, textField(value));
  return event.data === undefined ? size : size + dataField(event.data);
}

// Every field number here is below 16, so a tag is one byte.

/** The size of a field that is length-delimited, for a content of that length. */
export function lengthDelimited(length: number): number {
  return 1 + varintSize(length) + length;
}

/** The size of a field that is a string. */
export function textField(text: string): number {
  return lengthDelimited(utf8Length(text));
}

/** A map entry: key 1, value 2, the value a CloudEventAttributeValue whose one field has the given size. */
function attribute(name: string, field: number): number {
  return lengthDelimited(textField(name) + lengthDelimited(field));
}

function dataField({ bytes, protoType }: EventData): number {
  return lengthDelimited(protoType === undefined ? bytes.length : anySize(bytes, protoType));
}

/** The size of the content of a google.protobuf.Any. */
export function anySize(bytes: Uint8Array, typeUrl: string): number {
  const type = typeUrl === "" ? 0 : textField(typeUrl);
  return type + (bytes.length === 0 ? 0 : lengthDelimited(bytes.length));
}

/** The size of the content of a google.protobuf.Timestamp. */
export function timestampSize({ seconds, nanos }: Timestamp): number {
  // A negative int64 takes ten bytes.
  const secondsSize = seconds < 0 ? 11 : seconds === 0 ? 0 : 1 + varintSize(seconds);
  return secondsSize + (nanos === 0 ? 0 : 1 + varintSize(nanos));
}

function varintSize(value: number): number {
  let size = 1;
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) size += 1;
  return size;
}
