import { encodeTimestamptz } from "./binary-format.ts";
import { SEVERITY_RANGE } from "./event-row.ts";
import { compileFilter } from "./filter.ts";
import { createParameters } from "./parameters.ts";
import { type Database } from "./pool.ts";
import { read } from "./read.ts";
import { countedRows, MAX_TAIL } from "./rollup-counts.ts";
import { rollupFilter } from "./rollup-filter.ts";
import { type Question } from "./search-statement.ts";

/** The lengths that intervals may have. */
export interface Ladder {
  /** In seconds, shortest first. */
  readonly intervals: readonly number[];
  /** How many intervals there may be. */
  readonly maxBuckets: number;
}

/** Events of a range of severity in an interval. */
export interface HistogramRow {
  /** The length of the interval in seconds. */
  readonly interval: string;
  /** How many such intervals after 1970 it begins. */
  readonly bucket: string;
  /** The number that the range begins with; null: of events without severity. */
  readonly severity: number | null;
  readonly count: string;
}

const HOUR = 3_600_000_000n;
/** How many events of an hour that is asked about in part are read. */
const MAX_EDGE = 20_000;

/**
 * What the sums by hour answer of the events that match, counted by intervals of the shortest length of the ladder that makes
 * few enough, in order; empty where none matches. It is as exact as counting the events. undefined where the sums cannot tell:
 * of conditions on other than time, ranges of severity, and either type or source; of intervals that are shorter than an hour;
 * behind a backlog of what is stored and not summed up; where hours of the range have too many types or sources to keep them apart
 * and the filter asks about these; where an hour that is asked about in part has too many events; and in a store to which no
 * worker ever came.
 *
 * @throws QueryTimeoutError where PostgreSQL did not answer within the pool's statement timeout.
 */
export async function histogramFromRollups(
  db: Database,
  { filter, now }: Question,
  { intervals, maxBuckets }: Ladder,
  signal?: AbortSignal,
): Promise<readonly HistogramRow[] | undefined> {
  const asked = rollupFilter(filter, now);
  if (asked === undefined) return undefined;
  const { from, before } = asked.bounds;
  const [firstHour, endHour] = [from && ceilHour(from), before && floorHour(before)];
  if (firstHour !== undefined && isNarrow(firstHour, endHour ?? newestHour(now), maxBuckets))
    return undefined;

  const parameters = createParameters();
  const { bind } = parameters;
  const moment = (micros: bigint): string => bind(encodeTimestamptz(micros), "timestamptz");
  const { kind, rest } = asked;
  const range = {
    kinds: [kind],
    firstHour: firstHour === undefined ? "timestamptz '-infinity'" : moment(firstHour),
    endHour: endHour === undefined ? "timestamptz 'infinity'" : moment(endHour),
  };
  const edgeColumns = `date_bin('1 hour', occurred_at, '2000-01-01Z') as hour, ${kind === "all" ? "''" : kind}, severity`;
  const edges = [
    from === undefined || from === firstHour ? undefined : [moment(from), range.firstHour],
    before === undefined || before === endHour ? undefined : [range.endHour, moment(before)],
  ].flatMap((edge) =>
    edge === undefined
      ? []
      : [
          `(select ${edgeColumns} from events.event where occurred_at >= ${edge[0]!} and occurred_at < ${edge[1]!} limit ${MAX_EDGE + 1})`,
        ],
  );
  const matches = rest === undefined ? "true" : compileFilter(rest, { now, parameters });
  const whole = intervals.filter((interval) => interval % 3_600 === 0).map((interval) => interval / 3_600);

  const text = `${countedRows(range)},
edge (hour, value, severity) as materialized (${edges.length === 0 ? `select ${edgeColumns} from events.event where false` : edges.join(" union all ")}),
matched as materialized (
  select extract(epoch from hour)::int8 / 3600 as hour, ${SEVERITY_RANGE} as severity, sum(n) filter (where ${matches}) as n,
    bool_or(${kind === "all" ? "false" : `${kind} = ''`}) as hidden
  from (select hour, value, severity, n from counted union all select hour, value, severity, 1 from edge) as one (hour, ${kind === "all" ? "value" : kind}, severity, n)
  group by 1, 2
), span as (
  select min(hour) filter (where n > 0) as first, max(hour) filter (where n > 0) as last, bool_or(hidden) as hidden from matched
), width as (
  select interval from span, unnest(${bind(whole, "int8[]")}) as interval
  where floor(last / interval::float8) - floor(first / interval::float8) < ${bind(maxBuckets, "int8")} order by interval limit 1
), answer as (
  select offsets <= ${MAX_TAIL} and exists (select from events.rollup_era) and hidden is not true and not exists (select from edge offset ${MAX_EDGE}) as is_exact,
    first is null as is_none, exists (select from width) and (last - first) * 2 > ${bind(maxBuckets, "int8")} as is_wide
  from lag, span
)
select is_exact and (is_none or is_wide) as answers, interval * 3600 as interval, bucket, severity, count
from answer left join (
  select interval, floor(hour / interval::float8)::int8 as bucket, severity, sum(n)::int8 as count
  from matched, width where n > 0 group by 1, 2, 3
) as line on is_exact and is_wide order by bucket`;
  const rows = await read<HistogramRow & { readonly answers: boolean }>(
    db,
    { text, values: [...parameters.values] },
    signal,
  );
  if (!rows[0]!.answers) return undefined;
  return rows.filter(({ interval }) => interval !== null);
}

/** Whether intervals of half an hour are few enough for certain. */
function isNarrow(firstHour: bigint, endHour: bigint, maxBuckets: number): boolean {
  return (endHour - firstHour) / HOUR + 2n <= BigInt(maxBuckets) / 2n;
}

/** The end of the hours that events are of, as far as their times are right: ingest takes none that lies further ahead. */
function newestHour(now: number): bigint {
  return floorHour(BigInt(now) * 1_000n) + 24n * HOUR;
}

function floorHour(micros: bigint): bigint {
  return micros - (((micros % HOUR) + HOUR) % HOUR);
}

function ceilHour(micros: bigint): bigint {
  return floorHour(micros + HOUR - 1n);
}
