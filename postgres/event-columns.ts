import { type StoredEvent } from "#core/event.ts";
import { type SearchableForm, searchableForm } from "#core/searchable.ts";
import { severityOf } from "#core/severity.ts";
import { tagsOf } from "#core/tags.ts";
import { termsOf } from "#core/terms.ts";

import { type ElementType, type ElementValue, encodeArray } from "./binary-format.ts";
import { encodeCopy, type RowWriter } from "./copy-format.ts";
import { extensionsJson, millisToMicros, occurredAt } from "./event-values.ts";

/** How a column of events.event is filled, by either way of inserting. */
interface Column {
  readonly name: string;
  /** Of the elements of the array that `encode` makes, and the column's own type where they are the text of it. */
  readonly type: ElementType;
  readonly cast?: string;
  encode(events: readonly StoredEvent[]): Buffer;
  write(writer: RowWriter, stored: StoredEvent): void;
}

function column<T extends ElementType>(
  name: string,
  type: T,
  write: Column["write"],
  valueOf: (stored: StoredEvent) => ElementValue<T>,
  cast?: string,
): Column {
  return {
    name,
    type,
    encode: (events) => encodeArray(type, events.map(valueOf)),
    write,
    ...(cast !== undefined && { cast }),
  };
}

function text(name: string, valueOf: (stored: StoredEvent) => string | undefined): Column {
  return column(name, "text", (writer, stored) => writer.text(valueOf(stored)), valueOf);
}

const micros = (name: string, valueOf: (stored: StoredEvent) => bigint): Column =>
  column(name, "timestamptz", (writer, stored) => writer.timestamptz(valueOf(stored)), valueOf);
const int4 = (name: string, valueOf: (stored: StoredEvent) => number): Column =>
  column(name, "int4", (writer, stored) => writer.int4(valueOf(stored)), valueOf);

const COLUMNS: readonly Column[] = [
  micros("occurred_at", occurredAt),
  micros("receive_time", ({ acceptTime }) => millisToMicros(acceptTime)),
  column(
    "offset",
    "int8",
    (writer, { position }) => writer.int8(position.offset),
    ({ position }) => position.offset,
  ),
  int4("partition", ({ position }) => position.partition),
  int4("data_size", ({ event }) => event.data?.bytes.byteLength ?? 0),
  column(
    "severity",
    "int2",
    (writer, { event }) => writer.int2(severityOf(event)),
    ({ event }) => severityOf(event),
  ),
  text("source", ({ event }) => event.source),
  text("id", ({ event }) => event.id),
  text("type", ({ event }) => event.type),
  text("time_text", ({ event }) => event.time?.text),
  text("subject", ({ event }) => event.subject),
  text("dataschema", ({ event }) => event.dataschema),
  text("datacontenttype", ({ event }) => event.datacontenttype),
  text("data_type_url", ({ event }) => event.data?.protoType),
  text("topic", ({ position }) => position.topic),
  text("principal", ({ principal }) => principal),
  text("trace_parent", ({ traceParent }) => traceParent),
  text("trace_state", ({ traceState }) => traceState),
  // unnest cannot take an array of arrays of different lengths, so there they are text.
  column(
    "tags",
    "text",
    (writer, { event }) => writer.texts(tagsOf(event)),
    ({ event }) => `{${tagsOf(event).map(quoteElement).join(",")}}`,
    "text[]",
  ),
  column(
    "extensions",
    "text",
    (writer, { event }) => writer.jsonb(extensionsJson(event)),
    ({ event }) => extensionsJson(event),
    "jsonb",
  ),
  column(
    "data",
    "bytea",
    (writer, { event }) => writer.bytea(event.data?.bytes),
    ({ event }) => event.data?.bytes,
  ),
  column(
    "terms",
    "text",
    (writer, { event }) => writer.int4s(termsOf(event)),
    ({ event }) => `{${termsOf(event).join(",")}}`,
    "int4[]",
  ),
  column(
    "data_form",
    "text",
    (writer, { event }) => writer.char(dataForm(event)),
    ({ event }) => dataForm(event),
    '"char"',
  ),
];

const FORMS: Readonly<Record<SearchableForm, string>> = { json: "j", text: "t" };

function dataForm(event: StoredEvent["event"]): string | undefined {
  const form = searchableForm(event);
  return form && FORMS[form];
}

const NAMES = COLUMNS.map(({ name }) => `"${name}"`).join(", ");

/** Inserts rows that are all new; any key that has a row fails it (23505). Its data are {@link encodeRows}. */
export const COPY_EVENTS: string = `copy events.event (${NAMES}) from stdin with (format binary)`;

/**
 * Inserts what is new and answers the positions of that. Its parameters are {@link encodeColumns}. unnest keeps the order of
 * the arrays, so of two events with one key the earlier is stored.
 */
export const INSERT_EVENTS: string = `
insert into events.event (${NAMES})
select ${COLUMNS.map(({ name, cast }) => (cast === undefined ? `"${name}"` : `"${name}"::${cast}`)).join(", ")}
from unnest(${COLUMNS.map(({ type }, index) => `$${index + 1}::${type}[]`).join(", ")}) as offered (${NAMES})
on conflict (occurred_at, source, id) do nothing
returning topic, partition, "offset"`;

/** Events as the data of {@link COPY_EVENTS}. */
export function encodeRows(events: readonly StoredEvent[]): Buffer {
  return encodeCopy(COLUMNS.length, events, (writer, stored) => {
    for (const each of COLUMNS) each.write(writer, stored);
  });
}

/** Events as the parameters of {@link INSERT_EVENTS}. */
export function encodeColumns(events: readonly StoredEvent[]): Buffer[] {
  return COLUMNS.map((each) => each.encode(events));
}

function quoteElement(value: string): string {
  return `"${value.replaceAll(/["\\]/g, "\\$&")}"`;
}
