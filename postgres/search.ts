import { type StoredEvent } from "#core/event.ts";
import { idTerm } from "#core/terms.ts";

import { encodeTimestamptz } from "./binary-format.ts";
import { occurredAt } from "./events.ts";
import {
  EVENT_COLUMNS,
  type EventRow,
  type EventSummary,
  SUMMARY_COLUMNS,
  type SummaryRow,
  toStoredEvent,
  toSummary,
} from "./event-row.ts";
import { INCOMPLETE } from "./filter-text.ts";
import { createParameters } from "./parameters.ts";
import { type Database } from "./pool.ts";
import { read } from "./read.ts";
import { orderBy, selectEvents, type Selection, selectStatement, windowsFor } from "./search-statement.ts";
import { storeStatistics } from "./store-statistics.ts";

export { type Cursor, type EventOrder, type Question, type Selection } from "./search-statement.ts";

/** What {@link getEvent} is asked for. */
export interface EventKey {
  readonly source: string;
  readonly id: string;
  /** Microseconds since 1970; tells events of one name apart. */
  readonly time?: bigint | undefined;
}

/** What {@link getEvent} finds. */
export interface FoundEvent {
  readonly event: StoredEvent;
  /** Bytes of the payload; 0 for an empty one and for none. */
  readonly dataSize: number;
  /** The times of the other events of the same name, in microseconds since 1970, oldest first, at most 100. */
  readonly otherTimes: readonly bigint[];
}

/**
 * The `settings` of a database that is searched (`createDatabase`). How events are looked for is chosen here, so what is left to
 * PostgreSQL is to follow: it takes the index, spends neither time on compiling nor other processors on one search, and keeps
 * the events of a facet in memory.
 */
export const SEARCH_SETTINGS: Readonly<Record<string, string>> = {
  enable_seqscan: "off",
  jit: "off",
  max_parallel_workers_per_gather: "0",
  work_mem: "16MB",
};

/**
 * One page of the stored events that match, without their payloads, in the order asked for: one statement. A page costs the
 * same however far it is from the first: it is read from the cursor on.
 *
 * @param signal raised when nobody waits for the page any more: PostgreSQL is told to stop.
 * @throws QueryTimeoutError where PostgreSQL did not answer within the pool's statement timeout.
 */
export async function searchEvents(
  db: Database,
  selection: Selection,
  signal?: AbortSignal,
): Promise<readonly EventSummary[]> {
  const windows = windowsFor(selection, await storeStatistics(db));
  const rows = await read<SummaryRow>(db, selectStatement(SUMMARY_COLUMNS, selection, windows), signal);
  return rows.map(toSummary);
}

/** Events of an export at most that are in memory at once, and about how many bytes of payload. */
const EXPORT_ROWS = 256;
const EXPORT_BYTES = 4 * 1024 * 1024;

/**
 * All stored events that match, in the order asked for, with their payloads, some at a time: each time one statement, when the
 * ones before were taken. However many there are, memory is bounded.
 *
 * @param signal ends it, by its reason.
 * @throws QueryTimeoutError as {@link searchEvents}.
 */
export async function* exportEvents(
  db: Database,
  { after, ...question }: Omit<Selection, "limit">,
  signal?: AbortSignal,
): AsyncGenerator<readonly StoredEvent[], void, undefined> {
  let cursor = after;
  for (;;) {
    const selection = { ...question, after: cursor, limit: EXPORT_ROWS };
    const parameters = createParameters();
    const windows = windowsFor(selection, await storeStatistics(db));
    const selected = selectEvents("*", selection, windows, parameters);
    const order = orderBy(question.order);
    const summed = `select *, sum(data_size::int8) over (order by ${order}) as total from (${selected}) as selected`;
    const text = `select ${EVENT_COLUMNS}, total from (${summed}) as summed where total - data_size < ${parameters.bind(EXPORT_BYTES, "int8")} order by ${order}`;
    const rows = await read<EventRow & { readonly total: string }>(
      db,
      { text, values: [...parameters.values] },
      signal,
    );
    const events = rows.map(toStoredEvent);
    if (events.length > 0) yield events;
    const last = events.at(-1);
    if (last === undefined || (rows.length < EXPORT_ROWS && Number(rows.at(-1)!.total) < EXPORT_BYTES))
      return;
    const { partition, offset } = last.position;
    cursor = { occurredAt: occurredAt(last), partition, offset };
  }
}

const KEYED = `from events.event where source = $1 and id = $2 and occurred_at = $3::timestamptz`;
// The term leads to the rows with the id, but to those that have not all of their terms.
const NAMED = `from events.event where source = $1 and id = $2 and (terms @> $3::int4[] or ${INCOMPLETE})`;

/**
 * One event with its payload: where several events share the name, the one with the time asked for, else the one that was
 * accepted first (by accept time, then by position). undefined where there is none.
 *
 * @throws QueryTimeoutError as {@link searchEvents}.
 */
export async function getEvent(
  db: Database,
  { source, id, time }: EventKey,
  signal?: AbortSignal,
): Promise<FoundEvent | undefined> {
  const [row] = await read<EventRow>(
    db,
    time === undefined
      ? {
          name: "search.get",
          text: `select ${EVENT_COLUMNS} ${NAMED} order by receive_time, partition, "offset" limit 1`,
          values: [source, id, [idTerm(id)]],
        }
      : {
          name: "search.get-at",
          text: `select ${EVENT_COLUMNS} ${KEYED}`,
          values: [source, id, encodeTimestamptz(time)],
        },
    signal,
  );
  if (row === undefined) return undefined;
  const event = toStoredEvent(row);
  const others = await read<{ readonly micros: string }>(
    db,
    {
      name: "search.other-times",
      text: `select (extract(epoch from occurred_at) * 1000000)::bigint as micros ${NAMED} and occurred_at <> $4::timestamptz order by occurred_at limit 100`,
      values: [source, id, [idTerm(id)], encodeTimestamptz(occurredAt(event))],
    },
    signal,
  );
  return { event, dataSize: row.data_size, otherTimes: others.map(({ micros }) => BigInt(micros)) };
}
