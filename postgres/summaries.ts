import { type Field } from "#core/filter/tree.ts";
import { withoutField } from "#core/filter/without-field.ts";

import { SEVERITY_RANGE } from "./event-row.ts";
import { createParameters, type Parameters } from "./parameters.ts";
import { type Database } from "./pool.ts";
import { read } from "./read.ts";
import { histogramFromRollups, type HistogramRow } from "./rollup-histogram.ts";
import { type Question, selectAll, selectEvents, type Selection, windowsFor } from "./search-statement.ts";
import { type StoreStatistics, storeStatistics } from "./store-statistics.ts";

/**
 * How many events match, counted up to `limit`: one statement.
 *
 * @throws QueryTimeoutError where PostgreSQL did not answer within the pool's statement timeout; so do the others here.
 */
export async function countEvents(
  db: Database,
  question: Question & { readonly limit: number },
  signal?: AbortSignal,
): Promise<number> {
  const parameters = createParameters();
  const text = `select count(*)::int as count from (${newest("1", question, await storeStatistics(db), parameters)}) as counted`;
  const [row] = await read<{ count: number }>(db, { text, values: [...parameters.values] }, signal);
  return row!.count;
}

/** Some of the newest events that match. */
function newest(
  columns: string,
  { filter, now, limit }: Question & { readonly limit: number },
  statistics: StoreStatistics,
  parameters: Parameters,
): string {
  const selection: Selection = { filter, now, order: "time desc", after: undefined, limit };
  return selectEvents(columns, selection, windowsFor(selection, statistics), parameters);
}

/** A field that can have a facet, by its name in a filter. */
export type FacetField = "type" | "source" | "subject" | "severity" | "tags" | `ext.${string}`;

/** What {@link facetEvents} is asked for. */
export interface FacetQuery extends Question {
  readonly fields: readonly FacetField[];
  /** How many events are looked at: the newest. */
  readonly candidates: number;
  /** How many values of each field are given. */
  readonly values: number;
}

/** The values that events have most often. */
export interface Facet {
  readonly field: FacetField;
  /** Most frequent first, equally frequent ones by value; of severity the OpenTelemetry number that its range begins with. */
  readonly values: readonly { readonly value: string; readonly count: number }[];
  /** Whether there are more events than were looked at. */
  readonly capped: boolean;
}

/**
 * The values that the events have most often, for each field: of the events that match, whatever the filter says of that field
 * by itself (`withoutField`). One statement.
 */
export async function facetEvents(
  db: Database,
  { filter, now, fields, candidates, values }: FacetQuery,
  signal?: AbortSignal,
): Promise<readonly Facet[]> {
  const statistics = await storeStatistics(db);
  const parameters = createParameters();
  // Fields that the filter says nothing of by itself look at the same events.
  const sets: { readonly filter: Question["filter"]; readonly fields: FacetField[] }[] = [];
  for (const field of fields) {
    const left = withoutField(filter, fieldOf(field));
    const set = sets.find((each) => each.filter === left);
    if (set === undefined) sets.push({ filter: left, fields: [field] });
    else set.fields.push(field);
  }
  const most = parameters.bind(values, "int8");
  const looked = parameters.bind(candidates, "int8");
  const withs: string[] = [];
  const parts: string[] = [];
  for (const [index, set] of sets.entries()) {
    const columns = set.fields.map((field, at) => `${columnOf(field, parameters)} as v${at}`).join(", ");
    const found = newest(columns, { filter: set.filter, now, limit: candidates + 1 }, statistics, parameters);
    withs.push(`found${index} as materialized (${found})`);
    parts.push(`select null as field, '${index}' as value, count(*) as count from found${index}`);
    for (const [at, field] of set.fields.entries()) {
      const from = `(select v${at} as v from found${index} limit ${looked}) as looked`;
      const each = field === "tags" ? `(select unnest(v) as v from ${from}) as each` : from;
      const name = parameters.bind(field, "text");
      parts.push(
        `(select ${name}, v::text as value, count(*) as count from ${each} where v is not null group by v order by count desc, v limit ${most})`,
      );
    }
  }
  const text = `with ${withs.join(", ")} ${parts.join(" union all ")}`;
  const rows = await read<{ field: FacetField | null; value: string; count: string }>(
    db,
    { text, values: [...parameters.values] },
    signal,
  );
  return fields.map((field) => {
    const set = sets.findIndex((each) => each.fields.includes(field));
    const size = rows.find((row) => row.field === null && row.value === String(set))!;
    return {
      field,
      values: rows
        .filter((row) => row.field === field)
        .map(({ value, count }) => ({ value, count: Number(count) })),
      capped: Number(size.count) > candidates,
    };
  });
}

function fieldOf(field: FacetField): Field {
  if (field === "severity" || field === "tags") return { kind: field };
  if (field === "type" || field === "source" || field === "subject") return { kind: "string", name: field };
  return { kind: "extension", name: field.slice("ext.".length) };
}

function columnOf(field: FacetField, parameters: Parameters): string {
  if (field === "severity") return SEVERITY_RANGE;
  if (!field.startsWith("ext.")) return field;
  return `(extensions ->> ${parameters.bind(field.slice("ext.".length), "text")}) collate "C"`;
}

/** How many events there are over time. */
export interface Histogram {
  /** The length of an interval in seconds. */
  readonly interval: number;
  /** Without holes, oldest first, {@link MAX_BUCKETS} at most. */
  readonly buckets: readonly Bucket[];
}

/** One interval of a histogram. */
export interface Bucket {
  /** Microseconds since 1970; a whole multiple of the interval. */
  readonly start: bigint;
  readonly count: number;
  /** By the OpenTelemetry severity number that the range begins with; undefined: of events without severity. */
  readonly bySeverity: ReadonlyMap<number | undefined, number>;
}

/** The most intervals of a histogram. */
export const MAX_BUCKETS = 120;
const DAY = 86_400;
/** The lengths of an interval, in seconds; beyond the last, twice as much and so on. */
const INTERVALS: readonly number[] = [
  1,
  5,
  15,
  30,
  60,
  300,
  900,
  1_800,
  3_600,
  10_800,
  21_600,
  43_200,
  DAY,
  7 * DAY,
  30 * DAY,
  ...Array.from({ length: 12 }, (_, index) => 30 * DAY * 2 ** (index + 1)),
];

const HISTOGRAM = `
span as (select floor(extract(epoch from min(occurred_at))) as first, floor(extract(epoch from max(occurred_at))) as last from found),
width as (
  select interval from span, unnest($1::int8[]) as interval
  where floor(last / interval) - floor(first / interval) < $2::int8 order by interval limit 1
)
select interval, floor(extract(epoch from occurred_at) / interval)::int8 as bucket, ${SEVERITY_RANGE} as severity, count(*) as count
from found, width group by 1, 2, 3 order by 2`;

/**
 * All events that match, counted by intervals of the shortest length that makes few enough; undefined where none matches. Of a
 * wide range the sums by hour are asked first (`histogramFromRollups`); else, and where these cannot tell, one statement counts
 * the events.
 */
export async function histogramEvents(
  db: Database,
  question: Question,
  signal?: AbortSignal,
): Promise<Histogram | undefined> {
  const ladder = { intervals: INTERVALS, maxBuckets: MAX_BUCKETS };
  const rows =
    (await histogramFromRollups(db, question, ladder, signal)) ??
    (await countByInterval(db, question, signal));
  const [first, last] = [rows[0], rows.at(-1)];
  if (first === undefined || last === undefined) return undefined;
  const interval = Number(first.interval);
  const [start, end] = [Number(first.bucket), Number(last.bucket)];
  const counts = Array.from({ length: end - start + 1 }, () => new Map<number | undefined, number>());
  for (const { bucket, severity, count } of rows)
    counts[Number(bucket) - start]!.set(severity ?? undefined, Number(count));
  return {
    interval,
    buckets: counts.map((bySeverity, index) => ({
      start: BigInt(start + index) * BigInt(interval) * 1_000_000n,
      count: [...bySeverity.values()].reduce((sum, each) => sum + each, 0),
      bySeverity,
    })),
  };
}

async function countByInterval(
  db: Database,
  question: Question,
  signal: AbortSignal | undefined,
): Promise<readonly HistogramRow[]> {
  const parameters = createParameters();
  parameters.bind(INTERVALS, "int8[]");
  parameters.bind(MAX_BUCKETS, "int8");
  const found = selectAll("occurred_at, severity", question, await storeStatistics(db), parameters);
  const text = `with found as materialized (${found}), ${HISTOGRAM}`;
  return read<HistogramRow>(db, { text, values: [...parameters.values] }, signal);
}
