import { asciiSet, isHexDigit } from "./ascii.ts";

/** What kind of JSON value a text is. */
export type JsonKind = "object" | "array" | "string" | "number" | "boolean" | "null";

/** A JSON value as it is written, without white space around it. */
export interface JsonValue {
  readonly kind: JsonKind;
  readonly raw: string;
}

/** A member of a JSON object, with its decoded name. */
export interface JsonMember extends JsonValue {
  readonly name: string;
}

/** What was read, or why the text is no such JSON, as the rest of a sentence. */
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
const LITERALS = ["true", "false", "null"];

/**
 * The members of a JSON document that is an object (RFC 8259), in their order, repeated names included. The syntax of all
 * of it is checked. Values are slices of the text, so number spelling, key order and white space stay. Linear time and
 * no recursion, whatever the depth. A byte order mark is skipped (§ 8.1).
 */
export function readJsonObject(text: string): JsonResult<JsonMember> {
  return readContainer(text, OPEN_OBJECT, CLOSE_OBJECT, (start) => {
    const value = memberValue(text, start);
    if (value < 0) return value;
    const end = valueEnd(text, value);
    if (end < 0) return end;
    const name = readJsonString(text.slice(start, stringEnd(text, start)));
    return { end, value: { name, kind: kindAt(text, value), raw: text.slice(value, end) } };
  });
}

/** The elements of a JSON document that is an array; as `readJsonObject`. */
export function readJsonArray(text: string): JsonResult<JsonValue> {
  return readContainer(text, OPEN_ARRAY, CLOSE_ARRAY, (start) => {
    const end = valueEnd(text, start);
    return end < 0 ? end : { end, value: { kind: kindAt(text, start), raw: text.slice(start, end) } };
  });
}

/** Whether the text is one JSON value with nothing around it, not even white space. */
export function isJsonValue(text: string): boolean {
  return skipSpace(text, 0) === 0 && valueEnd(text, 0) === text.length;
}

/** The text that a JSON string stands for; `\ud800` and the like may leave lone surrogates in it. */
export function readJsonString(raw: string): string {
  return raw.includes("\\") ? (JSON.parse(raw) as string) : raw.slice(1, -1);
}

function readContainer<T>(
  text: string,
  open: number,
  close: number,
  readItem: (start: number) => { readonly end: number; readonly value: T } | number,
): JsonResult<T> {
  const value: T[] = [];
  let at = skipSpace(text, text.startsWith("\ufeff") ? 1 : 0);
  if (text.charCodeAt(at) !== open) {
    return { ok: false, description: `is not a JSON ${open === OPEN_OBJECT ? "object" : "array"}` };
  }
  at = skipSpace(text, at + 1);
  while (value.length > 0 || text.charCodeAt(at) !== close) {
    const item = readItem(at);
    if (typeof item === "number") return syntaxFault(text, ~item);
    value.push(item.value);
    at = skipSpace(text, item.end);
    const next = text.charCodeAt(at);
    if (next === close) break;
    if (next !== COMMA) return syntaxFault(text, at);
    at = skipSpace(text, at + 1);
  }
  at = skipSpace(text, at + 1);
  return at === text.length ? { ok: true, value } : syntaxFault(text, at);
}

function syntaxFault(text: string, at: number): { ok: false; description: string } {
  const where = at >= text.length ? "it ends too early" : `unexpected character at offset ${at}`;
  return { ok: false, description: `is not JSON: ${where}` };
}

function kindAt(text: string, start: number): JsonKind {
  switch (text.charCodeAt(start)) {
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

// Each of these answers the offset after what it reads, or ~offset (negative) of the character that is wrong. Beyond the
// end charCodeAt gives NaN, which equals nothing.

function valueEnd(text: string, start: number): number {
  const closers: number[] = [];
  let at = start;
  for (;;) {
    const first = text.charCodeAt(at);
    if (first === OPEN_ARRAY) {
      at = skipSpace(text, at + 1);
      if (text.charCodeAt(at) !== CLOSE_ARRAY) {
        closers.push(CLOSE_ARRAY);
        continue;
      }
      at += 1;
    } else if (first === OPEN_OBJECT) {
      at = skipSpace(text, at + 1);
      if (text.charCodeAt(at) !== CLOSE_OBJECT) {
        closers.push(CLOSE_OBJECT);
        at = memberValue(text, at);
        if (at < 0) return at;
        continue;
      }
      at += 1;
    } else {
      at = scalarEnd(text, at);
      if (at < 0) return at;
    }
    // A value has ended: so do the containers that close here.
    while (closers.length > 0) {
      at = skipSpace(text, at);
      if (text.charCodeAt(at) === COMMA) break;
      if (text.charCodeAt(at) !== closers.pop()) return ~at;
      at += 1;
    }
    if (closers.length === 0) return at;
    at = skipSpace(text, at + 1);
    if (closers.at(-1) === CLOSE_OBJECT) at = memberValue(text, at);
    if (at < 0) return at;
  }
}

/** From the name of a member to the first character of its value. */
function memberValue(text: string, start: number): number {
  if (text.charCodeAt(start) !== QUOTE) return ~start;
  const end = stringEnd(text, start);
  if (end < 0) return end;
  const colon = skipSpace(text, end);
  return text.charCodeAt(colon) === COLON ? skipSpace(text, colon + 1) : ~colon;
}

function scalarEnd(text: string, start: number): number {
  const first = text.charCodeAt(start);
  if (first === QUOTE) return stringEnd(text, start);
  if (first === 0x2d || isDigit(first)) return numberEnd(text, start);
  for (const literal of LITERALS) if (text.startsWith(literal, start)) return start + literal.length;
  return ~start;
}

function stringEnd(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) return at + 1;
    if (code < 0x20) return ~at;
    if (code !== BACKSLASH) continue;
    at += 1;
    if (text[at] === "u") {
      const last = at + 4;
      while (at < last) {
        at += 1;
        if (!isHexDigit(text.charCodeAt(at))) return ~at;
      }
    } else if (ESCAPES[text.charCodeAt(at)] !== 1) return ~at;
  }
  return ~text.length;
}

function numberEnd(text: string, start: number): number {
  let at = text[start] === "-" ? start + 1 : start;
  at = text[at] === "0" ? at + 1 : digitsEnd(text, at);
  if (at >= 0 && text[at] === ".") at = digitsEnd(text, at + 1);
  if (at >= 0 && (text[at] === "e" || text[at] === "E")) {
    const isSigned = text[at + 1] === "+" || text[at + 1] === "-";
    at = digitsEnd(text, isSigned ? at + 2 : at + 1);
  }
  return at;
}

function digitsEnd(text: string, start: number): number {
  let at = start;
  while (isDigit(text.charCodeAt(at))) at += 1;
  return at > start ? at : ~at;
}

function skipSpace(text: string, start: number): number {
  for (let at = start; ; at += 1) {
    const code = text.charCodeAt(at);
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return at;
  }
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}
