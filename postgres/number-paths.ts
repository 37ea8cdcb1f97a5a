import { createHash } from "node:crypto";

import { type Filter, type Operator, type Segment } from "#core/filter/tree.ts";
import { ANY_ELEMENT } from "#core/terms.ts";

import { isStorable } from "./filter-value.ts";
import { type Parameters } from "./parameters.ts";
import { type Database } from "./pool.ts";

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

function jsonpathOf(path: NumberPath): string {
  const steps = path.map((segment) =>
    typeof segment === "number" ? `[${segment}]` : `.${JSON.stringify(segment)}`,
  );
  return `strict $${steps.join("")} ? (@.type() == "number")`;
}

/** What the names of the indexes of a path end with. */
export function numberPathKey(path: NumberPath): string {
  return createHash("sha256").update(jsonpathOf(path)).digest("hex").slice(0, 12);
}

const INFIX = "_number_";

// An index whose making was broken off is there, but not valid.
const INDEXES = `
select c.relname as month, array(
    select i.relname::text from pg_index join pg_class i on i.oid = indexrelid
    where indrelid = c.oid and strpos(i.relname, '${INFIX}') > 0 and indisvalid = wanted.valid
  ) as indexes, wanted.valid
from pg_inherits join pg_class c on c.oid = inhrelid, (values (true), (false)) as wanted (valid)
where inhparent = 'events.event'::regclass order by 1`;

/**
 * Makes the indexes of the paths that are missing, for each month the numbers of its events by day, and drops those of other
 * paths; answers what it made and dropped. One process at a time; it waits for no writer and no writer waits for it, however
 * long it takes, so its pool needs a long statement timeout. Needs the owner's rights.
 */
export async function keepNumberIndexes(
  db: Database,
  paths: readonly NumberPath[],
): Promise<{ readonly made: readonly string[]; readonly dropped: readonly string[] }> {
  const { rows } = await db.pool.query<{ month: string; indexes: readonly string[]; valid: boolean }>(
    INDEXES,
  );
  const wanted = paths.map((path) => ({ jsonpath: jsonpathOf(path), key: numberPathKey(path) }));
  const [made, dropped]: [string[], string[]] = [[], []];
  for (const { month, indexes, valid } of rows.filter((row) => row.indexes.length > 0)) {
    const names = new Set(wanted.map(({ key }) => `${month}${INFIX}${key}`));
    for (const name of indexes) {
      if (valid && names.has(name)) continue;
      await db.pool.query(`drop index concurrently if exists events.${name}`);
      dropped.push(name);
    }
  }
  for (const { month, indexes } of rows.filter(({ valid }) => valid)) {
    for (const { jsonpath, key } of wanted) {
      const name = `${month}${INFIX}${key}`;
      if (indexes.includes(name)) continue;
      // DDL takes no parameters.
      const path = `'${jsonpath.replaceAll("'", "''")}'::jsonpath`;
      await db.pool.query(
        `create index concurrently ${name} on events.${month} ((${EVENT_DAY}), (events.data_number(data, data_form, ${path})))`,
      );
      made.push(name);
    }
  }
  return { made, dropped };
}
