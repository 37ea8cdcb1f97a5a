import { asciiSet, isHexDigit } from "./ascii.ts";
import { decodeUtf8 } from "./utf8.ts";

/** What kind of JSON value a slice holds. */
export type JsonKind = "object" | "array" | "string" | "number" | "boolean" | "null";

/** A JSON value where it stands in the bytes, without white space around it. */
export interface JsonValue {
  readonly kind: JsonKind;
  readonly raw: Uint8Array;
}

/** A member of a JSON object, with its decoded name. */
export interface JsonMember extends JsonValue {
  readonly name: string;
}

/** What was read, or why the bytes are no such JSON, as the rest of a sentence. */
export type JsonResult<T> =
  | { readonly ok: true; readonly value: readonly T[] }
  | { readonly ok: false; readonly description: string };

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const ESCAPES = asciiSet('"\\/bfnrt');
const LITERALS = ["true", "false", "null"].map((text) => Array.from(text, (letter) => letter.charCodeAt(0)));

/**
 * The members of a JSON document that is an object (RFC 8259), in their order, repeated names included. The syntax of all
 * of it is checked. Values are slices of the bytes, so number spelling, key order and white space stay. Linear time and
 * no recursion, whatever the depth. The bytes must be UTF-8, which the caller checks; a byte order mark is skipped (§ 8.1).
 */
export function readJsonObject(bytes: Uint8Array): JsonResult<JsonMember> {
  return readContainer(bytes, OPEN_OBJECT, CLOSE_OBJECT, (start) => {
    const value = memberValue(bytes, start);
    if (value < 0) return value;
    const end = valueEnd(bytes, value);
    if (end < 0) return end;
    const name = readJsonString(bytes.subarray(start, stringEnd(bytes, start)));
    return { end, value: { name, ...valueOf(bytes, value, end) } };
  });
}

/** The elements of a JSON document that is an array; as `readJsonObject`. */
export function readJsonArray(bytes: Uint8Array): JsonResult<JsonValue> {
  return readContainer(bytes, OPEN_ARRAY, CLOSE_ARRAY, (start) => {
    const end = valueEnd(bytes, start);
    return end < 0 ? end : { end, value: valueOf(bytes, start, end) };
  });
}

function readContainer<T>(
  bytes: Uint8Array,
  open: number,
  close: number,
  readItem: (start: number) => { readonly end: number; readonly value: T } | number,
): JsonResult<T> {
  const value: T[] = [];
  const bom = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  let at = skipSpace(bytes, bom ? 3 : 0);
  if (bytes[at] !== open) {
    return { ok: false, description: `is not a JSON ${open === OPEN_OBJECT ? "object" : "array"}` };
  }
  at = skipSpace(bytes, at + 1);
  while (value.length > 0 || bytes[at] !== close) {
    const item = readItem(at);
    if (typeof item === "number") return syntaxFault(bytes, ~item);
    value.push(item.value);
    at = skipSpace(bytes, item.end);
    if (bytes[at] === close) break;
    if (bytes[at] !== COMMA) return syntaxFault(bytes, at);
    at = skipSpace(bytes, at + 1);
  }
  at = skipSpace(bytes, at + 1);
  return at === bytes.length ? { ok: true, value } : syntaxFault(bytes, at);
}

function valueOf(bytes: Uint8Array, start: number, end: number): JsonValue {
  return { kind: kindOf(bytes[start]!), raw: bytes.subarray(start, end) };
}

/** Whether the bytes are one JSON value in UTF-8 with nothing around it, not even white space. */
export function isJsonValue(bytes: Uint8Array): boolean {
  return skipSpace(bytes, 0) === 0 && valueEnd(bytes, 0) === bytes.length && decodeUtf8(bytes) !== undefined;
}

/** The text of a slice that holds a JSON string; `\ud800` and the like may leave lone surrogates in it. */
export function readJsonString(raw: Uint8Array): string {
  const text = decodeUtf8(raw)!;
  return raw.includes(BACKSLASH) ? (JSON.parse(text) as string) : text.slice(1, -1);
}

function syntaxFault(bytes: Uint8Array, at: number): { ok: false; description: string } {
  const where = at >= bytes.length ? "it ends too early" : `unexpected byte at offset ${at}`;
  return { ok: false, description: `is not JSON: ${where}` };
}

function kindOf(first: number): JsonKind {
  switch (first) {
    case OPEN_OBJECT:
      return "object";
    case OPEN_ARRAY:
      return "array";
    case QUOTE:
      return "string";
    case 0x6e:
      return "null";
    case 0x74:
    case 0x66:
      return "boolean";
    default:
      return "number";
  }
}

// Each of these answers the offset after what it reads, or ~offset (negative) of the byte that is wrong.

function valueEnd(bytes: Uint8Array, start: number): number {
  const closers: number[] = [];
  let at = start;
  for (;;) {
    const first = bytes[at];
    if (first === OPEN_ARRAY) {
      at = skipSpace(bytes, at + 1);
      if (bytes[at] !== CLOSE_ARRAY) {
        closers.push(CLOSE_ARRAY);
        continue;
      }
      at += 1;
    } else if (first === OPEN_OBJECT) {
      at = skipSpace(bytes, at + 1);
      if (bytes[at] !== CLOSE_OBJECT) {
        closers.push(CLOSE_OBJECT);
        at = memberValue(bytes, at);
        if (at < 0) return at;
        continue;
      }
      at += 1;
    } else {
      at = scalarEnd(bytes, at);
      if (at < 0) return at;
    }
    // A value has ended: so do the containers that close here.
    while (closers.length > 0) {
      at = skipSpace(bytes, at);
      if (bytes[at] === COMMA) break;
      if (bytes[at] !== closers.pop()) return ~at;
      at += 1;
    }
    if (closers.length === 0) return at;
    at = skipSpace(bytes, at + 1);
    if (closers.at(-1) === CLOSE_OBJECT) at = memberValue(bytes, at);
    if (at < 0) return at;
  }
}

/** From the name of a member to the first byte of its value. */
function memberValue(bytes: Uint8Array, start: number): number {
  if (bytes[start] !== QUOTE) return ~start;
  const end = stringEnd(bytes, start);
  if (end < 0) return end;
  const colon = skipSpace(bytes, end);
  return bytes[colon] === COLON ? skipSpace(bytes, colon + 1) : ~colon;
}

function scalarEnd(bytes: Uint8Array, start: number): number {
  if (bytes[start] === QUOTE) return stringEnd(bytes, start);
  for (const literal of LITERALS) {
    if (bytes[start] === literal[0]) {
      const wrong = literal.findIndex((letter, index) => bytes[start + index] !== letter);
      return wrong < 0 ? start + literal.length : ~(start + wrong);
    }
  }
  return numberEnd(bytes, start);
}

function stringEnd(bytes: Uint8Array, start: number): number {
  for (let at = start + 1; at < bytes.length; at += 1) {
    const byte = bytes[at]!;
    if (byte === QUOTE) return at + 1;
    if (byte < 0x20) return ~at;
    if (byte !== BACKSLASH) continue;
    at += 1;
    if (bytes[at] === 0x75) {
      for (const last = at + 4; at < last;) {
        at += 1;
        if (!isHexDigit(bytes[at] ?? 0)) return ~at;
      }
    } else if (ESCAPES[bytes[at] ?? 0] !== 1) return ~at;
  }
  return ~bytes.length;
}

function numberEnd(bytes: Uint8Array, start: number): number {
  let at = bytes[start] === 0x2d ? start + 1 : start;
  if (bytes[at] === 0x30) at += 1;
  else at = digitsEnd(bytes, at);
  if (at >= 0 && bytes[at] === 0x2e) at = digitsEnd(bytes, at + 1);
  if (at >= 0 && (bytes[at] === 0x65 || bytes[at] === 0x45)) {
    const signed = bytes[at + 1] === 0x2b || bytes[at + 1] === 0x2d;
    at = digitsEnd(bytes, signed ? at + 2 : at + 1);
  }
  return at;
}

function digitsEnd(bytes: Uint8Array, start: number): number {
  let at = start;
  while (isDigit(bytes[at])) at += 1;
  return at > start ? at : ~at;
}

function skipSpace(bytes: Uint8Array, start: number): number {
  let at = start;
  while (bytes[at] === 0x20 || bytes[at] === 0x0a || bytes[at] === 0x0d || bytes[at] === 0x09) at += 1;
  return at;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}
