import { asciiSet, isHexDigit } from "./ascii.ts";

/** What kind of JSON value a text is. */
export type JsonKind = "object" | "array" | "string" | "number" | "boolean" | "null";

/** Where a JSON value stands in a text, without the white space around it: `text.slice(start, end)` is as it is written. */
export interface JsonValue {
  readonly kind: JsonKind;
  readonly start: number;
  readonly end: number;
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
 * of it is checked. Values are places in the text, so number spelling, key order and white space stay. Linear time and no
 * recursion, whatever the depth. A byte order mark is skipped (§ 8.1).
 *
 * @param limit how many members are kept, and one more where there are more; the others are only checked.
 */
export function readJsonObject(
  text: string,
  limit: number = Number.POSITIVE_INFINITY,
): JsonResult<JsonMember> {
  const members: JsonMember[] = [];
  return readDocument(text, OPEN_OBJECT, members, (start) => membersEnd(text, start, members, limit));
}

/** The members of an object that is an element of an array; undefined for an element of another kind. */
export type JsonElement = readonly JsonMember[] | undefined;

/**
 * The elements of a JSON document that is an array of objects, as `readJsonObject`, and how many there are.
 *
 * @param limit how many elements are kept; the others are only checked and counted.
 * @param memberLimit how many members are kept of each, and one more where there are more.
 */
export function readJsonObjects(
  text: string,
  limit: number,
  memberLimit: number,
): JsonResult<JsonElement> & { readonly count: number } {
  const elements: JsonElement[] = [];
  let count = 0;
  const result = readDocument(text, OPEN_ARRAY, elements, (start) =>
    itemsEnd(text, start, CLOSE_ARRAY, (at) => {
      count += 1;
      if (count > limit) return valueEnd(text, at);
      const members: JsonMember[] | undefined = text.charCodeAt(at) === OPEN_OBJECT ? [] : undefined;
      elements.push(members);
      return members === undefined ? valueEnd(text, at) : membersEnd(text, at, members, memberLimit);
    }),
  );
  return { ...result, count };
}

/** Whether the text is one JSON value with nothing around it, not even white space. */
export function isJsonValue(text: string): boolean {
  return skipSpace(text, 0) === 0 && valueEnd(text, 0) === text.length;
}

/**
 * What the JSON string at a place in the text, its quotes included, stands for; `\ud800` and the like may leave lone
 * surrogates in it.
 */
export function readJsonString(text: string, start: number, end: number): string {
  const inner = text.slice(start + 1, end - 1);
  return inner.includes("\\") ? (JSON.parse(text.slice(start, end)) as string) : inner;
}

function readDocument<T>(
  text: string,
  open: number,
  value: readonly T[],
  readContainer: (start: number) => number,
): JsonResult<T> {
  const start = skipSpace(text, text.startsWith("\ufeff") ? 1 : 0);
  if (text.charCodeAt(start) !== open) {
    return { ok: false, description: `is not a JSON ${open === OPEN_OBJECT ? "object" : "array"}` };
  }
  const containerEnd = readContainer(start);
  if (containerEnd < 0) return syntaxFault(text, ~containerEnd);
  const end = skipSpace(text, containerEnd);
  return end === text.length ? { ok: true, value } : syntaxFault(text, end);
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

/** `readItem` is called at the start of each item and answers as these do. */
function itemsEnd(text: string, start: number, close: number, readItem: (at: number) => number): number {
  let at = skipSpace(text, start + 1);
  if (text.charCodeAt(at) === close) return at + 1;
  for (;;) {
    const end = readItem(at);
    if (end < 0) return end;
    at = skipSpace(text, end);
    const next = text.charCodeAt(at);
    if (next === close) return at + 1;
    if (next !== COMMA) return ~at;
    at = skipSpace(text, at + 1);
  }
}

function membersEnd(text: string, start: number, members: JsonMember[], limit: number): number {
  return itemsEnd(text, start, CLOSE_OBJECT, (at) => {
    const nameEnd = nameEndAt(text, at);
    const value = nameEnd < 0 ? nameEnd : valueStart(text, nameEnd);
    const end = value < 0 ? value : valueEnd(text, value);
    if (end < 0) return end;
    if (members.length <= limit) {
      const name = readJsonString(text, at, nameEnd);
      members.push({ name, kind: kindAt(text, value), start: value, end });
    }
    return end;
  });
}

function valueEnd(text: string, start: number): number {
  const opening = text.charCodeAt(start);
  if (opening !== OPEN_ARRAY && opening !== OPEN_OBJECT) return scalarEnd(text, start);
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
      const next = text.charCodeAt(at);
      if (next === COMMA) break;
      if (next !== closers.pop()) return ~at;
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
  const end = nameEndAt(text, start);
  return end < 0 ? end : valueStart(text, end);
}

function nameEndAt(text: string, start: number): number {
  return text.charCodeAt(start) === QUOTE ? stringEnd(text, start) : ~start;
}

function valueStart(text: string, nameEnd: number): number {
  const colon = skipSpace(text, nameEnd);
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
  let at = start;
  while (isSpace(text.charCodeAt(at))) at += 1;
  return at;
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}
