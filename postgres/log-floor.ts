import { type LogOffsets } from "#core/tail-cursor.ts";

import { type Database } from "./pool.ts";
import { read } from "./read.ts";
import { type Tx } from "./tx.ts";

// An era's row is there for each partition that was ever stored, and stays. So the last event of each is one probe of the index.
const raiseFrom = (month: string): string => `
insert into events.log_floor as floor (topic, partition, next_offset, receive_time)
select place.topic, place.partition, last."offset" + 1, last.receive_time
from (select distinct topic, partition from events.rollup_era) as place
cross join lateral (
  select "offset", receive_time from events.${month} as event
  where event.topic = place.topic and event.partition = place.partition order by "offset" desc limit 1
) as last
on conflict (topic, partition) do update
set next_offset = excluded.next_offset, receive_time = greatest(floor.receive_time, excluded.receive_time)
where floor.next_offset < excluded.next_offset`;

/**
 * Writes down that the events of a monthly table are taken out of events.event, in the transaction that does it.
 *
 * @param month its name, one of ours.
 */
export async function raiseFloor(tx: Tx, month: string): Promise<void> {
  await tx.query({ text: raiseFrom(month) });
}

/** How far retention has come into a topic. */
export interface LogFloor {
  /** By partition, from where on no event is missing; a partition of which none is missing is absent. */
  readonly offsets: LogOffsets;
  /** When the last event was accepted that is missing, in milliseconds since 1970; undefined where none is. */
  readonly receiveTime: number | undefined;
}

/** @throws QueryTimeoutError where PostgreSQL did not answer within the pool's statement timeout. */
export async function logFloor(db: Database, topic: string, signal?: AbortSignal): Promise<LogFloor> {
  const rows = await read<{ partition: number; next_offset: string; millis: string }>(
    db,
    {
      name: "log-floor.read",
      text: `select partition, next_offset, floor(extract(epoch from receive_time) * 1000)::bigint as millis
        from events.log_floor where topic = $1`,
      values: [topic],
    },
    signal,
  );
  return {
    offsets: new Map(rows.map((row) => [row.partition, BigInt(row.next_offset)])),
    receiveTime: rows.length === 0 ? undefined : Math.max(...rows.map(({ millis }) => Number(millis))),
  };
}
