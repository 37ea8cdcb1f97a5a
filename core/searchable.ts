import { type CloudEvent } from "./event.ts";
import { isJsonMediaType } from "./media-type.ts";
import { decodeUtf8 } from "./utf8.ts";

/** How deep arrays and objects of a searchable payload nest at most. */
export const MAX_JSON_DEPTH = 256;
/** The most characters of a number in a searchable payload. */
export const MAX_NUMBER_LENGTH = 1_000;
/** The largest exponent of a number in a searchable payload, whatever its sign. */
export const MAX_EXPONENT = 400;

/** How a payload can be asked about: as JSON by its paths and its strings, or as one text. */
export type SearchableForm = "json" | "text";

/** A payload that can be asked about. */
export type SearchablePayload =
  | {
      readonly form: "json";
      readonly text: string;
      /** What JSON.parse makes of the text; of a repeated name the last member. */ readonly root: unknown;
    }
  | { readonly form: "text"; readonly text: string };

/** What says whether a payload is searchable. */
type PayloadOf = Pick<CloudEvent, "data" | "datacontenttype">;

/**
 * What a payload says it is: JSON by its media type or without one, text by text/*. undefined: another type, a protobuf
 * message, or no payload.
 */
export function declaredForm({ data, datacontenttype }: PayloadOf): SearchableForm | undefined {
  if (data === undefined || data.protoType !== undefined) return undefined;
  if (datacontenttype === undefined || isJsonMediaType(datacontenttype)) return "json";
  return /^text\//i.test(datacontenttype) ? "text" : undefined;
}

/**
 * Whether and how a payload can be asked about, decided here alone, for the row's column, for SQL and for filters in the
 * process. "json": declared as JSON ({@link declaredForm}), UTF-8 without a byte order mark, JSON by RFC 8259, without
 * `\u0000` and without half of a surrogate pair, within {@link MAX_JSON_DEPTH}, {@link MAX_NUMBER_LENGTH} and
 * {@link MAX_EXPONENT}. So PostgreSQL's jsonb takes it, always. "text": declared as text, UTF-8 without NUL. What is stored
 * has these answers: changing anything here makes them wrong for every row that is there. Never throws, linear time.
 */
export function searchableForm(event: PayloadOf): SearchableForm | undefined {
  return searchablePayload(event)?.form;
}

/** As {@link searchableForm}, with what was decoded to find out. */
export function searchablePayload(event: PayloadOf): SearchablePayload | undefined {
  const form = declaredForm(event);
  if (form === undefined || event.data === undefined) return undefined;
  const { bytes } = event.data;
  if (form === "json" && !isWithinBounds(bytes)) return undefined;
  const text = decodeUtf8(bytes);
  if (text === undefined) return undefined;
  if (form === "text") return text.includes("\0") ? undefined : { form, text };
  try {
    return { form, text, root: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const MINUS = 0x2d;

/** Of bytes that are JSON: whether jsonb takes them. Of others it may say anything. */
function isWithinBounds(bytes: Uint8Array): boolean {
  let depth = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at]!;
    if (byte === QUOTE) {
      for (at += 1; at < bytes.length && bytes[at] !== QUOTE; at += 1) {
        if (bytes[at] !== BACKSLASH) continue;
        at = escapeEnd(bytes, at);
        if (at < 0) return false;
      }
    } else if (byte === 0x7b || byte === 0x5b) {
      depth += 1;
      if (depth > MAX_JSON_DEPTH) return false;
    } else if (byte === 0x7d || byte === 0x5d) depth -= 1;
    else if (byte === MINUS || isDigit(byte)) {
      at = numberEnd(bytes, at);
      if (at < 0) return false;
    }
  }
  return true;
}

/** The last byte of the escape whose backslash is at `start`, of a pair of surrogates that of the second; -1: not taken. */
function escapeEnd(bytes: Uint8Array, start: number): number {
  const unit = unitAt(bytes, start);
  if (unit === undefined) return start + 1;
  const end = start + 5;
  if (unit === 0 || (unit & 0xfc00) === 0xdc00) return -1;
  if ((unit & 0xfc00) !== 0xd800) return end;
  return ((unitAt(bytes, end + 1) ?? 0) & 0xfc00) === 0xdc00 ? end + 6 : -1;
}

/** The UTF-16 unit that `\uXXXX` stands for; undefined where there is no such escape. */
function unitAt(bytes: Uint8Array, start: number): number | undefined {
  if (bytes[start] !== BACKSLASH || bytes[start + 1] !== 0x75) return undefined;
  let unit = 0;
  for (let at = start + 2; at < start + 6; at += 1) {
    const byte = bytes[at] ?? 0;
    unit = unit * 16 + (byte <= 0x39 ? byte - 0x30 : (byte | 0x20) - 0x57);
  }
  return unit;
}

/** The last byte of the number that begins at `start`; -1: not taken. */
function numberEnd(bytes: Uint8Array, start: number): number {
  let exponent = -1;
  let at = start + 1;
  for (; at < bytes.length; at += 1) {
    const byte = bytes[at]!;
    if (isDigit(byte)) {
      if (exponent >= 0) exponent = exponent * 10 + byte - 0x30;
    } else if ((byte | 0x20) === 0x65) exponent = 0;
    else if (byte !== 0x2e && byte !== MINUS && byte !== 0x2b) break;
  }
  return exponent > MAX_EXPONENT || at - start > MAX_NUMBER_LENGTH ? -1 : at - 1;
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}
