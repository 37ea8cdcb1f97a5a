import { decodeBase64, encodeBase64 } from "./base64.ts";
import { type CloudEvent, type LogPosition, type Timestamp } from "./event.ts";
import { createFaults, quote, refuse } from "./faults.ts";
import { type JsonValue, readJsonObject, readJsonString } from "./json.ts";
import { type KafkaHeader } from "./kafka-binary.ts";
import { percentEncode, UNRESERVED } from "./percent.ts";
import { type Reason, type Result } from "./reason.ts";
import { decodeStructuredJson, encodeStructuredJson, STRUCTURED_JSON } from "./structured-json.ts";
import { decodeUtf8, encodeUtf8 } from "./utf8.ts";

/** The `type` of a dead letter. */
export const DEAD_LETTER_TYPE = "weir.dead-letter.v1";

/** Why a record can end as a dead letter (design § 9). */
export type DeadLetterReason = Extract<
  Reason,
  | "UNKNOWN_MODE"
  | "MALFORMED"
  | "INVALID_ATTRIBUTES"
  | "INVALID_DATA"
  | "TOO_LARGE"
  | "DECODER_FAULT"
  | "UNPERSISTABLE"
>;

/** Every DeadLetterReason. */
export const DEAD_LETTER_REASONS: readonly DeadLetterReason[] = [
  "UNKNOWN_MODE",
  "MALFORMED",
  "INVALID_ATTRIBUTES",
  "INVALID_DATA",
  "TOO_LARGE",
  "DECODER_FAULT",
  "UNPERSISTABLE",
];

/** A record that could not be stored: what it was, whole, and why. */
export interface DeadLetter {
  readonly reason: DeadLetterReason;
  /** What was wrong, for a person. */
  readonly detail: string;
  /** The consumer group that failed on it. */
  readonly group: string;
  /** Where the record stands. */
  readonly position: LogPosition;
  /** The record's own timestamp, in milliseconds since 1970. */
  readonly timestamp: number;
  /** Which replay of the record this was: 0 for the record as it first came. */
  readonly attempt: number;
  readonly key: Uint8Array | null;
  readonly headers: readonly KafkaHeader[];
  readonly value: Uint8Array | null;
  /** When it was set aside. */
  readonly time: Timestamp;
}

/** A dead letter as a Kafka record; `id` is the event's id, which is the key's text too. */
export interface DeadLetterRecord {
  readonly id: string;
  readonly key: Uint8Array;
  readonly headers: readonly KafkaHeader[];
  readonly value: Uint8Array;
}

/** The id of the dead letter of a record that a group failed on: its event's id, and its key in the dead-letter topic. */
export function deadLetterId(group: string, { topic, partition, offset }: LogPosition): string {
  return `${group}/${topic}/${partition}/${offset}`;
}

/**
 * Encodes a dead letter as a record in structured JSON: source `/weir/{group}`, id and key `group/topic/partition/offset`
 * of what failed, so that a second letter for the same record replaces the first under compaction. Every byte of the
 * record is in it, but that the Kafka clients read the names of headers as text: bytes of a name that are not UTF-8 are U+FFFD.
 */
export function encodeDeadLetter(letter: DeadLetter): DeadLetterRecord {
  const { topic, partition, offset } = letter.position;
  const id = deadLetterId(letter.group, letter.position);
  const members = {
    reason: JSON.stringify(letter.reason),
    detail: JSON.stringify(letter.detail.toWellFormed()),
    group: JSON.stringify(letter.group),
    topic: JSON.stringify(topic),
    partition: String(partition),
    offset: String(offset),
    timestamp: String(letter.timestamp),
    attempt: String(letter.attempt),
    key: base64Json(letter.key),
    headers: JSON.stringify(letter.headers.map(([name, value]) => [name, value && encodeBase64(value)])),
    value: base64Json(letter.value),
  };
  const data = `{${Object.entries(members)
    .map(([name, json]) => `"${name}":${json}`)
    .join(",")}}`;
  const event: CloudEvent = {
    id,
    source: `/weir/${percentEncode(letter.group, UNRESERVED)}`,
    type: DEAD_LETTER_TYPE,
    subject: undefined,
    time: letter.time,
    datacontenttype: "application/json",
    dataschema: undefined,
    extensions: new Map(),
    data: { bytes: encodeUtf8(data), protoType: undefined },
  };
  const headers: KafkaHeader[] = [["content-type", encodeUtf8(STRUCTURED_JSON)]];
  return { id, key: encodeUtf8(id), headers, value: encodeStructuredJson(event) };
}

/**
 * Decodes the value of a dead letter's record. Never throws; what is no dead letter (others may write to the topic) is
 * refused with every fault, each with the member of `data` as its field.
 */
export function decodeDeadLetter(value: Uint8Array): Result<DeadLetter> {
  const decoded = decodeStructuredJson(value);
  if (!decoded.ok) return decoded;
  const event = decoded.value;
  if (event.type !== DEAD_LETTER_TYPE) {
    return refuse(
      "type",
      "INVALID_ATTRIBUTES",
      `type must be "${DEAD_LETTER_TYPE}"; it is ${quote(event.type)}.`,
    );
  }
  const { time } = event;
  if (time === undefined) return refuse("time", "INVALID_ATTRIBUTES", "time is required and missing.");
  const text = (event.data && decodeUtf8(event.data.bytes)) ?? "";
  const object = readJsonObject(text);
  if (!object.ok) return refuse("data", "INVALID_DATA", `data ${object.description}.`);
  const faults = createFaults();
  const members = new Map(object.value.map((member) => [member.name, member]));
  const read = <T>(
    name: string,
    what: string,
    reader: (value: JsonValue, text: string) => T | undefined,
  ): T => {
    const member = members.get(name);
    const found = member === undefined ? undefined : reader(member, text);
    if (found === undefined) faults.add(`data.${name}`, "INVALID_DATA", `data.${name} must be ${what}.`);
    // Where a fault was noted the letter is not made, so nobody sees the undefined.
    return found as T;
  };
  const letter: DeadLetter = {
    reason: read("reason", `one of ${DEAD_LETTER_REASONS.join(", ")}`, toReason),
    detail: read("detail", "a string", toText),
    group: read("group", "a string", toText),
    position: {
      topic: read("topic", "a string", toText),
      partition: Number(read("partition", "a whole number", toInteger)),
      offset: read("offset", "a whole number", toInteger),
    },
    timestamp: Number(read("timestamp", "a whole number of milliseconds", toInteger)),
    attempt: Number(read("attempt", "a whole number", toInteger)),
    key: read("key", "base64 or null", toBytes),
    headers: read("headers", "an array of [name, base64 or null]", toHeaders),
    value: read("value", "base64 or null", toBytes),
    time,
  };
  return faults.result(() => letter);
}

function base64Json(bytes: Uint8Array | null): string {
  return bytes === null ? "null" : `"${encodeBase64(bytes)}"`;
}

// Each of these reads a value that stands in a text.

function toText({ kind, start, end }: JsonValue, text: string): string | undefined {
  return kind === "string" ? readJsonString(text, start, end) : undefined;
}

function toReason(value: JsonValue, text: string): DeadLetterReason | undefined {
  const name = toText(value, text);
  return DEAD_LETTER_REASONS.find((reason) => reason === name);
}

function toInteger({ kind, start, end }: JsonValue, text: string): bigint | undefined {
  const raw = text.slice(start, end);
  return kind === "number" && raw.length <= 20 && /^-?\d+$/.test(raw) ? BigInt(raw) : undefined;
}

function toBytes(value: JsonValue, text: string): Uint8Array | null | undefined {
  if (value.kind === "null") return null;
  const base64 = toText(value, text);
  return base64 === undefined ? undefined : decodeBase64(base64);
}

// There may be hundreds of thousands of them.
function toHeaders({ start, end }: JsonValue, text: string): KafkaHeader[] | undefined {
  let rows: unknown;
  try {
    rows = JSON.parse(text.slice(start, end));
  } catch {
    return undefined;
  }
  if (!Array.isArray(rows)) return undefined;
  const headers: KafkaHeader[] = [];
  for (const row of rows as readonly unknown[]) {
    if (!Array.isArray(row) || row.length !== 2) return undefined;
    const [name, base64] = row as readonly unknown[];
    const value = base64 === null ? null : typeof base64 === "string" ? decodeBase64(base64) : undefined;
    if (typeof name !== "string" || value === undefined) return undefined;
    headers.push([name, value]);
  }
  return headers;
}
