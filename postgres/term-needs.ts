import {
  type Comparison,
  type Condition,
  type ConstantValue,
  type Filter,
  type Glob,
  type NumberValue,
  type Operator,
  type Segment,
  type SeverityValue,
  type StringValue,
} from "#core/filter/tree.ts";
import {
  ANY_ELEMENT,
  attributeTerms,
  dataTerms,
  extensionTerms,
  idTerm,
  type JsonScalar,
  severityTerm,
  tagTerm,
  type TermSegment,
  wordTerms,
} from "#core/terms.ts";

import { INCOMPLETE } from "./filter-text.ts";
import { type Parameters } from "./parameters.ts";

/** The terms that an event must have, unless it has the INCOMPLETE_TERM: all of some, or what is put together of such. */
export type TermNeeds =
  | { readonly kind: "terms"; /** One or more. */ readonly all: readonly number[] }
  | { readonly kind: "and" | "or"; /** Two or more. */ readonly of: readonly TermNeeds[] };

/** What every event needs that the filter matches; undefined where that is no term, so that the index has no say. */
export function termNeeds(filter: Filter): TermNeeds | undefined {
  switch (filter.kind) {
    case "and": {
      const needs = filter.of.map(termNeeds).filter((each) => each !== undefined);
      const all = needs.flatMap((each) => (each.kind === "terms" ? each.all : []));
      const others = needs.filter(({ kind }) => kind !== "terms");
      const parts = [...(all.length > 0 ? [needAll(all)!] : []), ...others];
      return parts.length > 1 ? { kind: "and", of: parts } : parts[0];
    }
    case "or": {
      const needs = filter.of.map(termNeeds).filter((each) => each !== undefined);
      return needs.length < filter.of.length ? undefined : { kind: "or", of: needs };
    }
    case "not":
      return undefined;
    default:
      return needsOfCondition(filter);
  }
}

function needAll(terms: readonly number[]): TermNeeds | undefined {
  return terms.length === 0 ? undefined : { kind: "terms", all: [...new Set(terms)] };
}

function needsOfCondition(condition: Condition): TermNeeds | undefined {
  switch (condition.kind) {
    case "text":
      return needAll(wordTerms(condition.text));
    case "glob":
      return needAll(termsOfGlob(condition));
    case "present":
      return undefined;
    case "compare":
      return needsOfComparison(condition);
  }
}

function needsOfComparison({ field, op, value }: Comparison): TermNeeds | undefined {
  if (value.kind === "severity") {
    const [low, high] = severitiesOf(op, value);
    const each = Array.from({ length: high - low + 1 }, (_, more) => needAll([severityTerm(low + more)])!);
    return each.length > 1 ? { kind: "or", of: each } : each[0];
  }
  if (op !== "=" || value.kind === "time" || value.kind === "now") return undefined;
  const scalar = scalarOf(value);
  switch (field.kind) {
    case "data":
      return needAll(dataTerms(field.path.map(termSegment), scalar));
    case "extension":
      return needAll(extensionTerms(field.name, value.kind === "number" ? value.decimal : String(scalar)));
    case "string":
      return needAll(
        field.name === "id" ? [idTerm(String(scalar))] : attributeTerms(field.name, String(scalar)),
      );
    case "tags":
      return needAll([tagTerm(String(scalar))]);
    default:
      return undefined;
  }
}

/** The numbers that compare so; the first is above the last where none does. */
function severitiesOf(op: Operator, { low, high }: SeverityValue): readonly [low: number, high: number] {
  switch (op) {
    case "=":
      return [low, high];
    case "<":
      return [1, low - 1];
    case "<=":
      return [1, high];
    case ">":
      return [high + 1, 24];
    case ">=":
      return [low, 24];
  }
}

/** Equal numbers are equal doubles, so a number's term is that of its double, also where that does not hold it exactly. */
function scalarOf(value: StringValue | NumberValue | ConstantValue): JsonScalar {
  if (value.kind === "string") return value.text;
  return value.kind === "number" ? Number(value.decimal) : value.value;
}

/** Terms know no index, only that it is an element. */
function termSegment(segment: Segment): TermSegment {
  return typeof segment === "number" ? ANY_ELEMENT : segment;
}

/** Of the words that stand whole in the glob, where the words of the field's values have terms. */
function termsOfGlob({ field, runs }: Glob): readonly number[] {
  if (field.kind === "string" && !WORDED.has(field.name)) return [];
  return runs.flatMap((run, index) =>
    wholeWords(run, index === 0, index === runs.length - 1).flatMap(wordTerms),
  );
}

/** The attributes whose words have terms. */
const WORDED: ReadonlySet<string> = new Set(["type", "source", "subject"]);

// What is at an end of a run may go on beyond it, unless that is an end of the whole. Nor does it show what the hyphens beside
// hexadecimal digits belong to: a UUID is one word with them. And whether a sigma ends its word, so that it is another letter,
// may show beyond the run too.
const WORD = /[\p{L}\p{M}\p{N}]+(?:-[\p{L}\p{M}\p{N}]+)*/gu;
const HEXADECIMAL = /^[0-9a-f]+$/;

function wholeWords(run: string, isFirst: boolean, isLast: boolean): readonly string[] {
  const lower = run.toLowerCase();
  const words: string[] = [];
  for (const { 0: found, index } of lower.matchAll(WORD)) {
    const [start, end] = [index, index + found.length];
    const parts = found.split("-");
    parts.forEach((part, at) => {
      const isCut =
        (at === 0 && start === 0 && !isFirst) || (at === parts.length - 1 && end === lower.length && !isLast);
      const touchesHyphen = at > 0 || at < parts.length - 1 || lower[start - 1] === "-" || lower[end] === "-";
      if (!isCut && !(touchesHyphen && HEXADECIMAL.test(part)) && !/[σς]/.test(part)) words.push(part);
    });
  }
  return words;
}

/** The needs as a condition that the index of terms serves. */
export function compileNeeds(needs: TermNeeds, parameters: Parameters): string {
  return `(${compileEach(needs, parameters)} or ${INCOMPLETE})`;
}

function compileEach(needs: TermNeeds, parameters: Parameters): string {
  if (needs.kind === "terms") return `terms @> ${parameters.bind(needs.all, "int4[]")}`;
  if (needs.kind === "and") return `(${needs.of.map((each) => compileEach(each, parameters)).join(" and ")})`;
  // Any of single terms is one look into the index.
  const single = needs.of.flatMap((each) => (each.kind === "terms" && each.all.length === 1 ? each.all : []));
  const others = needs.of.filter((each) => each.kind !== "terms" || each.all.length > 1);
  const parts = others.map((each) => compileEach(each, parameters));
  if (single.length > 0) parts.push(`terms && ${parameters.bind(single, "int4[]")}`);
  return `(${parts.join(" or ")})`;
}
