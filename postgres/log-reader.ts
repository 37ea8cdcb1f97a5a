import { type StoredEvent } from "#core/event.ts";
import { type LogOffsets } from "#core/tail-cursor.ts";

import { encodeArray } from "./binary-format.ts";
import { EVENT_COLUMNS, type EventRow, toStoredEvent } from "./event-row.ts";
import { type Database } from "./pool.ts";
import { read } from "./read.ts";

/** A stored event, with what its row says of it. */
export interface LogEvent {
  readonly stored: StoredEvent;
  readonly terms: readonly number[];
}

/** Some events of the log. */
export interface LogStretch {
  /** Those of a partition in the order of the log; of several partitions mixed, about as they were accepted. */
  readonly events: readonly LogEvent[];
  /** Where to go on. */
  readonly next: LogOffsets;
}

/** What a row counts beside its payload, in bytes. */
const ROW_BYTES = 1_024;

// Of each partition the next rows, along event_log_idx; then from all of them in turns as many as there is room for. That is a
// beginning of the rows of each partition.
const READ = `
select ${EVENT_COLUMNS}, terms, total::float8
from (
  select event.*, sum(data_size::int8 + ${ROW_BYTES}) over (order by nth, partition) as total
  from unnest($2::int4[], $3::int8[], $4::int8[]) as span (place, low, high)
  cross join lateral (
    select *, row_number() over (order by "offset") as nth from events.event
    where topic = $1 and partition = place and "offset" >= low and "offset" < high
    order by "offset" limit $5
  ) as event
) as summed
where total - data_size - ${ROW_BYTES} < $6
order by partition, "offset"`;

type LogRow = EventRow & { readonly terms: readonly number[]; readonly total: number };

/**
 * The events between two places of a topic, in one statement: all of them, or the first where they are more than `bytes`
 * (each counts 1 KiB beside its payload). At least one where there is any.
 *
 * @param to below what the checkpoints have passed: above that there may be holes that are filled later.
 * @throws QueryTimeoutError where PostgreSQL did not answer within the pool's statement timeout.
 */
export async function readLog(
  db: Database,
  topic: string,
  { from, to, bytes }: { readonly from: LogOffsets; readonly to: LogOffsets; readonly bytes: number },
  signal?: AbortSignal,
): Promise<LogStretch> {
  const spans = [...to].filter(([partition, high]) => (from.get(partition) ?? 0n) < high);
  const next = new Map(from);
  if (spans.length === 0) return { events: [], next };
  const partitions = spans.map(([partition]) => partition);
  const lows = partitions.map((partition) => from.get(partition) ?? 0n);
  const highs = spans.map(([, high]) => high);
  const limit = Math.ceil(bytes / ROW_BYTES / Math.sqrt(spans.length));
  const rows = await read<LogRow>(
    db,
    {
      name: "log-reader.read",
      text: READ,
      values: [
        topic,
        encodeArray("int4", partitions),
        encodeArray("int8", lows),
        encodeArray("int8", highs),
        limit,
        bytes,
      ],
    },
    signal,
  );
  const isCut = rows.some(({ total }) => total >= bytes);
  const counts = new Map<number, number>();
  for (const { partition } of rows) counts.set(partition, (counts.get(partition) ?? 0) + 1);
  for (const [partition, high] of spans) {
    if (!isCut && (counts.get(partition) ?? 0) < limit) next.set(partition, high);
  }
  for (const { partition, offset } of rows) {
    // By their order the last one of each partition stays.
    if (isCut || counts.get(partition) === limit) next.set(partition, BigInt(offset) + 1n);
  }
  return { events: mixed(rows), next };
}

/** By the time of acceptance, as far as the order of each partition lets it: clocks differ. */
function mixed(rows: readonly LogRow[]): LogEvent[] {
  let [partition, latest] = [-1, 0];
  const timed = rows.map((row) => {
    const stored = toStoredEvent(row);
    latest = row.partition === partition ? Math.max(latest, stored.acceptTime) : stored.acceptTime;
    partition = row.partition;
    return { latest, event: { stored, terms: row.terms } };
  });
  return timed.toSorted((a, b) => a.latest - b.latest).map(({ event }) => event);
}
