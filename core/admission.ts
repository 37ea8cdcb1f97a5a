import { attributesOf } from "./attributes.ts";
import { encodedSize } from "./encoded-size.ts";
import { type CloudEvent } from "./event.ts";
import { createFaults, quote } from "./faults.ts";
import { type Fault } from "./reason.ts";
import { timestampFrom } from "./timestamp.ts";
import { utf8Length } from "./utf8.ts";

/** What Weir takes in (design § 3). Bytes are of UTF-8. */
export interface Limits {
  /** The encoded protobuf CloudEvent in canonical form. */
  readonly eventBytes: number;
  readonly idBytes: number;
  readonly sourceBytes: number;
  readonly subjectBytes: number;
  readonly typeBytes: number;
  /** The name of an attribute. CloudEvents says that names SHOULD NOT exceed 20 characters. */
  readonly attributeNameBytes: number;
  /** The value of any other attribute. */
  readonly attributeValueBytes: number;
  /** How many extension attributes. */
  readonly extensions: number;
  /** How far the time may lie ahead of the server's clock, in milliseconds. */
  readonly timeAheadMs: number;
  /** How far the time may lie behind the server's clock, in milliseconds. */
  readonly timeBehindMs: number;
}

const HOUR = 3_600_000;

/** The limits where nothing else is configured; every index key fits a page of PostgreSQL with them. */
export const DEFAULT_LIMITS: Limits = {
  eventBytes: 1_048_576,
  idBytes: 512,
  sourceBytes: 1_024,
  subjectBytes: 1_024,
  typeBytes: 256,
  attributeNameBytes: 40,
  attributeValueBytes: 4_096,
  extensions: 64,
  timeAheadMs: 24 * HOUR,
  timeBehindMs: 90 * 24 * HOUR,
};

/**
 * Whether an event may come in now; empty where it may, else every fault. Checked at ingest alone: a record that is on
 * the log is never refused for its age or size.
 *
 * @param now the server's clock, in milliseconds since 1970
 */
export function checkAdmission(event: CloudEvent, now: number, limits: Limits): Fault[] {
  const faults = createFaults();
  const tooLarge = (field: string, what: () => string, actual: number, limit: number, unit: string): void => {
    if (actual <= limit) return;
    const metadata = { limit: String(limit), actual: String(actual), unit };
    faults.add(field, "TOO_LARGE", `${what()} has ${actual} ${unit}; at most ${limit} are taken.`, metadata);
  };
  tooLarge("", () => "The event in its protobuf encoding", encodedSize(event), limits.eventBytes, "bytes");
  tooLarge("", () => "The event", event.extensions.size, limits.extensions, "extension attributes");
  const valueLimits: Readonly<Record<string, number>> = {
    id: limits.idBytes,
    source: limits.sourceBytes,
    subject: limits.subjectBytes,
    type: limits.typeBytes,
  };
  for (const [name, value] of attributesOf(event)) {
    const limit = Object.hasOwn(valueLimits, name) ? valueLimits[name]! : limits.attributeValueBytes;
    tooLarge(name, () => `The value of ${quote(name)}`, utf8Length(value), limit, "bytes");
    tooLarge(
      name,
      () => `The attribute name ${quote(name)}`,
      name.length,
      limits.attributeNameBytes,
      "bytes",
    );
  }
  const window = timeFault(event, now, limits);
  if (window !== undefined) faults.add(window.field, window.reason, window.description, window.metadata);
  const result = faults.result(() => undefined);
  return result.ok ? [] : [...result.faults];
}

function timeFault({ time }: CloudEvent, now: number, limits: Limits): Fault | undefined {
  if (time === undefined) {
    const description = "time is required here: Weir orders and keeps events by it and never makes one up.";
    return { field: "time", reason: "INVALID_ATTRIBUTES", description };
  }
  const at = time.seconds * 1_000 + time.nanos / 1_000_000;
  if (at >= now - limits.timeBehindMs && at <= now + limits.timeAheadMs) return undefined;
  const earliest = textOf(now - limits.timeBehindMs);
  const latest = textOf(now + limits.timeAheadMs);
  return {
    field: "time",
    reason: "TIME_OUT_OF_WINDOW",
    description: `time must lie between ${earliest} and ${latest}, by the server's clock now; it is ${quote(time.text)}.`,
    metadata: { earliest, latest },
  };
}

function textOf(milliseconds: number): string {
  const whole = Math.floor(milliseconds);
  const seconds = Math.floor(whole / 1_000);
  return timestampFrom(seconds, (whole - seconds * 1_000) * 1_000_000).text;
}
