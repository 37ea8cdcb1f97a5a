import { INCOMPLETE_TERM } from "../terms.ts";
import { cheapestFirst } from "./cost.ts";
import { decimalOf } from "./decimal.ts";
import { type ExaminedEvent, type JsonNode } from "./examine.ts";
import { fullTextOf } from "./full-text.ts";
import { HOLDS, nodeTest, numberOf, someAt } from "./nodes.ts";
import { createFinder, createGlob } from "./strings.ts";
import { microsOf } from "./time-bounds.ts";
import {
  type Comparison,
  type Condition,
  type DataField,
  type ExtensionField,
  type Field,
  type Filter,
  type Glob,
  type Operator,
  type StringField,
  type TimeField,
} from "./tree.ts";

/** Whether an event matches, asked at a moment (milliseconds since 1970) from which relative times count. */
export type Evaluator = (event: ExaminedEvent, now: number) => boolean;

/**
 * Makes a filter ready to be asked about many events; without a filter every event matches. It says of every event what the
 * compiled SQL says of its row. Never throws; takes time linear in the event's size for each condition.
 */
export function createEvaluator(filter: Filter | undefined): Evaluator {
  if (filter === undefined) return () => true;
  switch (filter.kind) {
    case "and": {
      const all = cheapestFirst(filter.of).map(createEvaluator);
      return (event, now) => all.every((matches) => matches(event, now));
    }
    case "or": {
      const all = cheapestFirst(filter.of).map(createEvaluator);
      return (event, now) => all.some((matches) => matches(event, now));
    }
    case "not": {
      const matches = createEvaluator(filter.of);
      return (event, now) => !matches(event, now);
    }
    default:
      return conditionEvaluator(filter);
  }
}

function conditionEvaluator(condition: Condition): Evaluator {
  switch (condition.kind) {
    case "text":
      return textEvaluator(condition.text);
    case "present":
      return presenceEvaluator(condition.field);
    case "glob":
      return globEvaluator(condition);
    case "compare":
      return comparisonEvaluator(condition);
  }
}

function textEvaluator(text: string): Evaluator {
  const { terms, folded, isPlainWord } = fullTextOf(text);
  const find = createFinder(folded);
  return (event) => {
    const held = event.terms();
    if (!held.has(INCOMPLETE_TERM)) {
      if (!terms.every((term) => held.has(term))) return false;
      if (isPlainWord) return true;
    }
    return find(event.foldedTexts(), 0) >= 0;
  };
}

function presenceEvaluator(field: Field): Evaluator {
  switch (field.kind) {
    case "string":
    case "extension":
      return (event) => textOf(event, field) !== undefined;
    case "data":
      return dataEvaluator(field, () => true);
    case "time":
      return field.name === "receive_time" ? () => true : (event) => event.stored.event.time !== undefined;
    case "severity":
      return (event) => event.severity() !== undefined;
    case "position":
      return () => true;
    case "tags":
      return (event) => event.tags().length > 0;
  }
}

function globEvaluator({ field, runs }: Glob): Evaluator {
  const matches = createGlob(runs);
  if (field.kind === "data") return dataEvaluator(field, (node) => typeof node === "string" && matches(node));
  if (field.kind === "tags") return (event) => event.tags().some(matches);
  return (event) => {
    const text = textOf(event, field);
    return text !== undefined && matches(text);
  };
}

function textOf(
  { stored: { event } }: ExaminedEvent,
  field: StringField | ExtensionField,
): string | undefined {
  return field.kind === "extension" ? event.extensions.get(field.name) : event[field.name];
}

function comparisonEvaluator({ field, op, value }: Comparison): Evaluator {
  if (field.kind === "time") return timeEvaluator(field, op, value);
  if (field.kind === "severity") return severityEvaluator(op, value);
  const test = nodeTest(op, value);
  switch (field.kind) {
    case "string":
      return (event) => test(textOf(event, field));
    case "extension":
      if (value.kind !== "number") return (event) => test(textOf(event, field));
      return (event) => test(numberOf(textOf(event, field)));
    case "data":
      return dataEvaluator(field, test);
    case "position":
      if (field.name === "partition") return (event) => test(event.stored.position.partition);
      return (event) => test(decimalOf(String(event.stored.position.offset)));
    case "tags":
      return (event) => event.tags().some(test);
  }
}

function timeEvaluator({ name }: TimeField, op: Operator, value: Comparison["value"]): Evaluator {
  if (value.kind !== "time" && value.kind !== "now") return () => false;
  const holds = HOLDS[op];
  return (event, now) => {
    const held = name === "time" ? event.time() : event.receiveTime();
    const asked = microsOf(value, Math.floor(now));
    return holds(held < asked ? -1 : held > asked ? 1 : 0);
  };
}

function severityEvaluator(op: Operator, value: Comparison["value"]): Evaluator {
  if (value.kind !== "severity") return () => false;
  const { low, high } = value;
  const holds: Readonly<Record<Operator, (severity: number) => boolean>> = {
    "=": (severity) => severity >= low && severity <= high,
    "<": (severity) => severity < low,
    "<=": (severity) => severity <= high,
    ">": (severity) => severity > high,
    ">=": (severity) => severity >= low,
  };
  return (event) => {
    const severity = event.severity();
    return severity !== undefined && holds[op](severity);
  };
}

/** Whether the test holds of one of the places that the path leads to. */
function dataEvaluator({ path }: DataField, test: (node: JsonNode) => boolean): Evaluator {
  return (event) => {
    const root = event.json();
    return root !== undefined && someAt(root, path, 0, test);
  };
}
