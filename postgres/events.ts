import { type CloudEvent, type StoredEvent } from "#core/event.ts";
import { severityOf } from "#core/severity.ts";
import { tagsOf } from "#core/tags.ts";
import { toMicros } from "#core/timestamp.ts";

import { type ElementType, type ElementValue, encodeArray } from "./binary-format.ts";
import { type Tx } from "./tx.ts";

/** What one statement carries at most, unless a single event is larger: it bounds the memory on either side. */
const STATEMENT_BYTES = 4 * 1024 * 1024;

/** How a column of events.event is filled: an array of its values for a whole statement. */
interface Column {
  readonly name: string;
  readonly type: ElementType;
  /** The column's own type, where an element is the text of it. */
  readonly cast: string | undefined;
  encode(events: readonly StoredEvent[]): Buffer;
}

function column<T extends ElementType>(
  name: string,
  type: T,
  valueOf: (stored: StoredEvent) => ElementValue<T>,
  cast?: string,
): Column {
  return { name, type, cast, encode: (events) => encodeArray(type, events.map(valueOf)) };
}

const COLUMNS: readonly Column[] = [
  column("occurred_at", "timestamptz", occurredAt),
  column("receive_time", "timestamptz", (stored) => millisToMicros(stored.acceptTime)),
  column("offset", "int8", ({ position }) => position.offset),
  column("partition", "int4", ({ position }) => position.partition),
  column("data_size", "int4", ({ event }) => event.data?.bytes.byteLength ?? 0),
  column("severity", "int2", ({ event }) => severityOf(event)),
  column("source", "text", ({ event }) => event.source),
  column("id", "text", ({ event }) => event.id),
  column("type", "text", ({ event }) => event.type),
  column("time_text", "text", ({ event }) => event.time?.text),
  column("subject", "text", ({ event }) => event.subject),
  column("dataschema", "text", ({ event }) => event.dataschema),
  column("datacontenttype", "text", ({ event }) => event.datacontenttype),
  column("data_type_url", "text", ({ event }) => event.data?.protoType),
  column("topic", "text", ({ position }) => position.topic),
  column("principal", "text", (stored) => stored.principal),
  column("trace_parent", "text", (stored) => stored.traceParent),
  column("trace_state", "text", (stored) => stored.traceState),
  column("tags", "text", ({ event }) => arrayText(tagsOf(event)), "text[]"),
  column("extensions", "text", ({ event }) => JSON.stringify(Object.fromEntries(event.extensions)), "jsonb"),
  column("data", "bytea", ({ event }) => event.data?.bytes),
];

// Measured against arrays in text and a row of VALUES for each event: docs/schema.md.
// unnest keeps the order of the arrays, so of two events with one key in a statement the earlier is stored.
const INSERT = `
insert into events.event (${COLUMNS.map(({ name }) => `"${name}"`).join(", ")})
select ${COLUMNS.map(({ name, cast }) => (cast === undefined ? `"${name}"` : `"${name}"::${cast}`)).join(", ")}
from unnest(${COLUMNS.map(({ type }, index) => `$${index + 1}::${type}[]`).join(", ")})
  as offered (${COLUMNS.map(({ name }) => `"${name}"`).join(", ")})
on conflict (source, id, occurred_at) do nothing
returning topic, partition, "offset"`;

/**
 * The value of the column occurred_at, in microseconds since 1970: the event's time, cut to the microsecond. An event
 * without a time (a foreign record; ingest demands one) has its accept time instead, which is the record's own: so a
 * redelivery of the record meets its own row, and another record is another event.
 */
export function occurredAt(stored: {
  readonly event: Pick<CloudEvent, "time">;
  readonly acceptTime: number;
}): bigint {
  return stored.event.time === undefined ? millisToMicros(stored.acceptTime) : toMicros(stored.event.time);
}

/**
 * Inserts what is not there yet by (source, id, occurred_at), in the order given, and answers the events that were
 * written; the others are duplicates, of an earlier row or of one in the same list.
 */
export async function insertEvents(tx: Tx, events: readonly StoredEvent[]): Promise<readonly StoredEvent[]> {
  const written = new Set<string>();
  for (const part of partsOf(events)) {
    const { rows } = await tx.query<{ topic: string; partition: number; offset: string }>({
      name: "events.insert",
      text: INSERT,
      values: COLUMNS.map((each) => each.encode(part)),
    });
    for (const row of rows) written.add(`${row.offset} ${row.partition} ${row.topic}`);
  }
  // Deleted as it is met, so that what is offered twice is answered once.
  return events.filter(({ position: { offset, partition, topic } }) =>
    written.delete(`${offset} ${partition} ${topic}`),
  );
}

function* partsOf(events: readonly StoredEvent[]): Generator<readonly StoredEvent[]> {
  let [start, bytes] = [0, 0];
  for (const [index, { event }] of events.entries()) {
    const size = event.data?.bytes.byteLength ?? 0;
    if (index > start && bytes + size > STATEMENT_BYTES) {
      yield events.slice(start, index);
      [start, bytes] = [index, 0];
    }
    bytes += size;
  }
  if (start < events.length) yield events.slice(start);
}

function millisToMicros(millis: number): bigint {
  return BigInt(millis) * 1_000n;
}

/** The text of a text[]: unnest cannot take an array of arrays of different lengths. */
function arrayText(values: readonly string[]): string {
  return `{${values.map((value) => `"${value.replaceAll(/["\\]/g, "\\$&")}"`).join(",")}}`;
}
