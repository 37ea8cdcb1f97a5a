import { type StoredEvent } from "../event.ts";
import { searchablePayload } from "../searchable.ts";
import { severityOf } from "../severity.ts";
import { tagsOf } from "../tags.ts";
import { termsOf } from "../terms.ts";
import { toMicros } from "../timestamp.ts";
import { type Decimal, decimalOf } from "./decimal.ts";
import { foldCase } from "./fold-case.ts";

/**
 * A value of a JSON payload. A number is a Decimal where a double might not hold it exactly, so the shortest text of every
 * other is the one that was sent.
 */
export type JsonNode =
  | string
  | number
  | boolean
  | null
  | Decimal
  | readonly JsonNode[]
  | { readonly [name: string]: JsonNode };

/**
 * An event that filters look at, made once however many they are: what they ask for is read when the first asks, and kept.
 */
export interface ExaminedEvent {
  readonly stored: StoredEvent;
  /** Microseconds since 1970; of an event without time its {@link receiveTime}. */
  time(): bigint;
  receiveTime(): bigint;
  severity(): number | undefined;
  tags(): readonly string[];
  terms(): ReadonlySet<number>;
  /** The payload, where it is searchable JSON. */
  json(): JsonNode | undefined;
  /**
   * What full text looks into, by foldCase: id, source, type, subject, the extensions' values, the payload's strings or text.
   * Between them stands U+0000, which none of them has.
   */
  foldedTexts(): string;
}

/** @param terms those of the event's row, where it was read from one; else they are computed when they are asked for. */
export function examine(stored: StoredEvent, terms?: readonly number[]): ExaminedEvent {
  const { event } = stored;
  const receiveTime = lazily(() => BigInt(stored.acceptTime) * 1_000n);
  const payload = lazily(() => searchablePayload(event));
  const json = lazily(() => {
    const found = payload();
    return found?.form === "json" ? exactRoot(found.text, found.root) : undefined;
  });
  return {
    stored,
    time: lazily(() => (event.time === undefined ? receiveTime() : toMicros(event.time))),
    receiveTime,
    severity: lazily(() => severityOf(event)),
    tags: lazily(() => tagsOf(event)),
    terms: lazily(() => new Set(terms ?? termsOf(event))),
    json,
    foldedTexts: lazily(() => {
      const texts = [event.id, event.source, event.type, event.subject ?? "", ...event.extensions.values()];
      const found = payload();
      if (found?.form === "text") texts.push(found.text);
      else if (found !== undefined) addStrings(texts, found.root);
      return foldCase(texts.join("\0"));
    }),
  };
}

function lazily<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

// Up to 15 digits, any two decimals are two doubles, and the order is the same. It is asked of the whole text, strings
// included: nearly always no, and then that is all there is to do.
const MAY_BE_INEXACT = /\d[\d.]{15}|\d[eE][+-]?\d{3}/;

declare const JSON: {
  parse(
    text: string,
    reviver: (name: string, value: JsonNode, context: { readonly source: string }) => JsonNode,
  ): JsonNode;
};

function exactRoot(text: string, root: unknown): JsonNode {
  if (!MAY_BE_INEXACT.test(text)) return root as JsonNode;
  return JSON.parse(text, (_, value, { source }) =>
    typeof value === "number" && MAY_BE_INEXACT.test(source) ? (decimalOf(source) ?? value) : value,
  );
}

function addStrings(texts: string[], root: unknown): void {
  const containers: object[] = [];
  const visit = (value: unknown): void => {
    if (typeof value === "string") texts.push(value);
    else if (typeof value === "object" && value !== null) containers.push(value);
  };
  visit(root);
  for (let next = containers.pop(); next !== undefined; next = containers.pop())
    Object.values(next).forEach(visit);
}
