import { NUMBER_INFIX } from "./number-paths.ts";
import { MONTHS } from "./partitions.ts";
import { type Database } from "./pool.ts";
import { read } from "./read.ts";

/** What PostgreSQL has estimated of the rows of a month (ANALYZE), and what came since. */
export interface MonthStatistics {
  /** The first moment of the month and that of the next, in microseconds since 1970. */
  readonly from: bigint;
  readonly before: bigint;
  readonly rows: number;
  /** Moments that part the rows into stretches of equally many, oldest first; fewer than two where nothing is known. */
  readonly times: readonly bigint[];
  /** How many of `rows` came after the estimate. */
  readonly added: number;
  /** The keys of the paths whose numbers have an index; see `numberPathKey`. */
  readonly numberPaths: ReadonlySet<string>;
  /** How many of the rows have a term, of 0 to 1. */
  frequencyOf(term: number): number;
}

/** The months that have a partition, oldest first. */
export type StoreStatistics = readonly MonthStatistics[];

/** How long an estimate is used before it is read anew. */
const MAX_AGE_MS = 60_000;

interface Kept {
  statistics: StoreStatistics;
  /** By performance.now(); undefined until the first came. */
  readAt: number | undefined;
  reading: Promise<void> | undefined;
}

const kept = new WeakMap<Database, Kept>();

/**
 * The statistics, as this process has read them a minute ago at most. The first call reads them; later ones take what is there
 * and have it read beside them where it is old. Without any (a failure to read them is none of the caller's) it is empty.
 */
export async function storeStatistics(db: Database): Promise<StoreStatistics> {
  let entry = kept.get(db);
  if (entry === undefined) kept.set(db, (entry = { statistics: [], readAt: undefined, reading: undefined }));
  const { readAt } = entry;
  if (readAt === undefined || performance.now() - readAt > MAX_AGE_MS) entry.reading ??= refresh(db, entry);
  if (readAt === undefined) await entry.reading;
  return entry.statistics;
}

async function refresh(db: Database, entry: Kept): Promise<void> {
  try {
    entry.statistics = await readStatistics(db);
  } catch {
    // What the caller asks next says what is wrong with the database.
  }
  entry.readAt = performance.now();
  entry.reading = undefined;
}

interface Row {
  readonly starts: string;
  readonly ends: string;
  readonly rows: number;
  readonly added: string;
  readonly times: readonly string[];
  readonly terms: readonly number[];
  readonly frequencies: readonly number[];
  readonly paths: readonly string[];
}

const micros = (moment: string): string => `(extract(epoch from ${moment}) * 1000000)::int8`;

// Of a month without an estimate the counters of its activity tell how many rows there are. Nothing here waits for a lock.
const STATISTICS = `
with month as (
  select pg_class.oid, relname, reltuples, to_date(relname, '"event_"YYYY"_"MM')::timestamp as first
  from ${MONTHS}
)
select ${micros("first")} as starts, ${micros("(first + interval '1 month')")} as ends,
  case when reltuples < 0 then coalesce(n_live_tup, 0) else reltuples end::float8 as rows,
  case when reltuples < 0 then 0 else coalesce(n_mod_since_analyze, 0) end as added,
  array(select ${micros("each")} from unnest(moments.histogram_bounds::text::timestamptz[]) as each) as times,
  coalesce(terms.most_common_elems::text::int4[], '{}') as terms,
  coalesce(terms.most_common_elem_freqs, '{}')::float8[] as frequencies,
  array(
    select split_part(i.relname, '${NUMBER_INFIX}', 2) from pg_index join pg_class i on i.oid = indexrelid
    where indrelid = month.oid and indisvalid and strpos(i.relname, '${NUMBER_INFIX}') > 0
  ) as paths
from month
left join pg_stat_all_tables on relid = oid
left join pg_stats moments on moments.schemaname = 'events' and moments.tablename = month.relname and moments.attname = 'occurred_at'
left join pg_stats terms on terms.schemaname = 'events' and terms.tablename = month.relname and terms.attname = 'terms'
order by first`;

async function readStatistics(db: Database): Promise<StoreStatistics> {
  const rows = await read<Row>(db, { text: STATISTICS });
  return rows.map((row) => {
    const frequencies = new Map(row.terms.map((term, index) => [term, row.frequencies[index]!]));
    // A term that is not among the most frequent is about as rare as the rarest of them, or rarer.
    const rarest = Math.min(DEFAULT_FREQUENCY, ...frequencies.values());
    return {
      from: BigInt(row.starts),
      before: BigInt(row.ends),
      rows: row.rows + Number(row.added),
      times: row.times.map(BigInt),
      added: Number(row.added),
      numberPaths: new Set(row.paths),
      frequencyOf: (term) => frequencies.get(term) ?? rarest / 4,
    };
  });
}

/** Of a term that nothing is known of. */
const DEFAULT_FREQUENCY = 0.004;
