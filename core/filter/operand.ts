import { quote } from "../faults.ts";
import { type WrittenOperator } from "./condition.ts";
import { peek, type Scan, skipSpace, take, takeQuoted, type Written, written } from "./scan.ts";

/** The operators that there are, for messages. */
export const OPERATORS = "one of = != < <= > >= : (has)";
const MEANT: Readonly<Record<string, WrittenOperator>> = {
  "=>": ">=",
  "=<": "<=",
  "<>": "!=",
  "!==": "!=",
};

/** Reads an operator, or what is meant for one, which is noted; undefined where there is none. */
export function takeOperator(scan: Scan): WrittenOperator | undefined {
  skipSpace(scan);
  const position = scan.at;
  const found = take(scan, /[=<>:~]+|!=+/y);
  if (found === undefined) return undefined;
  if (/^(?:[=:<>]|!=|<=|>=)$/.test(found)) return found as WrittenOperator;
  const meant = MEANT[found] ?? (/^=+$/.test(found) ? "=" : undefined);
  scan.fault(position, `There is no operator ${quote(found)}.`, {
    expected: OPERATORS,
    ...(meant !== undefined && { suggestion: meant }),
  });
  return meant ?? "=";
}

/** Reads the value of a condition; undefined where there is none, which is noted. */
export function takeValue(scan: Scan): Written | undefined {
  skipSpace(scan);
  const position = scan.at;
  const first = scan.text[position] ?? "";
  if (first === '"' || first === "'") return takeQuoted(scan);
  const value = peek(scan, VALUE);
  if (value !== undefined && !/^(?:AND|OR|NOT)$/.test(value)) {
    scan.at += value.length;
    const rest = value === "now" ? peek(scan, /\s+[+-]\s*\d+[a-z]\b|[+-]\s+\d+[a-z]\b/y) : undefined;
    if (rest === undefined) return written(value, position);
    scan.at += rest.length;
    const suggestion = `now${rest.replaceAll(/\s/g, "")}`;
    scan.fault(position, "A relative time has no spaces.", { suggestion });
    return undefined;
  }
  const hint = first === "(" ? " A field has one value: a = x OR a = y." : "";
  scan.fault(position, `A value is missing.${hint}`, { expected: "a word, a number or a quoted string" });
  // What stands in its place is passed over, so that it is no fault of its own.
  take(scan, /\([^()]*\)?|(?:[=<>!:~,]+\s*)+[^\s()"']*/y);
  return undefined;
}

/** What a value without quotes may consist of. */
const VALUE = /(?:[^\s()"'=<>!,[\]\\&|]|&(?!&)|\|(?!\|))+/y;
