import { create } from "@bufbuild/protobuf";
import { AnySchema, type Timestamp as TimestampMessage, TimestampSchema } from "@bufbuild/protobuf/wkt";
import { type Decoded, decodedFrom } from "#core/attributes.ts";
import { encodeBase64 } from "#core/base64.ts";
import { type CloudEvent, type EventData, type LogPosition, type StoredEvent } from "#core/event.ts";
import { formatEventName } from "#core/event-name.ts";
import { createFaults, type Faults, refuse } from "#core/faults.ts";
import { isTimestampInRange, timestampFrom } from "#core/timestamp.ts";
import { isUri, isUriReference } from "#core/uri.ts";
import { decodeUtf8, encodeUtf8 } from "#core/utf8.ts";
import {
  type CloudEvent as CloudEventMessage,
  type CloudEvent_CloudEventAttributeValue as AttributeValue,
  CloudEvent_CloudEventAttributeValueSchema,
  CloudEventSchema,
} from "#gen/io/cloudevents/v1/cloudevents_pb.ts";
import {
  type Event,
  EventSchema,
  type LogPosition as LogPositionMessage,
  LogPositionSchema,
  type Receipt,
  ReceiptSchema,
  Severity,
  Stage,
} from "#gen/weir/v1/event_pb.ts";

// The one place that knows both the messages of the contract and the events of core/.

/** Attributes that have fields of their own in the message, so the map may not hold them as well. */
const OWN_FIELDS: ReadonlySet<string> = new Set(["id", "source", "specversion", "type"]);

/** Where a fault's field names an entry of the map whose name has a field of its own. */
const IN_MAP = "attributes.";

/**
 * The event of a message, or every fault of its attributes and data. The fields of the faults are names of attributes,
 * "data", or "" where there is no message; `requestPath` places them.
 */
export function fromCloudEventMessage(message: CloudEventMessage | undefined): Decoded {
  if (message === undefined) return refuse("", "INVALID_REQUEST", "The event is required and missing.");
  const faults = createFaults();
  return decodedFrom(
    { attributes: attributesOf(message, faults), data: fromData(message.data, faults) },
    faults,
  );
}

/** The path of a fault's field within a request that holds its event in the field `event`. */
export function requestPath(field: string): string {
  if (field === "") return "event";
  if (field === "specversion") return "event.spec_version";
  const own = OWN_FIELDS.has(field) || field === "data" || field.startsWith(IN_MAP);
  return own ? `event.${field}` : `event.attributes.${field}`;
}

function* attributesOf(
  message: CloudEventMessage,
  faults: Faults,
): Generator<readonly [string, string | undefined]> {
  yield ["id", message.id];
  yield ["source", message.source];
  yield ["specversion", message.specVersion];
  yield ["type", message.type];
  for (const [name, value] of Object.entries(message.attributes)) {
    if (OWN_FIELDS.has(name)) {
      const field = requestPath(name);
      faults.add(
        `${IN_MAP}${name}`,
        "INVALID_ATTRIBUTES",
        `${name} has the field ${field}: it may not be in attributes.`,
      );
      continue;
    }
    const text = canonicalText(value);
    if (!text.ok) faults.add(name, "INVALID_ATTRIBUTES", text.fault);
    yield [name, text.ok ? text.value : undefined];
  }
}

/** The CloudEvents string of a value (CloudEvents 1.0, type system). */
function canonicalText({ attr }: AttributeValue): { ok: true; value: string } | { ok: false; fault: string } {
  switch (attr.case) {
    case "ceBoolean":
    case "ceInteger":
      return { ok: true, value: String(attr.value) };
    case "ceString":
      return { ok: true, value: attr.value };
    case "ceBytes":
      return { ok: true, value: encodeBase64(attr.value) };
    case "ceUri":
      if (!isUri(attr.value))
        return { ok: false, fault: "The value is sent as ce_uri and is no URI with a scheme." };
      return { ok: true, value: attr.value };
    case "ceUriRef":
      if (!isUriReference(attr.value)) {
        return { ok: false, fault: "The value is sent as ce_uri_ref and is no URI-reference." };
      }
      return { ok: true, value: attr.value };
    case "ceTimestamp": {
      const [seconds, nanos] = [Number(attr.value.seconds), attr.value.nanos];
      if (!isTimestampInRange(seconds, nanos)) {
        return {
          ok: false,
          fault: "The timestamp is outside the years 0001 to 9999, or its nanos outside 0 to 999,999,999.",
        };
      }
      return { ok: true, value: timestampFrom(seconds, nanos).text };
    }
    case undefined:
      return { ok: false, fault: "The attribute has no value: set one of ce_boolean to ce_timestamp." };
  }
}

function fromData(data: CloudEventMessage["data"], faults: Faults): EventData | undefined {
  switch (data.case) {
    case "binaryData":
      return { bytes: data.value, protoType: undefined };
    case "textData":
      return { bytes: encodeUtf8(data.value), protoType: undefined };
    case "protoData": {
      const { typeUrl, value } = data.value;
      if (typeUrl === "" || !isUriReference(typeUrl)) {
        const example = "type.googleapis.com/acme.Order";
        faults.add(
          "data",
          "INVALID_DATA",
          `The type_url of proto_data must name its message, such as "${example}".`,
        );
      }
      return { bytes: value, protoType: typeUrl };
    }
    case undefined:
      return undefined;
  }
}

/** An event as a message: every attribute a ce_string but time and dataschema. Without `data`, none are in it. */
export function toCloudEventMessage(
  event: Omit<CloudEvent, "data">,
  data: EventData | undefined,
): CloudEventMessage {
  const attributes: [name: string, attr: AttributeValue["attr"]][] = [];
  if (event.subject !== undefined) attributes.push(["subject", { case: "ceString", value: event.subject }]);
  if (event.time !== undefined) {
    const value = create(TimestampSchema, { seconds: BigInt(event.time.seconds), nanos: event.time.nanos });
    attributes.push(["time", { case: "ceTimestamp", value }]);
  }
  if (event.datacontenttype !== undefined) {
    attributes.push(["datacontenttype", { case: "ceString", value: event.datacontenttype }]);
  }
  if (event.dataschema !== undefined)
    attributes.push(["dataschema", { case: "ceUri", value: event.dataschema }]);
  for (const [name, value] of event.extensions) attributes.push([name, { case: "ceString", value }]);
  return create(CloudEventSchema, {
    id: event.id,
    source: event.source,
    specVersion: "1.0",
    type: event.type,
    attributes: Object.fromEntries(
      attributes.map(([name, attr]) => [name, create(CloudEvent_CloudEventAttributeValueSchema, { attr })]),
    ),
    data: toData(data),
  });
}

function toData(data: EventData | undefined): CloudEventMessage["data"] {
  if (data === undefined) return { case: undefined };
  const { bytes, protoType } = data;
  if (protoType !== undefined) {
    return { case: "protoData", value: create(AnySchema, { typeUrl: protoType, value: bytes }) };
  }
  const text = decodeUtf8(bytes);
  return text === undefined ? { case: "binaryData", value: bytes } : { case: "textData", value: text };
}

/** A stored event, with what was computed when it was stored. */
export interface StoredView extends Omit<StoredEvent, "event"> {
  readonly event: Omit<CloudEvent, "data"> & Partial<Pick<CloudEvent, "data">>;
  /** Bytes of the payload. */
  readonly dataSize: number;
  /** OpenTelemetry severity number, 1 to 24. */
  readonly severity: number | undefined;
  readonly tags: readonly string[];
}

/**
 * A stored event as a message; its data are in it where they are given.
 *
 * @param json whether the message goes out as JSON, where a protobuf payload has to be written as its bytes.
 */
export function toEventMessage(stored: StoredView, json = false): Event {
  const { event, severity = 0 } = stored;
  const { data } = event;
  return create(EventSchema, {
    name: formatEventName(event.source, event.id),
    cloudEvent: toCloudEventMessage(event, json && data ? { ...data, protoType: undefined } : data),
    receiveTime: fromMillis(stored.acceptTime),
    severity: SEVERITY_RANGES[Math.ceil(severity / 4)] ?? Severity.UNSPECIFIED,
    tags: [...stored.tags],
    dataSize: BigInt(stored.dataSize),
    position: toLogPositionMessage(stored.position),
    severityNumber: severity,
    timeText: event.time?.text ?? "",
    principal: stored.principal,
    dataTypeUrl: data?.protoType ?? "",
  });
}

/** By the severity number divided by four, rounded up: each name stands for four numbers. */
const SEVERITY_RANGES: readonly Severity[] = [
  Severity.UNSPECIFIED,
  Severity.TRACE,
  Severity.DEBUG,
  Severity.INFO,
  Severity.WARN,
  Severity.ERROR,
  Severity.FATAL,
];

/** What the sender of an event is told. */
export interface Acceptance {
  readonly event: CloudEvent;
  readonly partitionKey: string;
  readonly position: LogPosition;
  /** When the server took it, in milliseconds since 1970. */
  readonly acceptTime: number;
}

/** The receipt of an event that is on the log. */
export function toReceipt({ event, partitionKey, position, acceptTime }: Acceptance): Receipt {
  return create(ReceiptSchema, {
    name: formatEventName(event.source, event.id),
    partitionKey,
    position: toLogPositionMessage(position),
    stage: Stage.ACCEPTED,
    acceptTime: fromMillis(acceptTime),
  });
}

function toLogPositionMessage({ topic, partition, offset }: LogPosition): LogPositionMessage {
  return create(LogPositionSchema, { topic, partition, offset });
}

/** Whole microseconds since 1970 of a message's time, cut off towards the past; undefined where it is out of range. */
export function toMicros({ seconds, nanos }: TimestampMessage): bigint | undefined {
  if (!isTimestampInRange(Number(seconds), nanos)) return undefined;
  return seconds * 1_000_000n + BigInt(Math.floor(nanos / 1_000));
}

/** The message of a time in microseconds since 1970. */
export function fromMicros(micros: bigint): TimestampMessage {
  const fraction = ((micros % 1_000_000n) + 1_000_000n) % 1_000_000n;
  return create(TimestampSchema, {
    seconds: (micros - fraction) / 1_000_000n,
    nanos: Number(fraction) * 1_000,
  });
}

function fromMillis(millis: number): TimestampMessage {
  return fromMicros(BigInt(millis) * 1_000n);
}
