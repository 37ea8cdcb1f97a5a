import { expect } from "vitest";

import { fromAttributes, type Kind } from "./events.ts";
import { type Mode, type PeerEvent } from "./peer.ts";

/**
 * What comes of an event between Weir and an SDK: the event, its attributes as text, but where the SDK says less than it
 * was told or does not keep to the specification.
 */
export interface Expectations {
  /** What Weir has of an event that the SDK sent. */
  sent(mode: Mode, kind: Kind, event: PeerEvent): unknown;
  /** What the SDK reads in a message of Weir's, which on Kafka has a key. */
  read(mode: Mode, event: PeerEvent, key: string | undefined): unknown;
}

/** Of npm's cloudevents, which makes a Date of every time but those in a batch that it reads. */
export const OF_JAVASCRIPT: Expectations = {
  sent: (mode, kind, event) => {
    const expected = withTime(event, inMilliseconds);
    switch (mode) {
      case "HTTP binary":
        // httpTransport writes undefined into the request.
        if (kind === "no data") return expect.stringContaining("ERR_INVALID_ARG_TYPE");
        // It does not percent-encode (HTTP binding § 3.1.3.2): Node.js refuses the one, and Weir decodes the other.
        if (kind === "text beyond ASCII") return expect.stringContaining("ERR_INVALID_CHAR");
        return kind === "percent signs" ? withAttributes(expected, { subject: "a/b" }) : expected;
      case "Kafka binary":
        return asText(event);
      default:
        return expected;
    }
  },
  read: (mode, event, key) => {
    if (mode === "HTTP batch JSON") return asText(event);
    if (mode === "HTTP binary") return withTime(percentEncoded(event), inMilliseconds);
    // A record without a value is an event without data; it wants a value.
    if (mode === "Kafka binary" && event.data === null) return "TypeError: Value is null or undefined";
    return withKey(withTime(event, inMilliseconds), key);
  },
};

/** Of Python's cloudevents, which makes a datetime of every time. */
export const OF_PYTHON: Expectations = {
  sent: (mode, kind, event) => {
    const expected = withTime(event, inMicroseconds);
    if (mode === "HTTP binary" || mode === "Kafka binary") {
      // It writes booleans as Python does; CloudEvents has "true" (CloudEvents 1.0.2, Type System).
      if (kind === "every attribute") return withAttributes(expected, { flag: "True" });
    }
    // It knows no record without a value.
    if (mode === "Kafka binary" && event.data === null) return { ...expected, data: NOTHING };
    return expected;
  },
  read: (_mode, event, key) => withKey(withTime(event, inMicroseconds), key),
};

/** Of Go's sdk-go, which has every time in UTC. */
export const OF_GO: Expectations = {
  sent: (mode, kind, event) => {
    const expected = withTime(event, inUtc);
    if (mode === "HTTP binary") {
      // It does not percent-encode (HTTP binding § 3.1.3.2): what is not ASCII is refused, and Weir decodes the rest.
      if (kind === "text beyond ASCII") return "refused: INVALID_ATTRIBUTES";
      if (kind === "percent signs") return withAttributes(expected, { subject: "a/b" });
    }
    // It writes binary_data without a byte.
    if (mode.endsWith("protobuf") && event.data === null) return { ...expected, data: NOTHING };
    return expected;
  },
  read: (mode, event) => {
    if (mode === "HTTP binary") return withTime(percentEncoded(event), inUtc);
    const expected = withTime(event, inUtc);
    // It takes text_data of a JSON type for a string that is yet to become JSON.
    if (mode === "HTTP structured protobuf" && event.data !== null && "json" in event.data)
      return { ...expected, data: { json: JSON.stringify(event.data.json) } };
    return expected;
  },
};

const NOTHING = { base64: "" };

function asText({ attributes, data }: PeerEvent): PeerEvent {
  return { attributes: fromAttributes(Object.entries(attributes)), data };
}

function withAttributes({ attributes, data }: PeerEvent, others: PeerEvent["attributes"]): PeerEvent {
  return { attributes: { ...attributes, ...others }, data };
}

/** As an SDK reads ce- headers that does not decode them: spaces, quotes, % and all beyond ASCII (HTTP binding § 3.1.3.2). */
function percentEncoded({ attributes, data }: PeerEvent): PeerEvent {
  const encoded = Object.entries(attributes).map(([name, value]) => [
    name,
    String(value).replace(/[ "%]|[^ -~]/gu, encodeURIComponent),
  ]);
  return { attributes: Object.fromEntries(encoded) as PeerEvent["attributes"], data };
}

/** As an SDK does that takes the key of any record for a partitionkey; the binding maps it the other way (§ 3.1). */
function withKey(event: PeerEvent, key: string | undefined): PeerEvent {
  return key === undefined ? event : withAttributes(event, { partitionkey: key });
}

function withTime(event: PeerEvent, written: (time: string) => string): PeerEvent {
  return withAttributes(asText(event), { time: written(String(event.attributes["time"])) });
}

function inMilliseconds(time: string): string {
  return new Date(time).toISOString();
}

/** With six digits or none. */
function inMicroseconds(time: string): string {
  return time.replace(/\.(\d+)/, (_, digits: string) =>
    /[1-9]/.test(digits) ? `.${digits.padEnd(6, "0")}` : "",
  );
}

/** With as many digits as there must be. */
function inUtc(time: string): string {
  const digits = /\.(\d*[1-9])/.exec(time)?.[1];
  const fraction = digits === undefined ? "" : `.${digits}`;
  return new Date(time).toISOString().replace(/\.\d+Z$/, `${fraction}Z`);
}
