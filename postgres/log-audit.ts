import { type Database } from "./pool.ts";
import { read } from "./read.ts";

/** A stretch of a partition that a consumer group has passed. */
export interface PassedRange {
  readonly group: string;
  readonly topic: string;
  readonly partition: number;
  readonly from: bigint;
  /** One past the last. */
  readonly to: bigint;
  /** Since when its log is read, as of a claim: what was recorded before is of another log, and counts for nothing. */
  readonly logSince: string;
}

/** A range of offsets; `to` is one past the last. */
export interface OffsetRange {
  readonly from: bigint;
  readonly to: bigint;
}

/** What became of the offsets of a stretch. */
export interface Accounts {
  readonly stored: bigint;
  readonly duplicates: bigint;
  readonly deadLetters: bigint;
  readonly skipped: bigint;
  /** How many are none of these. */
  readonly unaccounted: bigint;
  /** Where they are, in their order: the first ones, at most {@link MAX_RANGES}. */
  readonly unaccountedRanges: readonly OffsetRange[];
  /** How many are a skip, which says that they brought no record, and one of the others as well. Both cannot be right. */
  readonly contradicted: bigint;
  /** Where they are, as above. */
  readonly contradictedRanges: readonly OffsetRange[];
}

/** The most ranges that are told of. */
export const MAX_RANGES = 100;
/** How many offsets one statement looks at. */
const STEP = 20_000n;

// Each part reads an index of its own by the range, and nothing of a row but its offset; where the log is not the first one,
// when it was recorded, too. Of skips, one that began before the step may reach into it.
const account = (present: (column: string) => string): string => `
with accounted (kind, span) as (
  select 1, int8range("offset", "offset", '[]') from events.event
  where topic = $2 and partition = $3 and "offset" >= $4 and "offset" < $5${present("stored_at")}
  union all
  select 2, int8range("offset", "offset", '[]') from events.duplicate
  where topic = $2 and partition = $3 and "offset" >= $4 and "offset" < $5${present("recorded_at")}
  union all
  select 3, int8range("offset", "offset", '[]') from consumer.dead_letter
  where group_id = $1 and topic = $2 and partition = $3 and "offset" >= $4 and "offset" < $5${present("recorded_at")}
  union all
  select 4, int8range(from_offset, to_offset) * int8range($4, $5) from consumer.skip
  where group_id = $1 and topic = $2 and partition = $3 and from_offset < $5 and to_offset > $4${present("recorded_at")}
), counted as (
  select count(*) filter (where kind = 1) as stored, count(*) filter (where kind = 2) as duplicates,
    count(*) filter (where kind = 3) as dead_letters,
    coalesce(range_agg(span) filter (where kind = 4), '{}') as skips,
    coalesce(range_agg(span) filter (where kind <> 4), '{}') as records
  from accounted
), compared as (
  select counted.*, int8multirange(int8range($4, $5)) - (skips + records) as missing, skips * records as doubled from counted
)
select stored, duplicates, dead_letters,
  (select coalesce(sum(upper(skip) - lower(skip)), 0) from unnest(skips) as skip) as skipped,
  array(select lower(gap)::text from unnest(missing) as gap order by lower(gap)) as gap_starts,
  array(select upper(gap)::text from unnest(missing) as gap order by lower(gap)) as gap_ends,
  array(select lower(gap)::text from unnest(doubled) as gap order by lower(gap)) as doubled_starts,
  array(select upper(gap)::text from unnest(doubled) as gap order by lower(gap)) as doubled_ends
from compared`;

/** Of a log that is the first by its name, and of another: then the statement has a sixth value, its `logSince`. */
const ACCOUNT = account(() => "");
const ACCOUNT_SINCE = account((column) => ` and ${column} >= $6::timestamptz`);
/** The `logSince` of the first. */
const ALWAYS = "-infinity";

interface AccountRow {
  readonly stored: string;
  readonly duplicates: string;
  readonly dead_letters: string;
  readonly skipped: string;
  readonly gap_starts: readonly string[];
  readonly gap_ends: readonly string[];
  readonly doubled_starts: readonly string[];
  readonly doubled_ends: readonly string[];
}

/**
 * Says of every offset of a stretch what became of it, in steps whose statements are bounded each. Commits of other
 * transactions between the steps do no harm: what is below a high_water does not change.
 *
 * @throws QueryTimeoutError where PostgreSQL did not answer within the pool's statement timeout; the signal's reason where
 * that is raised.
 */
export async function accountFor(db: Database, range: PassedRange, signal: AbortSignal): Promise<Accounts> {
  const { group, topic, partition, to, logSince } = range;
  let [stored, duplicates, deadLetters, skipped] = [0n, 0n, 0n, 0n];
  const missing = createRanges();
  const doubled = createRanges();
  const isFirst = logSince === ALWAYS;
  for (let from = range.from; from < to; from += STEP) {
    signal.throwIfAborted();
    const end = from + STEP < to ? from + STEP : to;
    const [row] = await read<AccountRow>(db, {
      name: isFirst ? "log-audit.account" : "log-audit.account-since",
      text: isFirst ? ACCOUNT : ACCOUNT_SINCE,
      values: [group, topic, partition, from, end, ...(isFirst ? [] : [logSince])],
    });
    if (row === undefined) throw new Error("A count has a row.");
    stored += BigInt(row.stored);
    duplicates += BigInt(row.duplicates);
    deadLetters += BigInt(row.dead_letters);
    skipped += BigInt(row.skipped);
    missing.add(row.gap_starts, row.gap_ends);
    doubled.add(row.doubled_starts, row.doubled_ends);
  }
  return {
    stored,
    duplicates,
    deadLetters,
    skipped,
    unaccounted: missing.offsets,
    unaccountedRanges: missing.ranges,
    contradicted: doubled.offsets,
    contradictedRanges: doubled.ranges,
  };
}

/** Gathers ranges of offsets in their order: all are counted, the first are kept. */
function createRanges(): {
  readonly offsets: bigint;
  readonly ranges: readonly OffsetRange[];
  add(starts: readonly string[], ends: readonly string[]): void;
} {
  let offsets = 0n;
  const ranges: OffsetRange[] = [];
  return {
    get offsets() {
      return offsets;
    },
    ranges,
    add(starts, ends) {
      for (const [index, start] of starts.entries()) {
        const [from, to] = [BigInt(start), BigInt(ends[index]!)];
        offsets += to - from;
        const last = ranges.at(-1);
        // One that a step's border cuts is one.
        if (last?.to === from) ranges[ranges.length - 1] = { from: last.from, to };
        else if (ranges.length < MAX_RANGES) ranges.push({ from, to });
      }
    },
  };
}

// Spread over all of them where there are more.
const EMPTY = `
with empty as (
  select greatest(from_offset, $4) as from_offset, least(to_offset, $5) as to_offset, row_number() over (order by from_offset) - 1 as place,
    count(*) over () as ranges, sum(least(to_offset, $5) - greatest(from_offset, $4)) over () as offsets
  from consumer.skip
  where group_id = $1 and topic = $2 and partition = $3 and from_offset < $5 and to_offset > $4 and kind = 'NO_RECORD'
    and recorded_at >= $6::timestamptz
)
select from_offset, to_offset, offsets from empty where place % ceil(ranges / $7::numeric) = 0 order by from_offset`;

/** What a group passed since it says that the log has no record there. */
export interface EmptyRanges {
  readonly offsets: bigint;
  /** All of them, or as many as were asked for, from everywhere in the stretch. */
  readonly ranges: readonly OffsetRange[];
}

/** The ranges of a stretch that were passed as NO_RECORD: at most `limit`. */
export async function emptyRanges(db: Database, range: PassedRange, limit: number): Promise<EmptyRanges> {
  const { group, topic, partition, from, to, logSince } = range;
  const rows = await read<{ from_offset: string; to_offset: string; offsets: string }>(db, {
    name: "log-audit.empty",
    text: EMPTY,
    values: [group, topic, partition, from, to, logSince, limit],
  });
  return {
    offsets: BigInt(rows[0]?.offsets ?? 0),
    ranges: rows.map((row) => ({ from: BigInt(row.from_offset), to: BigInt(row.to_offset) })),
  };
}

/** How far a group has come in a partition, and on which log. */
export interface Passed {
  /** Every offset below it was passed. */
  readonly highWater: bigint;
  /** As of a claim. */
  readonly logId: string | undefined;
  readonly logSince: string;
  /** `logSince` in microseconds since 1970; undefined where the log is the first one. */
  readonly logSinceMicros: bigint | undefined;
}

/** How far a group has come, by partition. One of which nothing was stored, or whose checkpoint is gone, is absent. */
export async function passedBy(
  db: Database,
  { group, topic }: Pick<PassedRange, "group" | "topic">,
  signal?: AbortSignal,
): Promise<ReadonlyMap<number, Passed>> {
  const rows = await read<{
    partition: number;
    high_water: string;
    log_id: string | null;
    log_since: string;
    micros: string | null;
  }>(
    db,
    {
      name: "log-audit.passed",
      text: `select partition, high_water, log_id, log_since::text,
          (extract(epoch from nullif(log_since, '-infinity')) * 1000000)::bigint as micros
        from consumer.checkpoint where group_id = $1 and topic = $2 and high_water is not null`,
      values: [group, topic],
    },
    signal,
  );
  return new Map(
    rows.map((row) => [
      row.partition,
      {
        highWater: BigInt(row.high_water),
        logId: row.log_id ?? undefined,
        logSince: row.log_since,
        logSinceMicros: row.micros === null ? undefined : BigInt(row.micros),
      },
    ]),
  );
}

/** How far a group has come, by partition: its high_water. A partition of which nothing was stored is absent. */
export async function highWaters(
  db: Database,
  of: Pick<PassedRange, "group" | "topic">,
): Promise<ReadonlyMap<number, bigint>> {
  return new Map([...(await passedBy(db, of))].map(([partition, { highWater }]) => [partition, highWater]));
}
