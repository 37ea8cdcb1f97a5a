/** How many stored offsets that are not in the sums yet a read adds by itself: a tenth of a second's work. */
export const MAX_TAIL = 100_000;

/** Where a statement finds the range of time that it counts, each a timestamptz: $1, or an expression. */
export interface CountedRange {
  /** The first whole hour, from which on the sums are read. */
  readonly firstHour: string;
  /** The end of the last whole hour. */
  readonly endHour: string;
}

/**
 * The beginning of a statement that counts the events of whole hours: `with … counted (hour, type, source, severity, n)`, where
 * the severity of what comes from the sums is the least of its range. What is stored and not in the sums yet is in it as far as
 * `lag (offsets, staleness)` allows: where `offsets` is above {@link MAX_TAIL}, it is not, and the rest is `staleness`
 * milliseconds old, null where not everything was ever in the sums. One statement sees one moment, so that nothing is counted
 * twice or missed.
 */
export function countedRows({ firstHour, endHour }: CountedRange): string {
  return `
with era as materialized (
  select topic, partition, era.next_offset, since, until, summed_at, coalesce(end_offset, checkpoint.next_offset) as bound
  from events.rollup_era as era left join consumer.checkpoint using (group_id, topic, partition)
  where era.next_offset < coalesce(end_offset, checkpoint.next_offset)
), lag as materialized (
  select coalesce(sum(bound - next_offset), 0) as offsets,
    case when bool_and(summed_at is not null) then extract(epoch from clock_timestamp() - min(summed_at)) * 1000 end as staleness
  from era
), counted (hour, type, source, severity, n) as (
  select hour, type, source, case when severity > 0 then severity * 4 - 3 end, count from events.rollup
  where hour >= ${firstHour} and hour < ${endHour}
  union all
  select date_bin('1 hour', occurred_at, '2000-01-01Z'), type, source, severity, 1
  from (select era.* from era, lag where offsets <= ${MAX_TAIL}) as behind cross join lateral (
    select occurred_at, type, source, severity from events.event
    where event.partition = behind.partition and "offset" >= next_offset and "offset" < bound and event.topic = behind.topic
      and stored_at >= since and stored_at < until and occurred_at >= ${firstHour} and occurred_at < ${endHour}
  ) as stored
)`;
}
