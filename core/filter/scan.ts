import { createFaults, quote } from "../faults.ts";
import { type Result } from "../reason.ts";

/** A filter's text that is being read, and what was found wrong with it. Positions are offsets in UTF-16 units from 0. */
export interface Scan {
  readonly text: string;
  /** The names of the fields that there are where not all are; then there is no full text either. */
  readonly only: readonly string[] | undefined;
  at: number;
  /** Notes a fault of the text at a position; reading goes on. */
  fault(position: number, description: string, hints?: Hints): void;
  result<T>(value: () => T): Result<T>;
}

/** What a fault says for programs, beside its position. */
export interface Hints {
  /** What would have been right there. */
  readonly expected?: string;
  /** What is probably meant, to be written in place of what is wrong. */
  readonly suggestion?: string;
  readonly limit?: string;
  readonly actual?: string;
  readonly unit?: string;
}

/** Begins to read a text. */
export function createScan(text: string, only?: readonly string[]): Scan {
  const faults = createFaults();
  return {
    text,
    only,
    at: 0,
    fault(position, description, hints) {
      const suggestion = hints?.suggestion === undefined ? "" : ` Did you mean ${hints.suggestion}?`;
      const metadata = { position: String(position), ...hints };
      faults.add("filter", "INVALID_FILTER", `At ${position}: ${description}${suggestion}`, metadata);
    },
    result: (value) => faults.result(value),
  };
}

/** A string as it was written: the runs around each `*` that stands for anything. */
export interface Written {
  readonly position: number;
  readonly isQuoted: boolean;
  readonly runs: readonly string[];
}

/** Of unquoted text: `*` apart, there is nothing to decode. */
export function written(text: string, position: number): Written {
  // Two stars beside each other say what one says.
  return { position, isQuoted: false, runs: text.replaceAll(/\*+/g, "*").split("*") };
}

/** Leads over white space. */
export function skipSpace(scan: Scan): void {
  take(scan, /\s*/y);
}

/** Reads what the expression, which must be sticky, matches at the place reached; undefined where it does not. */
export function take(scan: Scan, expression: RegExp): string | undefined {
  const found = peek(scan, expression);
  scan.at += found?.length ?? 0;
  return found;
}

/** As {@link take}, and stays there. */
export function peek({ text, at }: Scan, expression: RegExp): string | undefined {
  expression.lastIndex = at;
  return expression.exec(text)?.[0];
}

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t" };

/** Reads the string whose opening quote is at the place reached. */
export function takeQuoted(scan: Scan): Written {
  const position = scan.at;
  const opening = scan.text[position] ?? "";
  const runs = [""];
  const add = (text: string): void => void runs.push((runs.pop() ?? "") + text);
  const plain = opening === '"' ? /[^"*\\]+/y : /[^'*\\]+/y;
  scan.at += 1;
  while (scan.at < scan.text.length) {
    const text = take(scan, plain);
    if (text !== undefined) add(text);
    else if (take(scan, /\*+/y) !== undefined) runs.push("");
    else if (scan.text[scan.at] === "\\") add(takeEscape(scan));
    else {
      scan.at += 1;
      if (!runs.every((run) => run.isWellFormed()))
        scan.fault(position, "Half of a surrogate pair stands alone.");
      return { position, isQuoted: true, runs };
    }
  }
  scan.fault(position, "This quote is not closed.", { expected: opening });
  return { position, isQuoted: true, runs };
}

function takeEscape(scan: Scan): string {
  const position = scan.at;
  const hex = take(scan, /\\u[0-9a-fA-F]{4}/y);
  if (hex !== undefined) {
    const unit = Number.parseInt(hex.slice(2), 16);
    if (unit === 0) scan.fault(position, "No event can have the character U+0000.");
    return String.fromCharCode(unit);
  }
  const escape = take(scan, /\\[^]?/y)?.slice(1) ?? "";
  if (/^[\\"'*]$/.test(escape)) return escape;
  const control = ESCAPES[escape];
  if (control !== undefined) return control;
  scan.fault(position, `There is no escape ${quote(`\\${escape}`)}.`, {
    expected: String.raw`\\ \" \' \* \n \r \t or \u and four hexadecimal digits`,
    suggestion: String.raw`\\` + escape,
  });
  return escape;
}
