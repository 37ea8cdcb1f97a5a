import { encodeTimestamptz } from "./binary-format.ts";
import { SEVERITY_RANGE } from "./event-row.ts";
import { type Database } from "./pool.ts";
import { read } from "./read.ts";
import { countedRows, KINDS, MAX_TAIL } from "./rollup-counts.ts";
import { type Bucket, type Histogram } from "./summaries.ts";

/** What {@link readOverview} is asked for. */
export interface OverviewQuery {
  /** The first hour and the end of the last, in whole hours since 1970. */
  readonly firstHour: number;
  readonly endHour: number;
  /** The length of an interval, in hours; intervals start at whole multiples since 1970. */
  readonly intervalHours: number;
  /** Values at most of a type, and of a source. */
  readonly values: number;
}

/** The values that came most often. */
export interface TopValues {
  /** Most frequent first. */
  readonly values: readonly { readonly value: string; readonly count: number }[];
  /** Events in none of the counts, also not of values that are not here: their hour had too many to keep them apart. */
  readonly notApart: number;
}

/** The sums of a range. */
export interface Overview {
  /** Of all the range. The first and the last interval may reach beyond it. */
  readonly histogram: Histogram;
  readonly types: TopValues;
  readonly sources: TopValues;
  /** In milliseconds: what was stored earlier is counted. 0: everything is. undefined: not everything was ever. */
  readonly stalenessMs: number | undefined;
}

// What has no value of its own is a line beside the most frequent.
const OVERVIEW = `${countedRows({ kinds: ["all", "type", "source"], firstHour: "$1::timestamptz", endHour: "$2::timestamptz" })},
line as (
  select kind, value, sum(n) as n,
    case kind when ${KINDS.all} then floor(extract(epoch from hour)::int8 / 3600 / $3::float8)::int8 end as bucket,
    case kind when ${KINDS.all} then ${SEVERITY_RANGE} end as severity
  from counted group by 1, 2, 4, 5
), placed as (
  select *, row_number() over (partition by kind, value = '' order by n desc, value) as place from line
)
select kind, bucket::float8, severity, value, n::float8, case when offsets > ${MAX_TAIL} then staleness::float8 else 0 end as staleness
from lag left join placed on kind = ${KINDS.all} or place <= $4 order by kind, n desc, value`;

interface Row {
  /** Null where nothing is in the range. */
  readonly kind: number | null;
  readonly bucket: number | null;
  readonly severity: number | null;
  readonly value: string;
  readonly n: number;
  readonly staleness: number | null;
}

/**
 * The sums of whole hours, by time and severity, and the types and sources that came most often. What is stored is counted at
 * once, but behind a backlog, which `stalenessMs` tells.
 *
 * @throws QueryTimeoutError where PostgreSQL did not answer within the pool's statement timeout.
 */
export async function readOverview(
  db: Database,
  query: OverviewQuery,
  signal?: AbortSignal,
): Promise<Overview> {
  const { firstHour, endHour, intervalHours, values } = query;
  const rows = await read<Row>(
    db,
    {
      name: "overview.sums",
      text: OVERVIEW,
      values: [atHour(firstHour), atHour(endHour), intervalHours, values],
    },
    signal,
  );
  return {
    histogram: { interval: intervalHours * 3_600, buckets: bucketsOf(rows, query) },
    types: topOf(rows, KINDS.type),
    sources: topOf(rows, KINDS.source),
    stalenessMs: rows[0]!.staleness ?? undefined,
  };
}

function bucketsOf(rows: readonly Row[], { firstHour, endHour, intervalHours }: OverviewQuery): Bucket[] {
  const first = Math.floor(firstHour / intervalHours);
  const counts = Array.from(
    { length: Math.ceil(endHour / intervalHours) - first },
    () => new Map<number | undefined, number>(),
  );
  for (const { kind, bucket, severity, n } of rows)
    if (kind === KINDS.all) counts[bucket! - first]!.set(severity ?? undefined, n);
  return counts.map((bySeverity, index) => ({
    start: microsOf((first + index) * intervalHours),
    count: [...bySeverity.values()].reduce((sum, each) => sum + each, 0),
    bySeverity,
  }));
}

function topOf(rows: readonly Row[], kind: number): TopValues {
  const lines = rows.flatMap((row) => (row.kind === kind ? [{ value: row.value, count: row.n }] : []));
  return {
    values: lines.filter(({ value }) => value !== ""),
    notApart: lines.find(({ value }) => value === "")?.count ?? 0,
  };
}

function atHour(hour: number): Buffer {
  return encodeTimestamptz(microsOf(hour));
}

function microsOf(hour: number): bigint {
  return BigInt(hour) * 3_600_000_000n;
}
