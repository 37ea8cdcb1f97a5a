import { type Database } from "./pool.ts";
import { transaction } from "./tx.ts";

/** What one step of summing up came to. */
export interface RolledUp {
  /** Rows that it added to the sums. */
  readonly rows: number;
  /** Offsets that it left to the next step: 0 where the sums have everything that is stored. */
  readonly lag: number;
}

/** Rows that one step adds, and offsets of a partition that it looks at: where the log has holes, there are fewer rows. */
const STEP_ROWS = 50_000;
const STEP_OFFSETS = 100_000n;

/** Types, and sources, that an hour keeps apart. */
export const MAX_VALUES = 500;
/** Of a type and of a source, in bytes: the most that ingest takes. What is longer is not kept apart. */
const MAX_BYTES = 1_024;

// Locked, so that no era ends while its rows are read: whoever ends one waits for that, and what it lets come afterwards is
// not seen here.
const ERAS = `
select era, era.topic, era.partition, era.next_offset, since::text, until::text, coalesce(end_offset, checkpoint.next_offset) as bound
from events.rollup_era as era left join consumer.checkpoint using (group_id, topic, partition)
where end_offset is null or era.next_offset < end_offset
order by era for update of era`;

interface EraRow {
  readonly era: string;
  readonly topic: string;
  readonly partition: number;
  readonly next_offset: string;
  readonly since: string;
  readonly until: string;
  /** Null where nothing was ever stored, or nobody stores any more. */
  readonly bound: string | null;
}

// What has a sum keeps it. What is new gets one while there is room in its hour, the most frequent first; beyond that it is not
// kept apart. So nothing that has had a sum of its own ever goes without.
const ADD = `
with stretch as (
  select * from unnest($1::int8[], $2::text[], $3::int4[], $4::int8[], $5::int8[], $6::int8[], $7::timestamptz[], $8::timestamptz[])
    as stretch (era, topic, partition, from_offset, to_offset, bound, since, until)
), found as materialized (
  select era, stored.* from stretch cross join lateral (
    select "offset", date_bin('1 hour', occurred_at, '2000-01-01Z') as hour, coalesce((severity + 3) / 4, 0) as severity,
      case when octet_length(type) <= ${MAX_BYTES} then type else '' end as type,
      case when octet_length(source) <= ${MAX_BYTES} then source else '' end as source
    from events.event
    where event.partition = stretch.partition and "offset" >= from_offset and "offset" < to_offset
      and event.topic = stretch.topic and stored_at >= since and stored_at < until
    order by "offset" limit $9
  ) as stored
), delta as materialized (
  select case grouping(type, source) when 1 then 1 when 2 then 2 else 0 end as kind, hour, coalesce(type, source, '') as value,
    severity, count(*) as n
  from found group by grouping sets ((hour, severity), (hour, severity, type), (hour, severity, source))
), named as materialized (
  select kind, hour, value, sum(n) as n, exists (
    select from events.rollup as held where held.kind = delta.kind and held.hour = delta.hour and held.value = delta.value
  ) as known
  from delta where value <> '' group by kind, hour, value
), room as (
  select kind, hour, ${MAX_VALUES} - (
    select count(distinct value) from events.rollup as held where held.kind = fresh.kind and held.hour = fresh.hour and value <> ''
  ) as left_over
  from (select distinct kind, hour from named where not known) as fresh
), apart as (
  select kind, hour, value
  from (select named.*, row_number() over (partition by kind, hour, known order by n desc, value) as place from named) as placed
  left join room using (kind, hour) where known or place <= left_over
), added as (
  insert into events.rollup as held (kind, hour, value, severity, count)
  select kind, hour, coalesce(apart.value, '') as kept, severity, sum(delta.n)
  from delta left join apart using (kind, hour, value) group by kind, hour, kept, severity
  on conflict (kind, hour, value, severity) do update set count = held.count + excluded.count
), reached as (
  select era, bound, count(found."offset") as rows,
    case when count(found."offset") < $9 then to_offset else max(found."offset") + 1 end as next_offset
  from stretch left join found using (era) group by era, bound, to_offset
), moved as (
  update events.rollup_era as held
  set next_offset = reached.next_offset, summed_at = case when reached.next_offset = bound then now() else summed_at end
  from reached where held.era = reached.era
)
select coalesce(sum(rows), 0)::int as rows, coalesce(sum(bound - next_offset), 0)::text as lag from reached`;

/**
 * Adds to the sums by hour what was stored since, or a portion of that, and moves the positions past it, in one transaction:
 * however it ends, each row is in the sums once or is still to come. undefined where another process is at it.
 */
export async function rollUp(db: Database): Promise<RolledUp | undefined> {
  return transaction(db, async (tx) => {
    const lock = await tx.query<{ held: boolean }>({
      text: "select pg_try_advisory_xact_lock(hashtext('weir.rollups')) as held",
    });
    if (!lock.rows[0]!.held) return undefined;
    const { rows: eras } = await tx.query<EraRow>({ name: "roll-up.eras", text: ERAS });
    const stretches = eras.flatMap(({ bound, ...era }) => {
      const from = BigInt(era.next_offset);
      // An era that began at its checkpoint's offset is at its end until that moves.
      return bound === null || BigInt(bound) < from ? [] : [{ ...era, from, bound: BigInt(bound) }];
    });
    const behind = stretches.filter(({ from, bound }) => from < bound).length;
    const list = <T>(valueOf: (each: (typeof stretches)[number]) => T): T[] => stretches.map(valueOf);
    const { rows } = await tx.query<{ rows: number; lag: string }>({
      name: "roll-up.add",
      text: ADD,
      values: [
        list(({ era }) => era),
        list(({ topic }) => topic),
        list(({ partition }) => partition),
        list(({ from }) => from),
        list(({ from, bound }) => (bound - from > STEP_OFFSETS ? from + STEP_OFFSETS : bound)),
        list(({ bound }) => bound),
        list(({ since }) => since),
        list(({ until }) => until),
        Math.ceil(STEP_ROWS / Math.max(behind, 1)),
      ],
    });
    return { rows: rows[0]!.rows, lag: Number(rows[0]!.lag) };
  });
}
