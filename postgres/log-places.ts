import { type Filter } from "#core/filter/tree.ts";
import { type LogOffsets } from "#core/tail-cursor.ts";

import { encodeArray, encodeTimestamptz } from "./binary-format.ts";
import { compileFilter } from "./filter.ts";
import { createParameters } from "./parameters.ts";
import { type Database } from "./pool.ts";
import { read } from "./read.ts";

// Halves the offsets of all partitions at once, some forty times at most, with one probe of event_log_idx each time.
const PLACES_AT = `
with recursive search (partition, low, high) as (
  select partition, 0::int8, high from unnest($2::int4[], $3::int8[]) as span (partition, high)
  union all
  select search.partition, case when receive_time < $4::timestamptz then found + 1 else low end,
    case when receive_time < $4::timestamptz then high else middle end
  from search
  cross join lateral (select (low + high) / 2 as middle) as half
  left join lateral (
    select "offset" as found, receive_time from events.event
    where topic = $1 and partition = search.partition and "offset" >= middle and "offset" < high
    order by "offset" limit 1
  ) as probe on true
  where low < high
)
select partition, max(low) as "offset" from search group by partition`;

/**
 * For each partition the place before which all was accepted before a time (milliseconds since 1970), as far as times of
 * acceptance grow along the log: where the clocks of servers differ, by as much less.
 *
 * @param to where the search ends, in each partition.
 * @throws QueryTimeoutError where PostgreSQL did not answer within the pool's statement timeout.
 */
export async function placesAt(
  db: Database,
  topic: string,
  { time, to }: { readonly time: number; readonly to: LogOffsets },
  signal?: AbortSignal,
): Promise<LogOffsets> {
  const rows = await read<{ partition: number; offset: string }>(
    db,
    {
      name: "log-places.at",
      text: PLACES_AT,
      values: [
        topic,
        encodeArray("int4", [...to.keys()]),
        encodeArray("int8", [...to.values()]),
        encodeTimestamptz(BigInt(Math.floor(time)) * 1_000n),
      ],
    },
    signal,
  );
  return new Map(rows.map(({ partition, offset }) => [partition, BigInt(offset)]));
}

/** Which events are the newest. */
export interface Newest {
  /** undefined: all. */
  readonly filter: Filter | undefined;
  /** What `now` is in it, in milliseconds since 1970. */
  readonly now: number;
  /** How many. */
  readonly count: number;
  /** The place that they are before. */
  readonly to: LogOffsets;
  /** How many records of each partition are looked at, at most. */
  readonly lookBack: bigint;
}

/**
 * The place from which on there are the newest events that match, so many of them or fewer: those that were accepted last.
 *
 * @throws QueryTimeoutError where PostgreSQL did not answer within the pool's statement timeout.
 */
export async function placesOfNewest(
  db: Database,
  topic: string,
  { filter, now, count, to, lookBack }: Newest,
  signal?: AbortSignal,
): Promise<LogOffsets> {
  const parameters = createParameters();
  const { bind } = parameters;
  const spans = `unnest(${bind(encodeArray("int4", [...to.keys()]), "int4[]")}, ${bind(encodeArray("int8", [...to.values()]), "int8[]")}) as span (place, high)`;
  const matches = filter === undefined ? "true" : `(${compileFilter(filter, { parameters, now })}) is true`;
  // `offset 0`: the rows are walked from the newest on, whatever the filter, until there are enough.
  const text = `
    select partition, min("offset") as "offset" from (
      select partition, "offset" from ${spans} cross join lateral (
        select partition, "offset", receive_time from (
          select * from events.event
          where topic = ${bind(topic, "text")} and partition = place and "offset" < high and "offset" >= high - ${bind(lookBack, "int8")}
          order by "offset" desc offset 0
        ) as event where ${matches} limit ${bind(count, "int8")}
      ) as found
      order by receive_time desc, partition, "offset" desc limit ${bind(count, "int8")}
    ) as newest group by partition`;
  const rows = await read<{ partition: number; offset: string }>(
    db,
    { text, values: [...parameters.values] },
    signal,
  );
  const places = new Map(to);
  for (const { partition, offset } of rows) places.set(partition, BigInt(offset));
  return places;
}
