import { quote } from "../faults.ts";
import { type Result } from "../reason.ts";
import { utf8Length } from "../utf8.ts";
import { filterOf } from "./condition.ts";
import { takeField } from "./field.ts";
import { OPERATORS, takeOperator, takeValue } from "./operand.ts";
import { printFilter } from "./print.ts";
import { createScan, peek, type Scan, skipSpace, take, takeQuoted, type Written, written } from "./scan.ts";
import { type Filter } from "./tree.ts";

/** The most bytes of UTF-8 of a filter's text, as it is written and in its canonical form. */
export const MAX_FILTER_BYTES = 4_096;
/** How deep a filter's tree, a condition being one level, and its brackets nest at most. */
export const MAX_DEPTH = 16;
/** The most conditions of a filter; `data.PATH:VALUE` is two. */
export const MAX_CONDITIONS = 64;

/**
 * Reads a filter (docs/filter.md has the language); undefined for a text without any condition. A refusal tells all faults
 * that were found, each with its `position` in the metadata (the offset in UTF-16 units), and where there is something to
 * say with what was `expected` there and a `suggestion` to write instead. Never throws, linear time.
 *
 * @param only the names of the fields that there are, where not all are; then there is no full text either.
 */
export function parseFilter(text: string, only?: readonly string[]): Result<Filter | undefined> {
  const scan = createScan(text, only);
  const bytes = utf8Length(text);
  const strange = text.isWellFormed() ? text.indexOf("\0") : 0;
  if (bytes > MAX_FILTER_BYTES)
    tooLarge(scan, `The filter has ${bytes} bytes`, bytes, MAX_FILTER_BYTES, "bytes");
  else if (strange >= 0)
    scan.fault(strange, "The filter has the character U+0000 or half of a surrogate pair.");
  else {
    const filter = takeExpression(scan, 0);
    if (filter !== undefined) checkSize(scan, filter);
    return scan.result(() => filter);
  }
  return scan.result(() => undefined);
}

function tooLarge(scan: Scan, what: string, actual: number, limit: number, unit: string): void {
  const metadata = { limit: String(limit), actual: String(actual), unit };
  scan.fault(0, `${what}; at most ${limit} are taken.`, metadata);
}

function checkSize(scan: Scan, filter: Filter): void {
  const conditions = conditionsOf(filter);
  const depth = depthOf(filter);
  if (conditions > MAX_CONDITIONS)
    tooLarge(scan, `The filter has ${conditions} conditions`, conditions, MAX_CONDITIONS, "conditions");
  if (depth > MAX_DEPTH) tooLarge(scan, `The filter nests ${depth} levels deep`, depth, MAX_DEPTH, "levels");
  const bytes = utf8Length(printFilter(filter));
  if (bytes > MAX_FILTER_BYTES)
    tooLarge(scan, `The filter in its canonical form has ${bytes} bytes`, bytes, MAX_FILTER_BYTES, "bytes");
}

function conditionsOf(filter: Filter): number {
  if (filter.kind === "not") return conditionsOf(filter.of);
  if (!("of" in filter)) return 1;
  return filter.of.reduce((sum, each) => sum + conditionsOf(each), 0);
}

function depthOf(filter: Filter): number {
  if (filter.kind === "not") return 1 + depthOf(filter.of);
  return "of" in filter ? 1 + Math.max(...filter.of.map(depthOf)) : 1;
}

/** Reads up to the bracket that closes or the end of the text; undefined where no condition is sound. */
function takeExpression(scan: Scan, depth: number): Filter | undefined {
  const all: Filter[][] = [];
  let open: { readonly word: string; readonly position: number } | undefined;
  let hasLeft = false;
  for (skipSpace(scan); scan.at < scan.text.length; skipSpace(scan)) {
    const position = scan.at;
    if (scan.text[position] === ")") {
      if (depth > 0) break;
      scan.at += 1;
      scan.fault(position, "No bracket is open that this one closes.");
      continue;
    }
    const word = takeJoint(scan);
    if (word !== undefined) {
      if (!hasLeft || open !== undefined)
        scan.fault(position, `A condition is missing before ${word}.`, { expected: "a condition" });
      open = { word, position };
      continue;
    }
    const filter = takeTerm(scan, depth);
    if (filter !== undefined && open?.word === "OR" && all.length > 0) all.at(-1)?.push(filter);
    else if (filter !== undefined) all.push([filter]);
    open = undefined;
    hasLeft = true;
    checkEndOfTerm(scan);
  }
  if (open !== undefined)
    scan.fault(open.position, `A condition is missing after ${open.word}.`, { expected: "a condition" });
  return joined(
    "and",
    all.map((each) => joined("or", each)).filter((each) => each !== undefined),
  );
}

function joined(kind: "and" | "or", filters: readonly Filter[]): Filter | undefined {
  const of = filters.flatMap((filter) => (filter.kind === kind ? filter.of : [filter]));
  return of.length > 1 ? { kind, of } : of[0];
}

const JOINTS: Readonly<Record<string, "AND" | "OR">> = { and: "AND", or: "OR", "&&": "AND", "||": "OR" };

/** Reads AND or OR, or what is meant for one, which is noted. */
function takeJoint(scan: Scan): "AND" | "OR" | undefined {
  const position = scan.at;
  const found = peek(scan, /(?:and|or)(?=[\s()]|$)(?!\s*(?:[=<>:~]|!=))|&&|\|\|/iy);
  const joint = JOINTS[found?.toLowerCase() ?? ""];
  if (found === undefined || joint === undefined) return undefined;
  scan.at += found.length;
  if (found !== joint) {
    const words = /\w/.test(found) ? ", or in quotes where it is a word to look for" : "";
    scan.fault(position, `Conditions are joined by ${joint} in capitals${words}.`, { suggestion: joint });
  }
  return joint;
}

/** Reads a condition or a bracket with what negates it; undefined where it is not sound, which is noted. */
function takeTerm(scan: Scan, depth: number): Filter | undefined {
  let isNegated = false;
  for (;;) {
    const position = scan.at;
    const sign = take(scan, /-(?=[^\s)])|not(?=[\s()"']|$)(?!\s*(?:[=<>:~]|!=))|!(?![=~])/iy);
    if (sign === undefined) break;
    if (sign !== "-" && sign !== "NOT")
      scan.fault(position, `What is not wanted begins with NOT in capitals, or with -.`, {
        suggestion: "NOT",
      });
    skipSpace(scan);
    if (/^[)]?$/.test(scan.text[scan.at] ?? "")) {
      scan.fault(position, `A condition is missing after ${sign}.`, { expected: "a condition" });
      return undefined;
    }
    isNegated = !isNegated;
  }
  const filter = takeSimple(scan, depth);
  if (filter === undefined || !isNegated) return filter;
  return filter.kind === "not" ? filter.of : { kind: "not", of: filter };
}

function takeSimple(scan: Scan, depth: number): Filter | undefined {
  const position = scan.at;
  const first = scan.text[position] ?? "";
  if (first === "(") return takeBracket(scan, depth);
  if (first === '"' || first === "'") return takePhrase(scan);
  const word = peek(scan, WORD);
  if (word === undefined || /^-+$/.test(word)) {
    const stray = take(scan, STRAY) ?? "";
    scan.fault(position, `Nothing can begin with ${quote(stray)} here.`, { expected: "a condition" });
    return undefined;
  }
  scan.at += word.length;
  const isField =
    peek(scan, /\[|\s*(?:[=<>:~]|!=)/y) !== undefined ||
    (word.endsWith(".") && peek(scan, /["']/y) !== undefined);
  if (!isField) return textFilter(scan, written(word, position));
  scan.at = position;
  return takeCondition(scan);
}

/** What a bare word, the name of a field with its points, may consist of. */
const WORD = /(?:[^\s()"'=<>!:,[\]\\&|~]|&(?!&)|\|(?!\|))+/y;
const STRAY = /[-=<>!:~]+|[^]/y;

function takeBracket(scan: Scan, depth: number): Filter | undefined {
  const position = scan.at;
  if (depth >= MAX_DEPTH) {
    const metadata = { limit: String(MAX_DEPTH), unit: "levels" };
    scan.fault(position, `Brackets nest ${MAX_DEPTH} levels deep at most.`, metadata);
    passBracket(scan);
    return undefined;
  }
  scan.at += 1;
  skipSpace(scan);
  const isEmpty = scan.text[scan.at] === ")";
  const filter = takeExpression(scan, depth + 1);
  if (isEmpty) scan.fault(position, "There is nothing in these brackets.", { expected: "a condition" });
  if (take(scan, /\)/y) === undefined) scan.fault(position, "This bracket is not closed.", { expected: ")" });
  return filter;
}

function passBracket(scan: Scan): void {
  let open = 0;
  do {
    const part = take(scan, /"(?:[^"\\]|\\[^])*"?|'(?:[^'\\]|\\[^])*'?|[()]|[^"'()]+/y);
    if (part === "(") open += 1;
    else if (part === ")") open -= 1;
  } while (open > 0 && scan.at < scan.text.length);
}

function takePhrase(scan: Scan): Filter | undefined {
  const phrase = takeQuoted(scan);
  const follows = peek(scan, /\s*(?:[=<>:~]+|!=)|\.|\[/y);
  if (follows === undefined) return textFilter(scan, phrase);
  scan.fault(phrase.position, "The name of a field stands without quotes.", {
    suggestion: phrase.runs.join("*"),
  });
  take(scan, /[.[][^\s=<>:]*/y);
  if (takeOperator(scan) !== undefined) takeValue(scan);
  return undefined;
}

function textFilter(scan: Scan, { position, runs }: Written): Filter | undefined {
  if (scan.only !== undefined) {
    const expected = `a condition on one of ${scan.only.join(", ")}`;
    scan.fault(position, "Full text cannot be looked for here.", { expected });
    return undefined;
  }
  if (runs.length === 1 && runs[0] !== "") return { kind: "text", text: runs[0] ?? "" };
  const problem =
    runs.length === 1
      ? "There is nothing in these quotes to look for."
      : String.raw`Full text finds whole words, without *; the character is \* in quotes.`;
  scan.fault(position, problem, { expected: "words, or a field with = and a string with *" });
  return undefined;
}

function takeCondition(scan: Scan): Filter | undefined {
  const position = scan.at;
  const field = takeField(scan);
  skipSpace(scan);
  const missing = scan.at;
  const op = takeOperator(scan);
  if (op === undefined) {
    scan.fault(missing, "An operator is missing after this field.", { expected: OPERATORS });
    return undefined;
  }
  const value = takeValue(scan);
  return value && field && filterOf(scan, { position, field, op, value });
}

/** After a condition without brackets there is a space, a closing bracket or the end; anything else is noted and passed over. */
function checkEndOfTerm(scan: Scan): void {
  const position = scan.at;
  if (/[\s)]/.test(scan.text[position - 1] ?? "")) return;
  const rest = take(scan, /(?!&&|\|\|)[^\s)]+/y);
  if (rest === undefined) return;
  const isCall = rest.startsWith("(");
  const description = isCall
    ? "There are no functions; a space is missing before this bracket."
    : `${quote(rest)} cannot follow here; what holds such characters is put in quotes.`;
  scan.fault(position, description, { expected: "a space, a closing bracket or the end" });
}
