import { cheapestFirst } from "#core/filter/cost.ts";
import { microsOf } from "#core/filter/time-bounds.ts";
import {
  type Comparison,
  type Condition,
  type DataField,
  type ExtensionField,
  type Field,
  type Filter,
  type Glob,
  type PositionField,
  type SeverityField,
  type StringField,
  type TagsField,
  type TimeField,
} from "#core/filter/tree.ts";

import { encodeTimestamptz } from "./binary-format.ts";
import { compareData, hasData, matchData } from "./filter-data.ts";
import { matchText } from "./filter-text.ts";
import { compareInteger, compareText, isStorable, likePattern, NOTHING } from "./filter-value.ts";
import { type Parameters } from "./parameters.ts";

/** What a filter is compiled with. */
export interface CompileOptions {
  /** Takes every value and every path. */
  readonly parameters: Parameters;
  /** The moment of asking, in milliseconds since 1970. */
  readonly now: number;
}

/**
 * A filter as a condition on a row of events.event. It is true of a row exactly where `matchesFilter` of core is true of the
 * event; else it is false or null, so it can stand in WHERE and in FILTER, and its negation is `(…) is not true`. Whatever a
 * row has, it does not fail.
 */
export function compileFilter(filter: Filter, options: CompileOptions): string {
  switch (filter.kind) {
    case "and":
    case "or":
      return `(${cheapestFirst(filter.of)
        .map((each) => compileFilter(each, options))
        .join(` ${filter.kind} `)})`;
    case "not":
      return `(${compileFilter(filter.of, options)}) is not true`;
    default:
      return compileCondition(filter, options);
  }
}

// Null counts as false: `and` and `or` of SQL keep to that, and `is not true` takes it in.

function compileCondition(condition: Condition, options: CompileOptions): string {
  switch (condition.kind) {
    case "compare":
      return compileComparison(condition, options);
    case "glob":
      return compileGlob(condition, options.parameters);
    case "present":
      return compilePresence(condition.field, options.parameters);
    case "text":
      return matchText(condition.text, options.parameters);
  }
}

type On<F extends Field> = Extract<Comparison, { readonly field: F }>;

function compileComparison(condition: Comparison, { parameters, now }: CompileOptions): string {
  const { bind } = parameters;
  switch (condition.field.kind) {
    case "string": {
      const { field, op, value } = condition as On<StringField>;
      return compareText(field.name, op, value.text, parameters);
    }
    case "extension": {
      const { field, op, value } = condition as On<ExtensionField>;
      if (value.kind === "string") {
        // Not bound where it is not needed: PostgreSQL refuses a value that has no place.
        if (op === "=" && !isStorable(value.text)) return NOTHING;
        return compareText(extensionText(field, parameters), op, value.text, parameters);
      }
      return `events.number_of(${extensionText(field, parameters)}) ${op} ${bind(value.decimal, "numeric")}`;
    }
    case "data":
      return compareData(condition as On<DataField>, parameters);
    case "time": {
      const { field, op, value } = condition as On<TimeField>;
      return `${TIMES[field.name]} ${op} ${bind(encodeTimestamptz(microsOf(value, now)), "timestamptz")}`;
    }
    case "severity": {
      const { op, value } = condition as On<SeverityField>;
      if (op === "=") return `severity between ${bind(value.low, "int2")} and ${bind(value.high, "int2")}`;
      return `severity ${op} ${bind(op === "<" || op === ">=" ? value.low : value.high, "int2")}`;
    }
    case "position": {
      const { field, op, value } = condition as On<PositionField>;
      return compareInteger(`"${field.name}"`, op, value.decimal, parameters);
    }
    case "tags": {
      const { text } = (condition as On<TagsField>).value;
      return isStorable(text) ? `tags @> array[${bind(text, "text")}]` : NOTHING;
    }
  }
}

/** The columns of the moments. */
const TIMES = { time: "occurred_at", receive_time: "receive_time" } as const;

const extensionText = ({ name }: ExtensionField, { bind }: Parameters): string =>
  `(extensions ->> ${bind(name, "text")}) collate "C"`;

function compileGlob(glob: Glob, parameters: Parameters): string {
  const { field } = glob;
  if (field.kind === "data") return matchData(field, glob, parameters);
  const pattern = likePattern(glob);
  if (pattern === undefined) return NOTHING;
  const like = (text: string): string => `${text} like ${parameters.bind(pattern, "text")}`;
  if (field.kind === "tags") return `exists (select from unnest(tags) as tag where ${like("tag")})`;
  return like(field.kind === "string" ? field.name : extensionText(field, parameters));
}

function compilePresence(field: Field, parameters: Parameters): string {
  switch (field.kind) {
    case "string":
      return `${field.name} is not null`;
    case "extension":
      return `extensions ? ${parameters.bind(field.name, "text")}`;
    case "data":
      return hasData(field, parameters);
    case "time":
      return field.name === "time" ? "time_text is not null" : "true";
    case "severity":
      return "severity is not null";
    case "position":
      return "true";
    case "tags":
      return "cardinality(tags) > 0";
  }
}
