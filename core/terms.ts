import { type CloudEvent } from "./event.ts";
import { isJsonMediaType } from "./media-type.ts";
import { severityOf } from "./severity.ts";
import { tagsOf } from "./tags.ts";
import { decodeUtf8 } from "./utf8.ts";
import { wordsOf } from "./words.ts";

// Terms are what an event can be found by without being read: the index has them, and a search asks it for the events that
// have all the terms of a condition. A term is a hash, so what the index answers is a superset: each condition is checked on
// the row itself. What is stored has these hashes, so changing anything here makes the index wrong for every row that is
// there.

/** The most terms of an event, beside {@link INCOMPLETE_TERM}. */
export const MAX_TERMS = 512;
/** A larger payload has no terms. */
export const MAX_TERMS_BYTES: number = 256 * 1024;
/** The most segments of a path that has terms; an array counts as one. */
export const MAX_PATH = 8;

/** A longer string of a payload has no term for its value at its path: its words are found. */
export const MAX_VALUE_LENGTH = 32;

/** Attributes whose equality has a term. */
export type TermAttribute = "type" | "source" | "subject" | "dataschema" | "datacontenttype";

/** A step from a JSON value into it: a member by its name, or any element of an array. */
export type TermSegment = string | typeof ANY_ELEMENT;

/** A value of JSON that is neither object nor array; a number as JavaScript reads it, however many digits it has. */
export type JsonScalar = string | number | boolean | null;

/** The step into an array, whichever element it leads to. */
export const ANY_ELEMENT: unique symbol = Symbol("any element");

// The hash: FNV-1a over UTF-16 units (32 bits, each unit one step), begun with the kind's name and U+0000, then mixed by the
// last steps of MurmurHash3, so that all bits matter; as a signed 32-bit integer.
const FNV_BASIS = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

function extend(state: number, text: string): number {
  let hash = state;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), FNV_PRIME);
  return hash;
}

function finish(state: number): number {
  let hash = state ^ (state >>> 16);
  hash = Math.imul(hash, 0x85ebca6b);
  hash ^= hash >>> 13;
  hash = Math.imul(hash, 0xc2b2ae35);
  return hash ^ (hash >>> 16);
}

const start = (kind: string): number => extend(FNV_BASIS, `${kind}\0`);

const WORD = start("word");
const TAG = start("tag");
const SEVERITY = start("severity");
const EXTENSION = start("ext");
const DATA = start("data");
const ATTRIBUTES: Readonly<Record<TermAttribute, number>> = {
  type: start("type"),
  source: start("source"),
  subject: start("subject"),
  dataschema: start("dataschema"),
  datacontenttype: start("datacontenttype"),
};
const ATTRIBUTE_NAMES = Object.keys(ATTRIBUTES) as TermAttribute[];
/** Attributes whose words are found by full text, with the values of extensions. */
const WORDED: readonly TermAttribute[] = ["type", "source", "subject"];

/** Of an event that has more terms than are kept, or a payload too large to look into: a search must take it as a candidate. */
export const INCOMPLETE_TERM: number = finish(start("incomplete"));

/** The media type of nearly every event, which has no term. */
const USUAL_MEDIA_TYPE = "application/json";
/** Extensions that have other terms, and none for their value: that has its words. */
const OTHERWISE_TERMED: ReadonlySet<string> = new Set(["tags", "severitynumber", "severitytext"]);

/** The term of an attribute that has exactly this value; undefined where it has none ("application/json"). */
export function attributeTerm(name: TermAttribute, value: string): number | undefined {
  if (name === "datacontenttype" && value === USUAL_MEDIA_TYPE) return undefined;
  return finish(extend(ATTRIBUTES[name], value));
}

/** The term of an event whose tags contain this one. */
export function tagTerm(tag: string): number {
  return finish(extend(TAG, tag));
}

/** The term of an OpenTelemetry severity number. */
export function severityTerm(severity: number): number {
  return finish(extend(SEVERITY, String(severity)));
}

const NUMBER = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/;

/**
 * The term of an extension that has this value; two ways to write one number are one value. undefined where it has none:
 * tags and severity are found by {@link tagTerm}, {@link severityTerm} and their words.
 */
export function extensionTerm(name: string, value: string): number | undefined {
  if (OTHERWISE_TERMED.has(name)) return undefined;
  const canonical = value.length <= 40 && NUMBER.test(value) ? String(Number(value)) : value;
  return finish(extend(EXTENSION, `${name}\0${canonical}`));
}

/** The term of one of the words of {@link wordsOf}, anywhere in the event. */
export function wordTerm(word: string): number {
  return finish(extend(WORD, word));
}

/** The term of an event with this id: the whole of it, in lower case, is a word, whatever it consists of. */
export function idTerm(id: string): number {
  return wordTerm(id.toLowerCase());
}

/**
 * The term of a payload with this value at this path; undefined where the path or the value is too long to have one. (A
 * longer string is found by its words, where it has any.)
 */
export function dataTerm(path: readonly TermSegment[], value: JsonScalar): number | undefined {
  if (path.length > MAX_PATH || !hasTerm(value)) return undefined;
  return valueTerm(path.reduce(step, DATA), value);
}

function hasTerm(value: JsonScalar): boolean {
  return typeof value !== "string" || value.length <= MAX_VALUE_LENGTH;
}

function step(state: number, segment: TermSegment): number {
  return segment === ANY_ELEMENT ? extend(state, "\u0001") : extend(extend(state, "\0"), segment);
}

function valueTerm(path: number, value: JsonScalar): number {
  if (typeof value === "string") return finish(extend(extend(path, "\u0002"), value));
  // Equal numbers are equal doubles, so numbers of any length have one term for each value.
  if (typeof value === "number") return finish(extend(path, `\u0003${value}`));
  return finish(extend(path, value === null ? "\u0006" : value ? "\u0004" : "\u0005"));
}

/**
 * The terms of an event, each once, at most {@link MAX_TERMS} and {@link INCOMPLETE_TERM}: of its id, type, source, subject,
 * schema, media type, severity, tags and extensions; of the words of type, source, subject and extensions; and of its payload
 * the values at their paths and the words of its strings (but not of its names). The payload counts where it is JSON by its
 * media type or without one, and as words alone where it is text/*. Never throws; takes time linear in the event's size.
 */
export function termsOf(event: CloudEvent): readonly number[] {
  const terms = new Set<number>([idTerm(event.id)]);
  const add = (term: number | undefined): void => void (term !== undefined && terms.add(term));
  for (const name of ATTRIBUTE_NAMES) {
    const value = event[name];
    if (value !== undefined) add(attributeTerm(name, value));
  }
  const severity = severityOf(event);
  if (severity !== undefined) terms.add(severityTerm(severity));
  for (const tag of tagsOf(event)) terms.add(tagTerm(tag));
  for (const name of WORDED) addWords(terms, event[name]);
  for (const [name, value] of event.extensions) {
    add(extensionTerm(name, value));
    addWords(terms, value);
  }
  const isWhole = addData(terms, event);
  const all = [...terms];
  return isWhole && all.length <= MAX_TERMS ? all : [...all.slice(0, MAX_TERMS), INCOMPLETE_TERM];
}

function addWords(terms: Set<number>, text: string | undefined): void {
  if (text === undefined) return;
  for (const word of wordsOf(text)) terms.add(wordTerm(word));
}

/** Whether the payload has all of its terms among them, or none to add. */
function addData(terms: Set<number>, { data, datacontenttype }: CloudEvent): boolean {
  if (data === undefined || data.protoType !== undefined) return true;
  const isJson = datacontenttype === undefined || isJsonMediaType(datacontenttype);
  if (!isJson && !/^text\//i.test(datacontenttype)) return true;
  if (data.bytes.byteLength > MAX_TERMS_BYTES) return false;
  const text = decodeUtf8(data.bytes);
  if (text === undefined) return true;
  if (isJson) addJson(terms, text);
  else addWords(terms, text);
  return true;
}

/** An object or an array that is still to be looked into, with the hash and the length of its path. */
interface Place {
  readonly container: object;
  readonly path: number;
  readonly depth: number;
}

function addJson(terms: Set<number>, text: string): void {
  let root: unknown;
  try {
    root = JSON.parse(text.startsWith("\ufeff") ? text.slice(1) : text);
  } catch {
    return; // What is no JSON has no paths.
  }
  const places: Place[] = [];
  function visit(value: unknown, path: number, depth: number): void {
    if (typeof value === "object" && value !== null) {
      places.push({ container: value, path, depth: depth + 1 });
      return;
    }
    const scalar = value as JsonScalar;
    if (depth <= MAX_PATH && hasTerm(scalar)) terms.add(valueTerm(path, scalar));
    if (typeof scalar === "string") addWords(terms, scalar);
  }
  visit(root, DATA, 0);
  for (let place = places.pop(); place !== undefined && terms.size <= MAX_TERMS; place = places.pop()) {
    const { container, path, depth } = place;
    if (Array.isArray(container)) {
      const inside = step(path, ANY_ELEMENT);
      for (const element of container) visit(element, inside, depth);
    } else for (const [name, member] of Object.entries(container)) visit(member, step(path, name), depth);
  }
}
