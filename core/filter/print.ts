import { SEVERITY_NAMES } from "../severity.ts";
import { ANY_ELEMENT } from "../terms.ts";
import { timestampFrom } from "../timestamp.ts";
import { TIME_UNITS } from "./time-units.ts";
import { type Comparison, type Condition, type Field, type Filter, type Segment } from "./tree.ts";

/**
 * The canonical text of a filter: the same for all texts that mean the same tree, and `parseFilter` of it gives the tree.
 * The canonical text of no filter is "".
 */
export function printFilter(filter: Filter | undefined): string {
  return filter === undefined ? "" : printed(filter);
}

function printed(filter: Filter): string {
  switch (filter.kind) {
    case "and":
      return filter.of.map(printedInside).join(" AND ");
    case "or":
      return filter.of.map(printedInside).join(" OR ");
    case "not": {
      const { of } = filter;
      const isEquality = of.kind === "glob" || (of.kind === "compare" && of.op === "=");
      if (isEquality && of.field.kind !== "tags") return `${printedField(of.field)} != ${printedValue(of)}`;
      return `NOT ${printedInside(of)}`;
    }
    default:
      return printedCondition(filter);
  }
}

/** OR binds tighter than AND, which surprises, so brackets stand around either. */
function printedInside(filter: Filter): string {
  const text = printed(filter);
  return filter.kind === "and" || filter.kind === "or" ? `(${text})` : text;
}

function printedCondition(condition: Condition): string {
  switch (condition.kind) {
    case "text":
      return quoted([condition.text]);
    case "present":
      return `${printedField(condition.field)}:*`;
    case "glob":
    case "compare": {
      const value = printedValue(condition);
      if (condition.field.kind === "tags") return `tags:${value}`;
      return `${printedField(condition.field)} ${condition.kind === "glob" ? "=" : condition.op} ${value}`;
    }
  }
}

/** A field as it is written in a filter, such as `data.lines[*].sku`. */
export function printedField(field: Field): string {
  switch (field.kind) {
    case "extension":
      return `ext.${field.name}`;
    case "data":
      return `data${field.path.map(printedSegment).join("")}`;
    case "severity":
    case "tags":
      return field.kind;
    default:
      return field.name;
  }
}

function printedSegment(segment: Segment): string {
  if (segment === ANY_ELEMENT) return "[*]";
  if (typeof segment === "number") return `[${segment}]`;
  return `.${/^[A-Za-z_][A-Za-z0-9_-]*$/.test(segment) ? segment : quoted([segment])}`;
}

function printedValue(condition: Exclude<Condition, { kind: "text" | "present" }>): string {
  return condition.kind === "glob" ? quoted(condition.runs) : printedOperand(condition.value);
}

function printedOperand(value: Comparison["value"]): string {
  switch (value.kind) {
    case "string":
      return quoted([value.text]);
    case "number":
      return value.decimal;
    case "constant":
      return String(value.value);
    case "severity":
      return value.low === value.high ? String(value.low) : (SEVERITY_NAMES[(value.low - 1) / 4] ?? "");
    case "time": {
      const seconds = Number((value.micros - (((value.micros % MILLION) + MILLION) % MILLION)) / MILLION);
      const micros = Number(value.micros - BigInt(seconds) * MILLION);
      return `"${timestampFrom(seconds, micros * 1_000).text}"`;
    }
    case "now":
      return printedMoment(value.plusMs);
  }
}

const MILLION = 1_000_000n;

function printedMoment(plusMs: number): string {
  if (plusMs === 0) return "now";
  const [unit, ms] = TIME_UNITS.find(([, each]) => plusMs % each === 0) ?? ["s", 1_000];
  return `now${plusMs < 0 ? "-" : "+"}${Math.abs(plusMs / ms)}${unit}`;
}

// A run is what stands between two stars.
function quoted(runs: readonly string[]): string {
  return `"${runs.map(escaped).join("*")}"`;
}

function escaped(run: string): string {
  return run.replaceAll(/[\\"*\p{Cc}]/gu, (character) => {
    if (character === "\n") return "\\n";
    if (character === "\r") return "\\r";
    if (character === "\t") return "\\t";
    if (!/\p{Cc}/u.test(character)) return `\\${character}`;
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}
