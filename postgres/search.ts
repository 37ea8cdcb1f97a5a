import { type StoredEvent } from "#core/event.ts";
import { idTerm, INCOMPLETE_TERM } from "#core/terms.ts";

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
import { type Database } from "./pool.ts";
import { read } from "./read.ts";

/** "time desc": the newest first; "time": the oldest first. Equal times go by (partition, offset), the same way round. */
export type EventOrder = "time desc" | "time";

/** The place of an event in the order of a search: `occurredAt` of events.ts and its position. */
export interface Cursor {
  /** Microseconds since 1970. */
  readonly occurredAt: bigint;
  readonly partition: number;
  readonly offset: bigint;
}

/** What {@link searchEvents} is asked for. */
export interface SearchQuery {
  readonly order: EventOrder;
  /** The last event of the page before; undefined for the first page. */
  readonly after: Cursor | undefined;
  /** Events at most. */
  readonly limit: number;
}

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

const PAGE: Readonly<
  Record<EventOrder, { readonly name: string; readonly compare: "<" | ">"; readonly orderBy: string }>
> = {
  "time desc": { name: "newest", compare: "<", orderBy: `occurred_at desc, partition desc, "offset" desc` },
  time: { name: "oldest", compare: ">", orderBy: `occurred_at, partition, "offset"` },
};

/**
 * One page of the stored events, without their payloads, in the order asked for. A page costs the same however far it is
 * from the first: it is read from the cursor on, by the index that has its order.
 *
 * @throws QueryTimeoutError where PostgreSQL did not answer within the pool's statement timeout.
 */
export async function searchEvents(db: Database, query: SearchQuery): Promise<readonly EventSummary[]> {
  const { name, compare, orderBy } = PAGE[query.order];
  const { after, limit } = query;
  const select = `select ${SUMMARY_COLUMNS} from events.event`;
  // The second condition follows from the first; it is what lets the planner leave partitions out.
  const from = `where (occurred_at, partition, "offset") ${compare} ($2::timestamptz, $3::int, $4::bigint) and occurred_at ${compare}= $2::timestamptz`;
  const rows = await read<SummaryRow>(
    db,
    after === undefined
      ? { name: `search.${name}`, text: `${select} order by ${orderBy} limit $1`, values: [limit] }
      : {
          name: `search.${name}-after`,
          text: `${select} ${from} order by ${orderBy} limit $1`,
          values: [limit, encodeTimestamptz(after.occurredAt), after.partition, after.offset],
        },
  );
  return rows.map(toSummary);
}

const KEYED = `from events.event where source = $1 and id = $2 and occurred_at = $3::timestamptz`;
// The term leads to the rows with the id, but to those that have not all of their terms.
const NAMED = `from events.event where source = $1 and id = $2 and (terms @> $3::int4[] or terms @> '{${INCOMPLETE_TERM}}')`;

/**
 * One event with its payload: where several events share the name, the one with the time asked for, else the one that was
 * accepted first (by accept time, then by position). undefined where there is none.
 *
 * @throws QueryTimeoutError as {@link searchEvents}.
 */
export async function getEvent(
  db: Database,
  { source, id, time }: EventKey,
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
  );
  if (row === undefined) return undefined;
  const event = toStoredEvent(row);
  const others = await read<{ readonly micros: string }>(db, {
    name: "search.other-times",
    text: `select (extract(epoch from occurred_at) * 1000000)::bigint as micros ${NAMED} and occurred_at <> $4::timestamptz order by occurred_at limit 100`,
    values: [source, id, [idTerm(id)], encodeTimestamptz(occurredAt(event))],
  });
  return { event, dataSize: row.data_size, otherTimes: others.map(({ micros }) => BigInt(micros)) };
}
