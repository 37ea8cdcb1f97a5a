import { type AttributeRead, attributesOf, decodedFrom } from "./attributes.ts";
import { contentModeOf, isCloudEventsMediaType } from "./content-mode.ts";
import { type CloudEvent, type EventData } from "./event.ts";
import { createFaults, type Faults, quote, refuse } from "./faults.ts";
import { type Result } from "./reason.ts";
import { decodeStructuredJson, encodeStructuredJson, STRUCTURED_JSON } from "./structured-json.ts";
import { decodeStructuredProtobuf, STRUCTURED_PROTOBUF } from "./structured-protobuf.ts";
import { isTypeUrl } from "./uri.ts";
import { decodeUtf8, decodeUtf8All, encodeUtf8 } from "./utf8.ts";

/** A header of a Kafka record: names may repeat, values may be null. */
export type KafkaHeader = readonly [name: string, value: Uint8Array | null];

/** The parts of a Kafka record that carry an event. */
export interface KafkaMessage {
  readonly headers: readonly KafkaHeader[];
  /** null is a tombstone: in binary mode an event without data. */
  readonly value: Uint8Array | null;
}

const PREFIX = "ce_";
const CONTENT_TYPE = "content-type";
/** The type URL of a payload that came as `proto_data`: no binding has a place for it, so this is Weir's own header. */
const DATA_TYPE = "weir-data-type";

/**
 * Decodes the event of a Kafka record, in binary mode or in structured mode with the JSON or the protobuf format (Kafka
 * binding § 3). Never throws and takes linear time. Headers other than `ce_…`, `content-type` and `weir-data-type` are
 * ignored. The payload may share memory with the record.
 */
export function decodeKafkaRecord(record: KafkaMessage): Result<CloudEvent> {
  const contentType = contentTypeOf(record.headers);
  const mode = contentModeOf(
    contentType ? decodeUtf8(contentType) : undefined,
    record.headers.some(([name]) => name === "ce_specversion"),
  );
  switch (mode.mode) {
    case "binary":
      return decodeBinary(record);
    case "structured":
      return decodeStructured(record, mode.format);
    default:
      return unknownMode(record.headers);
  }
}

/**
 * Encodes an event as a Kafka record in binary mode; `decodeKafkaRecord` gives the same event back. No data is a null
 * value, empty data an empty one. An event whose own `datacontenttype` is a CloudEvents media type would be taken for
 * structured mode, so it travels in that.
 */
export function encodeKafkaBinary(event: CloudEvent): KafkaMessage {
  const type = event.data?.protoType;
  const dataType: KafkaHeader[] = type === undefined ? [] : [[DATA_TYPE, encodeUtf8(type)]];
  if (event.datacontenttype !== undefined && isCloudEventsMediaType(event.datacontenttype)) {
    const headers: KafkaHeader[] = [[CONTENT_TYPE, encodeUtf8(STRUCTURED_JSON)], ...dataType];
    return { headers, value: encodeStructuredJson(event) };
  }
  const headers = Array.from(attributesOf(event), ([name, value]): KafkaHeader => [
    name === "datacontenttype" ? CONTENT_TYPE : PREFIX + name,
    encodeUtf8(value),
  ]);
  return { headers: [...headers, ...dataType], value: event.data?.bytes ?? null };
}

function decodeBinary({ headers, value }: KafkaMessage): Result<CloudEvent> {
  const faults = createFaults();
  const names: string[] = [];
  const values: Uint8Array[] = [];
  for (const [header, bytes] of headers) {
    if (header === "ce_datacontenttype") {
      // Some SDKs write it beside content-type, which is harmless where both say the same.
      if (sameText(bytes, contentTypeOf(headers))) continue;
      const message =
        "ce_datacontenttype may only repeat the header content-type, which is the datacontenttype.";
      faults.add("datacontenttype", "INVALID_ATTRIBUTES", message);
    } else if (header === CONTENT_TYPE || header.startsWith(PREFIX)) {
      names.push(header === CONTENT_TYPE ? "datacontenttype" : header.slice(PREFIX.length));
      values.push(bytes ?? NO_TEXT);
    }
  }
  const { texts, arePrintable } = decodeUtf8All(values);
  const attributes = names.map((name, at): AttributeRead => {
    const text = texts[at];
    if (text === undefined) addNoText(name, faults);
    return [name, text];
  });
  const data = value === null ? undefined : { bytes: value, protoType: undefined };
  return decodedFrom({ attributes, data: typedData(headers, data, faults), arePrintable }, faults);
}

function contentTypeOf(headers: readonly KafkaHeader[]): Uint8Array | null | undefined {
  return headers.find(([name]) => name === CONTENT_TYPE)?.[1];
}

function sameText(one: Uint8Array | null, other: Uint8Array | null | undefined): boolean {
  return !!one && !!other && decodeUtf8(one) === decodeUtf8(other);
}

/** Stands for a header's null, since it is refused alike. */
const NO_TEXT = new Uint8Array([0xff]);

function addNoText(name: string, faults: Faults): void {
  const header = quote(name === "datacontenttype" ? CONTENT_TYPE : PREFIX + name);
  const description = `The value of header ${header} must be UTF-8 text (Kafka binding § 3.2.3).`;
  faults.add(name, "INVALID_ATTRIBUTES", description);
}

function decodeStructured({ headers, value }: KafkaMessage, format: string): Result<CloudEvent> {
  if (format !== "json" && format !== "protobuf") return unknownMode(headers);
  if (headers.filter(([name]) => name === CONTENT_TYPE).length > 1) {
    return refuse("", "MALFORMED", "The header content-type is given more than once; give it once.");
  }
  if (value === null) return refuse("", "MALFORMED", "A record in structured mode must have a value.");
  if (format === "protobuf") return decodeStructuredProtobuf(value);
  const result = decodeStructuredJson(value);
  if (!result.ok) return result;
  const faults = createFaults();
  const data = typedData(headers, result.value.data, faults);
  return faults.result(() => ({ ...result.value, data }));
}

function typedData(
  headers: readonly KafkaHeader[],
  data: EventData | undefined,
  faults: Faults,
): EventData | undefined {
  const [type, ...more] = headers.filter(([name]) => name === DATA_TYPE);
  if (type === undefined) return data;
  const protoType = type[1] === null ? undefined : decodeUtf8(type[1]);
  if (data !== undefined && protoType !== undefined && isTypeUrl(protoType) && more.length === 0)
    return { bytes: data.bytes, protoType };
  faults.add(
    "data",
    "INVALID_DATA",
    `Header ${DATA_TYPE} must come once, with a type URL, on a record with data.`,
  );
  return undefined;
}

function unknownMode(headers: readonly KafkaHeader[]): Result<never> {
  const names = headers.slice(0, 20).map(([name]) => quote(name));
  return refuse(
    "",
    "UNKNOWN_MODE",
    `The record is no CloudEvent that can be read: it has neither a content-type of ${STRUCTURED_JSON} or ${STRUCTURED_PROTOBUF} nor a header ce_specversion. Its headers: ${names.join(", ") || "none"}.`,
  );
}
