import { type CloudEvent } from "./event.ts";
import { declaredForm } from "./searchable.ts";
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
/** The most segments of a path that has terms. */
export const MAX_PATH = 8;
/** A longer string of a payload has no term of its own, only its words. */
export const MAX_VALUE_LENGTH = 32;

/** Attributes whose equality has terms. */
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

// What has a digit (an id, an amount, a time) has a new value in nearly every event. Its terms are cut to 2^20 different ones:
// so the index has at most that many entries for them, whose lists grow, and the pages that an insert touches stay the same
// however many rows there are. Other words keep all bits, so that a rare one shares its term with no frequent one.
const NUMBERED_BITS = 20;
const NUMBERED_LENGTH = 3;

function finishValue(state: number, value: string): number {
  const term = finish(state);
  return isNumbered(value) ? term >>> (32 - NUMBERED_BITS) : term;
}

function isNumbered(value: string): boolean {
  if (value.length < NUMBERED_LENGTH) return false;
  for (let at = 0; at < value.length; at += 1) {
    const code = value.charCodeAt(at);
    if (code >= 0x30 && code <= 0x39) return true;
  }
  return false;
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

/** The media type of nearly every event, which has no term. */
const USUAL_MEDIA_TYPE = "application/json";
/** Extensions whose values have only words: what they mean has {@link tagTerm} and {@link severityTerm}. */
const WORDS_ALONE: ReadonlySet<string> = new Set(["tags", "severitynumber", "severitytext"]);

/** Of an event that has more terms than are kept, or a payload too large to look into: any search must look at it. */
export const INCOMPLETE_TERM: number = finish(start("incomplete"));

// What a condition needs are the terms that an event must have to fulfil it, all of them (or the INCOMPLETE_TERM). It may need
// none; then the index cannot narrow it.

/** What an event needs that has all words of a text; words of one unit have no terms. */
export function wordTerms(text: string): readonly number[] {
  return termsOfWords(wordsOf(text));
}

/** The term of an event with this id: the whole of it, in lower case, is a word, whatever it consists of. */
export function idTerm(id: string): number {
  return wordTerm(id.toLowerCase());
}

/** The term of an event whose tags contain this one. */
export function tagTerm(tag: string): number {
  return finishValue(extend(TAG, tag), tag);
}

/** The term of an OpenTelemetry severity number. */
export function severityTerm(severity: number): number {
  return finish(extend(SEVERITY, String(severity)));
}

/** What an event needs that has exactly this value of an attribute. */
export function attributeTerms(name: TermAttribute, value: string): readonly number[] {
  if (name === "subject") return neededFor(value, finishValue(extend(ATTRIBUTES.subject, value), value));
  return name === "datacontenttype" && value === USUAL_MEDIA_TYPE ? [] : [nameTerm(name, value)];
}

/** What an event needs that has an extension of this value; two ways to write one number are one value. */
export function extensionTerms(name: string, value: string): readonly number[] {
  if (WORDS_ALONE.has(name)) return wordTerms(value);
  const number = numberOf(value);
  const term = finishValue(extend(EXTENSION, `${name}\0${number ?? value}`), number ?? value);
  return number === undefined ? neededFor(value, term) : [term];
}

/** What an event needs whose payload has this value at this path. */
export function dataTerms(path: readonly TermSegment[], value: JsonScalar): readonly number[] {
  if (typeof value === "string" && (value.length > MAX_VALUE_LENGTH || path.length > MAX_PATH))
    return wordTerms(value);
  if (path.length > MAX_PATH) return [];
  const term = valueTerm(path.reduce(step, DATA), value);
  return typeof value === "string" ? neededFor(value, term) : [term];
}

/** A text that is one word has that word's term alone; any other has one of its own too, which says more than its words. */
function neededFor(text: string, own: number): readonly number[] {
  const words = termsOfWords(wordsOf(text));
  return words.length === 1 ? words : [own];
}

function termsOfWords(words: readonly string[]): number[] {
  const terms: number[] = [];
  for (const word of words) if (word.length > 1) terms.push(wordTerm(word));
  return terms;
}

function wordTerm(word: string): number {
  return finishValue(extend(WORD, word), word);
}

/** Of what names a kind, not one thing, whatever digits it has. */
function nameTerm(name: TermAttribute, value: string): number {
  return finish(extend(ATTRIBUTES[name], value));
}

const NUMBER = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/;

/** The one way to write a number's value, as far as a double goes; equal numbers are equal doubles. */
function numberOf(value: string): string | undefined {
  return NUMBER.test(value) ? String(Number(value)) : undefined;
}

function step(state: number, segment: TermSegment): number {
  return segment === ANY_ELEMENT ? extend(state, "\u0001") : extend(extend(state, "\0"), segment);
}

function valueTerm(path: number, value: JsonScalar): number {
  if (typeof value === "string") return finishValue(extend(extend(path, "\u0002"), value), value);
  if (typeof value === "number") return finishValue(extend(path, `\u0003${value}`), String(value));
  return finish(extend(path, value === null ? "\u0006" : value ? "\u0004" : "\u0005"));
}

/**
 * The terms of an event, each once, at most {@link MAX_TERMS} and {@link INCOMPLETE_TERM}: of its id, type, source, subject,
 * schema, media type, severity, tags and extensions; of the words of type, source, subject and extensions; and of its payload
 * the values at their paths and the words of its strings (but not of its names). The payload counts where it is JSON by its
 * media type or without one, and as words alone where it is text/*. Never throws; takes time linear in the event's size.
 */
export function termsOf(event: CloudEvent): readonly number[] {
  const { type, source, subject, dataschema, datacontenttype, extensions } = event;
  const terms = new Set<number>([idTerm(event.id), nameTerm("type", type), nameTerm("source", source)]);
  const addAll = (more: readonly number[]): void => more.forEach((term) => terms.add(term));
  addAll(wordTerms(type));
  addAll(wordTerms(source));
  const severity = severityOf(event);
  if (severity !== undefined) terms.add(severityTerm(severity));
  if (subject !== undefined) {
    addAll(attributeTerms("subject", subject));
    addAll(wordTerms(subject));
  }
  if (dataschema !== undefined) terms.add(nameTerm("dataschema", dataschema));
  if (datacontenttype !== undefined) addAll(attributeTerms("datacontenttype", datacontenttype));
  for (const tag of tagsOf(event)) terms.add(tagTerm(tag));
  for (const [name, value] of extensions) {
    addAll(extensionTerms(name, value));
    addAll(wordTerms(value));
  }
  const isWhole = addData(terms, event);
  const all = [...terms];
  return isWhole && all.length <= MAX_TERMS ? all : [...all.slice(0, MAX_TERMS), INCOMPLETE_TERM];
}

/** Whether the payload has all of its terms among them, or none to add. */
function addData(terms: Set<number>, event: CloudEvent): boolean {
  const form = declaredForm(event);
  if (form === undefined || event.data === undefined) return true;
  if (event.data.bytes.byteLength > MAX_TERMS_BYTES) return false;
  const text = decodeUtf8(event.data.bytes);
  if (text === undefined) return true;
  if (form === "json") addJson(terms, text);
  else for (const term of wordTerms(text)) terms.add(term);
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
    if (typeof value === "string") {
      const words = termsOfWords(wordsOf(value));
      for (const word of words) terms.add(word);
      if (words.length !== 1 && depth <= MAX_PATH && value.length <= MAX_VALUE_LENGTH)
        terms.add(valueTerm(path, value));
    } else if (typeof value === "object" && value !== null)
      places.push({ container: value, path, depth: depth + 1 });
    else if (depth <= MAX_PATH) terms.add(valueTerm(path, value as JsonScalar));
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
