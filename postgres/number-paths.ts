import { createHash } from "node:crypto";

import { type Filter, type Operator, type Segment } from "#core/filter/tree.ts";
import { ANY_ELEMENT } from "#core/terms.ts";

import { isStorable } from "./filter-value.ts";
import { type Parameters } from "./parameters.ts";

/** Of the index of a path: its name is the month's, this, and {@link numberPathKey}. */
export const NUMBER_INFIX = "_number_";

/** A path that leads to one place of a payload. */
export type NumberPath = readonly (string | number)[];

/** A comparison with a number that an event must fulfil. */
export interface NumberNeed {
  readonly path: NumberPath;
  readonly op: Operator;
  readonly decimal: string;
}

/** The comparisons with numbers, of paths without `[*]`, that every event fulfils which the filter matches. */
export function numberNeeds(filter: Filter): readonly NumberNeed[] {
  if (filter.kind === "and") return filter.of.flatMap(numberNeeds);
  if (filter.kind !== "compare" || filter.field.kind !== "data" || filter.value.kind !== "number") return [];
  const { path } = filter.field;
  return isNumberPath(path) ? [{ path, op: filter.op, decimal: filter.value.decimal }] : [];
}

function isNumberPath(path: readonly Segment[]): path is NumberPath {
  return path.every((segment) => segment !== ANY_ELEMENT && isStorable(String(segment)));
}

/** The comparison, as the index of the path serves it, where there is one. */
export function compileNumberNeed({ path, op, decimal }: NumberNeed, { bind }: Parameters): string {
  return `events.data_number(data, data_form, ${bind(jsonpathOf(path), "jsonpath")}) ${op} ${bind(decimal, "numeric")}`;
}

/** The day of an event in UTC, which the index of a path begins with. */
export const EVENT_DAY = "(occurred_at at time zone 'UTC')::date";

/** The path as PostgreSQL has it: what is no number is left out. */
export function jsonpathOf(path: NumberPath): string {
  const steps = path.map((segment) =>
    typeof segment === "number" ? `[${segment}]` : `.${JSON.stringify(segment)}`,
  );
  return `strict $${steps.join("")} ? (@.type() == "number")`;
}

/** What the names of the indexes of a path end with. */
export function numberPathKey(path: NumberPath): string {
  return createHash("sha256").update(jsonpathOf(path)).digest("hex").slice(0, 12);
}
