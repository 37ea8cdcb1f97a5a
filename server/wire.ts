import { create } from "@bufbuild/protobuf";
import { AnySchema, type Timestamp as TimestampMessage, TimestampSchema } from "@bufbuild/protobuf/wkt";
import { type Decoded } from "#core/attributes.ts";
import { type CloudEvent, type EventData, type LogPosition, type StoredEvent } from "#core/event.ts";
import { decodeEventMessage } from "#core/event-message.ts";
import { formatEventName } from "#core/event-name.ts";
import { createFaults, refuse } from "#core/faults.ts";
import { severityOf } from "#core/severity.ts";
import { tagsOf } from "#core/tags.ts";
import { isTimestampInRange } from "#core/timestamp.ts";
import { decodeUtf8 } from "#core/utf8.ts";
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
  type Receipt,
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
  const { id, source, specVersion, type, data } = message;
  const attributes = Object.entries(message.attributes).map(([name, { attr }]) => [name, attr] as const);
  return decodeEventMessage({ id, source, specVersion, type, attributes, data }, createFaults());
}

/** The path of a fault's field within a request that holds its event in the field `event`. */
export function requestPath(field: string): string {
  if (field === "") return "event";
  if (field === "specversion") return "event.spec_version";
  const own = OWN_FIELDS.has(field) || field === "data" || field.startsWith(IN_MAP);
  return own ? `event.${field}` : `event.attributes.${field}`;
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

/** A stored event as it is shown, with its data. */
export function viewOf(stored: StoredEvent): StoredView {
  const { event } = stored;
  return {
    ...stored,
    dataSize: event.data?.bytes.byteLength ?? 0,
    severity: severityOf(event),
    tags: tagsOf(event),
  };
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
    severity: toSeverity(severity),
    tags: [...stored.tags],
    dataSize: BigInt(stored.dataSize),
    position: toLogPositionMessage(stored.position),
    severityNumber: severity,
    timeText: event.time?.text ?? "",
    principal: stored.principal,
    dataTypeUrl: data?.protoType ?? "",
  });
}

/** The range of an OpenTelemetry severity number. */
export function toSeverity(number = 0): Severity {
  return SEVERITY_RANGES[Math.ceil(number / 4)] ?? Severity.UNSPECIFIED;
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
  /** What became of it since, where that was waited for and seen. */
  readonly reached?: Reached | undefined;
}

/** What became of an event that is on the log; of a dead letter its name. */
export type Reached =
  | { readonly stage: "stored" }
  | { readonly stage: "dead_lettered"; readonly deadLetter: string };

const STAGES: Readonly<Record<Reached["stage"], Stage>> = {
  stored: Stage.STORED,
  dead_lettered: Stage.DEAD_LETTERED,
};

/** The receipt of an event that is on the log. */
export function toReceipt({ event, partitionKey, position, acceptTime, reached }: Acceptance): Receipt {
  return {
    $typeName: "weir.v1.Receipt",
    name: formatEventName(event.source, event.id),
    partitionKey,
    position: toLogPositionMessage(position),
    stage: reached === undefined ? Stage.ACCEPTED : STAGES[reached.stage],
    acceptTime: fromMillis(acceptTime),
    deadLetter: reached?.stage === "dead_lettered" ? reached.deadLetter : "",
  };
}

function toLogPositionMessage({ topic, partition, offset }: LogPosition): LogPositionMessage {
  return { $typeName: "weir.v1.LogPosition", topic, partition, offset };
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

/** The message of a time in milliseconds since 1970. */
export function fromMillis(millis: number): TimestampMessage {
  const seconds = Math.floor(millis / 1_000);
  return {
    $typeName: "google.protobuf.Timestamp",
    seconds: BigInt(seconds),
    nanos: (millis - seconds * 1_000) * 1_000_000,
  };
}
