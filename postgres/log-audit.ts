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
}

/** The most ranges that are told of. */
export const MAX_RANGES = 100;
/** How many offsets one statement looks at. */
const STEP = 20_000n;

// Each part reads an index of its own by the range, and nothing of a row but its offset. Of skips, one that began before
// the step may reach into it.
const ACCOUNT = `
with accounted (kind, span) as (
  select 1, int8range("offset", "offset", '[]') from events.event
  where topic = $2 and partition = $3 and "offset" >= $4 and "offset" < $5
  union all
  select 2, int8range("offset", "offset", '[]') from events.duplicate
  where topic = $2 and partition = $3 and "offset" >= $4 and "offset" < $5
  union all
  select 3, int8range("offset", "offset", '[]') from consumer.dead_letter
  where group_id = $1 and topic = $2 and partition = $3 and "offset" >= $4 and "offset" < $5
  union all
  select 4, int8range(from_offset, to_offset) * int8range($4, $5) from consumer.skip
  where group_id = $1 and topic = $2 and partition = $3 and from_offset < $5 and to_offset > $4
), counted as (
  select count(*) filter (where kind = 1) as stored, count(*) filter (where kind = 2) as duplicates,
    count(*) filter (where kind = 3) as dead_letters,
    coalesce(sum(upper(span) - lower(span)) filter (where kind = 4), 0) as skipped,
    int8multirange(int8range($4, $5)) - coalesce(range_agg(span), '{}') as missing
  from accounted
)
select stored, duplicates, dead_letters, skipped,
  array(select lower(gap)::text from unnest(missing) as gap order by lower(gap)) as gap_starts,
  array(select upper(gap)::text from unnest(missing) as gap order by lower(gap)) as gap_ends
from counted`;

interface AccountRow {
  readonly stored: string;
  readonly duplicates: string;
  readonly dead_letters: string;
  readonly skipped: string;
  readonly gap_starts: readonly string[];
  readonly gap_ends: readonly string[];
}

/**
 * Says of every offset of a stretch what became of it, in steps whose statements are bounded each. Commits of other
 * transactions between the steps do no harm: what is below a high_water does not change.
 *
 * @throws QueryTimeoutError where PostgreSQL did not answer within the pool's statement timeout; the signal's reason where
 * that is raised.
 */
export async function accountFor(db: Database, range: PassedRange, signal: AbortSignal): Promise<Accounts> {
  const { group, topic, partition, to } = range;
  let [stored, duplicates, deadLetters, skipped, unaccounted] = [0n, 0n, 0n, 0n, 0n];
  const ranges: OffsetRange[] = [];
  for (let from = range.from; from < to; from += STEP) {
    signal.throwIfAborted();
    const end = from + STEP < to ? from + STEP : to;
    const [row] = await read<AccountRow>(db, {
      name: "log-audit.account",
      text: ACCOUNT,
      values: [group, topic, partition, from, end],
    });
    if (row === undefined) throw new Error("A count has a row.");
    stored += BigInt(row.stored);
    duplicates += BigInt(row.duplicates);
    deadLetters += BigInt(row.dead_letters);
    skipped += BigInt(row.skipped);
    for (const [index, start] of row.gap_starts.entries()) {
      const gap = { from: BigInt(start), to: BigInt(row.gap_ends[index]!) };
      unaccounted += gap.to - gap.from;
      const last = ranges.at(-1);
      // A gap that a step's border cuts is one.
      if (last?.to === gap.from) ranges[ranges.length - 1] = { from: last.from, to: gap.to };
      else if (ranges.length < MAX_RANGES) ranges.push(gap);
    }
  }
  return { stored, duplicates, deadLetters, skipped, unaccounted, unaccountedRanges: ranges };
}

/** How far a group has come, by partition: its high_water. A partition of which nothing was stored is absent. */
export async function highWaters(
  db: Database,
  { group, topic }: Pick<PassedRange, "group" | "topic">,
): Promise<ReadonlyMap<number, bigint>> {
  const { rows } = await db.pool.query<{ partition: number; high_water: string }>({
    name: "log-audit.high-waters",
    text: "select partition, high_water from consumer.checkpoint where group_id = $1 and topic = $2 and high_water is not null",
    values: [group, topic],
  });
  return new Map(rows.map((row) => [row.partition, BigInt(row.high_water)]));
}
