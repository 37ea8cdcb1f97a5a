import { type StoredEvent } from "#core/event.ts";
import { severityOf } from "#core/severity.ts";
import { tagsOf } from "#core/tags.ts";

import { type ElementType, type ElementValue, encodeArray } from "./binary-format.ts";
import { extensionsJson, millisToMicros, occurredAt, partsOf } from "./event-values.ts";
import { findRepeats, type Repeat } from "./repeats.ts";
import { type Tx } from "./tx.ts";

export { occurredAt } from "./event-values.ts";

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
  column("extensions", "text", ({ event }) => extensionsJson(event), "jsonb"),
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

/** What became of events that were offered: each is in one of the two, in the order given. */
export interface Inserted {
  readonly written: readonly StoredEvent[];
  /** Those whose key has a row from before, or from an event earlier in the same list. */
  readonly repeated: readonly Repeat[];
}

/**
 * Inserts what is not there yet by (source, id, occurred_at), in the order given. Where all of it is new that is one
 * statement for each part; only repeats cost further ones.
 */
export async function insertEvents(tx: Tx, events: readonly StoredEvent[]): Promise<Inserted> {
  const inserted = new Set<string>();
  for (const part of partsOf(events)) {
    const { rows } = await tx.query<{ topic: string; partition: number; offset: string }>({
      name: "events.insert",
      text: INSERT,
      values: COLUMNS.map((each) => each.encode(part)),
    });
    for (const row of rows) inserted.add(`${row.offset} ${row.partition} ${row.topic}`);
  }
  if (inserted.size === events.length) return { written: events, repeated: [] };
  const written: StoredEvent[] = [];
  const others: StoredEvent[] = [];
  for (const each of events) {
    const { offset, partition, topic } = each.position;
    // Deleted as it is met, so that what is offered twice is written once.
    (inserted.delete(`${offset} ${partition} ${topic}`) ? written : others).push(each);
  }
  return { written, repeated: await findRepeats(tx, others) };
}

/** The text of a text[]: unnest cannot take an array of arrays of different lengths. */
function arrayText(values: readonly string[]): string {
  return `{${values.map((value) => `"${value.replaceAll(/["\\]/g, "\\$&")}"`).join(",")}}`;
}
