/**
 * A CloudEvent in Weir's canonical form: every attribute is the text of its CloudEvents string representation, and the
 * payload is the exact bytes. `specversion` is always "1.0" and not kept. What a producer did not send is undefined;
 * nothing is ever made up.
 */
export interface CloudEvent {
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly subject: string | undefined;
  readonly time: Timestamp | undefined;
  readonly datacontenttype: string | undefined;
  readonly dataschema: string | undefined;
  /** Extension attributes by name, in the order of their names. */
  readonly extensions: ReadonlyMap<string, string>;
  /** undefined: the event has no data, which differs from empty data and from the JSON value `null`. */
  readonly data: EventData | undefined;
}

/** A payload, byte for byte. */
export interface EventData {
  readonly bytes: Uint8Array;
  /** The type URL, where the payload is a protobuf message that came as `proto_data`; `bytes` is then its value. */
  readonly protoType: string | undefined;
}

/** A point in time to the nanosecond, with the RFC 3339 text that it came as. */
export interface Timestamp {
  readonly text: string;
  /** Whole seconds since 1970-01-01T00:00:00Z, rounded towards the past. */
  readonly seconds: number;
  /** 0 to 999,999,999. */
  readonly nanos: number;
}

/** A place on the log. */
export interface LogPosition {
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
}

/** An event with what Weir knows of how it came in. It travels as one record and becomes one row. */
export interface AcceptedEvent {
  readonly event: CloudEvent;
  /** When the server took it, in milliseconds since 1970. */
  readonly acceptTime: number;
  /** The subject of the sender's token. */
  readonly principal: string;
  /** W3C `traceparent` and `tracestate` of the request, where it had them. */
  readonly traceParent: string | undefined;
  readonly traceState: string | undefined;
}

/** An accepted event with its place on the log: what the persist role stores and what Search gives back. */
export interface StoredEvent extends AcceptedEvent {
  readonly position: LogPosition;
}
