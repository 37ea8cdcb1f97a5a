import { toBinary } from "@bufbuild/protobuf";
import { timestampSize } from "#core/encoded-size.ts";
import { isTimestampInRange } from "#core/timestamp.ts";
import {
  type CloudEvent,
  type CloudEvent_CloudEventAttributeValue as AttributeValue,
  CloudEvent_CloudEventAttributeValueSchema,
} from "#gen/io/cloudevents/v1/cloudevents_pb.ts";

/** The size in bytes of a message in protobuf, without fields that are not known here; reckoned without encoding it. */
export function messageSize({ id, source, specVersion, type, attributes, data }: CloudEvent): number {
  let size = textField(id) + textField(source) + textField(specVersion) + textField(type);
  for (const name in attributes) {
    const value = attributes[name];
    // An entry of a map always has both of its fields.
    if (value !== undefined) size += field(field(Buffer.byteLength(name)) + field(attributeSize(value)));
  }
  switch (data.case) {
    case undefined:
      return size;
    case "binaryData":
      return size + field(data.value.length);
    case "textData":
      return size + field(Buffer.byteLength(data.value));
    case "protoData": {
      const { typeUrl, value } = data.value;
      return size + field(textField(typeUrl) + (value.length === 0 ? 0 : field(value.length)));
    }
  }
}

function attributeSize(value: AttributeValue): number {
  const { attr } = value;
  switch (attr.case) {
    case "ceString":
    case "ceUri":
    case "ceUriRef":
      return field(Buffer.byteLength(attr.value));
    case "ceBytes":
      return field(attr.value.length);
    case "ceTimestamp": {
      const time = { text: "", seconds: Number(attr.value.seconds), nanos: attr.value.nanos };
      return isTimestampInRange(time.seconds, time.nanos) ? field(timestampSize(time)) : encodedLength(value);
    }
    default:
      return encodedLength(value);
  }
}

function encodedLength(value: AttributeValue): number {
  return toBinary(CloudEvent_CloudEventAttributeValueSchema, value, { writeUnknownFields: false }).length;
}

/** A field that proto3 leaves out where it is empty. */
function textField(text: string): number {
  return text === "" ? 0 : field(Buffer.byteLength(text));
}

/** A field of so many bytes with its tag, of one byte since every number is below 16, and its length. */
function field(length: number): number {
  let size = 2 + length;
  for (let rest = length; rest >= 128; rest = Math.floor(rest / 128)) size += 1;
  return size;
}
