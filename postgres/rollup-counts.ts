/** How many stored offsets that are not in the sums yet a read adds by itself: a tenth of a second's work. */
export const MAX_TAIL = 100_000;

/** What the sums are of, as events.rollup.kind has it: of all events, of each type, of each source. */
export const KINDS = { all: 0, type: 1, source: 2 } as const;

/** What is counted: SQL expressions of the type timestamptz, such as `$1::timestamptz`. */
export interface CountedRange {
  readonly kinds: readonly (keyof typeof KINDS)[];
  /** The first whole hour, from which on the sums are read. */
  readonly firstHour: string;
  /** The end of the last whole hour. */
  readonly endHour: string;
}

/**
 * The beginning of a statement that counts the events of whole hours: `with … counted (kind, hour, value, severity, n)`, where
 * each event counts once for each of the kinds, and the severity of what comes from the sums is the least of its range. What is
 * stored and not in the sums yet is in it as far as `lag (offsets, staleness)` allows: where `offsets` is above {@link MAX_TAIL},
 * it is not, and the rest is `staleness` milliseconds old, null where not everything was ever in the sums. One statement sees one
 * moment, so that nothing is counted twice or missed.
 */
export function countedRows({ kinds, firstHour, endHour }: CountedRange): string {
  // `offset 0` keeps the planner from reading all events to join them with the eras: of each era the rows are looked up.
  const values = kinds.map((kind) => `(${KINDS[kind]}, ${VALUES[kind]})`).join(", ");
  return `
with era as materialized (
  select topic, partition, era.next_offset, since, until, summed_at, coalesce(end_offset, checkpoint.next_offset) as bound
  from events.rollup_era as era left join consumer.checkpoint using (group_id, topic, partition)
  where era.next_offset < coalesce(end_offset, checkpoint.next_offset)
), lag as materialized (
  select coalesce(sum(bound - next_offset), 0) as offsets,
    case when bool_and(summed_at is not null) then extract(epoch from clock_timestamp() - min(summed_at)) * 1000 end as staleness
  from era
), counted (kind, hour, value, severity, n) as (
  select kind, hour, value, case when severity > 0 then severity * 4 - 3 end, count from events.rollup
  where kind in (${kinds.map((kind) => KINDS[kind]).join(", ")}) and hour >= ${firstHour} and hour < ${endHour}
  union all
  select kind, date_bin('1 hour', occurred_at, '2000-01-01Z'), value, severity, 1
  from (select era.* from era, lag where offsets <= ${MAX_TAIL}) as behind cross join lateral (
    select occurred_at, type, source, severity from events.event
    where event.partition = behind.partition and "offset" >= next_offset and "offset" < bound and event.topic = behind.topic
      and stored_at >= since and stored_at < until and occurred_at >= ${firstHour} and occurred_at < ${endHour}
    offset 0
  ) as stored cross join lateral (values ${values}) as one (kind, value)
)`;
}

const VALUES = { all: "''", type: "type", source: "source" } as const;
