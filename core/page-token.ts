import { decodeBase64, encodeBase64 } from "./base64.ts";
import { refuse } from "./faults.ts";
import { murmur2 } from "./partition.ts";
import { type Fault, type Result } from "./reason.ts";
import { concatBytes, decodeUtf8, encodeUtf8 } from "./utf8.ts";

/** A place in an order by time; equal times are ordered by topic, where there are several, partition and offset. */
export interface Cursor {
  /** The time in microseconds since 1970. */
  readonly time: bigint;
  /** Absent where all is of one topic. */
  readonly topic?: string;
  readonly partition: number;
  readonly offset: bigint;
  /**
   * When the first page was asked for, in milliseconds since 1970: what `now` of the filter is for those after it. Absent
   * where nothing depends on it.
   */
  readonly askedAt?: number;
}

/** What a page token belongs to: used with another question, it is refused. */
export interface PageQuestion {
  /** The filter in its canonical form; "" is the empty one. */
  readonly filter: string;
  /** The order, such as "time desc". */
  readonly order: string;
}

const VERSION = 2;
const CURSOR_BYTES = 29;
const CHECK_BYTES = 4;
/** Of a topic: Kafka takes 249 characters. */
const MAX_TOPIC_BYTES = 249;
const MAX_TOKEN_CHARACTERS = Math.ceil(((CURSOR_BYTES + MAX_TOPIC_BYTES + CHECK_BYTES) * 4) / 3);

/** The token after which a page begins: opaque, safe in a URL, bound to the question. */
export function encodePageToken(cursor: Cursor, question: PageQuestion): string {
  const bytes = new Uint8Array(CURSOR_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint8(0, VERSION);
  view.setBigInt64(1, cursor.time);
  view.setInt32(9, cursor.partition);
  view.setBigInt64(13, cursor.offset);
  view.setFloat64(21, cursor.askedAt ?? Number.NaN);
  const place = concatBytes([bytes, encodeUtf8(cursor.topic ?? "")]);
  const check = new Uint8Array(CHECK_BYTES);
  new DataView(check.buffer).setInt32(0, checkOf(place, question));
  return encodeBase64(concatBytes([place, check]), "url");
}

/**
 * The cursor of a token. Refused with INVALID_PAGE_TOKEN, field "page_token",
 * where it is none of ours, belongs to another question, or was altered (a check of 32 bits: against mistakes, not
 * against forgery, for a token grants nothing).
 */
export function decodePageToken(token: string, question: PageQuestion): Result<Cursor> {
  const bytes = bytesOf(token);
  if (bytes === undefined) return refusal("The page token is none that this service gives.");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const end = bytes.length - CHECK_BYTES;
  const topic = decodeUtf8(bytes.subarray(CURSOR_BYTES, end));
  if (topic === undefined || view.getInt32(end) !== checkOf(bytes.subarray(0, end), question)) {
    return refusal("The page token belongs to another filter or order, or was altered.");
  }
  const askedAt = view.getFloat64(21);
  return {
    ok: true,
    value: {
      time: view.getBigInt64(1),
      partition: view.getInt32(9),
      offset: view.getBigInt64(13),
      ...(topic !== "" && { topic }),
      ...(!Number.isNaN(askedAt) && { askedAt }),
    },
  };
}

/**
 * Every fault of a token that can be told where its question cannot be read: refused as by {@link decodePageToken} where it
 * would be with any question.
 */
export function faultsOfPageToken(token: string): readonly Fault[] {
  if (bytesOf(token) !== undefined) return [];
  const refused = refusal("The page token is none that this service gives.");
  return refused.ok ? [] : refused.faults;
}

function bytesOf(token: string): Uint8Array | undefined {
  const bytes = token.length > MAX_TOKEN_CHARACTERS ? undefined : decodeBase64(token, "url");
  const isToken = bytes !== undefined && bytes.length >= CURSOR_BYTES + CHECK_BYTES && bytes[0] === VERSION;
  return isToken ? bytes : undefined;
}

function refusal(what: string): Result<never> {
  return refuse(
    "page_token",
    "INVALID_PAGE_TOKEN",
    `${what} Give next_page_token of the page before with the same arguments, or none to begin again.`,
  );
}

function checkOf(place: Uint8Array, question: PageQuestion): number {
  const text = encodeUtf8(JSON.stringify([question.filter, question.order]));
  return murmur2(concatBytes([place, text]));
}
