import { type CloudEvent, type StoredEvent } from "#core/event.ts";
import { parseTimestamp } from "#core/timestamp.ts";

/** A stored event without its payload, as lists have it. */
export interface EventSummary extends Omit<StoredEvent, "event"> {
  readonly event: Omit<CloudEvent, "data">;
  /** Bytes of the payload; 0 for an empty one and for none. */
  readonly dataSize: number;
  /** OpenTelemetry severity number, 1 to 24. */
  readonly severity: number | undefined;
  readonly tags: readonly string[];
}

/** SQL: the number that the range of an event's severity begins with; null of one without. A range has four numbers. */
export const SEVERITY_RANGE = "(severity - 1) / 4 * 4 + 1";

/** What a query that lists events selects; the payload, by far the widest column, is not read. */
export const SUMMARY_COLUMNS: string = `source, id, type, subject, time_text, datacontenttype, dataschema, extensions, severity, tags, data_size,
  (extract(epoch from receive_time) * 1000)::bigint as accept_time, principal, trace_parent, trace_state, topic, partition, "offset"`;

/** As {@link SUMMARY_COLUMNS}, with the payload. */
export const EVENT_COLUMNS: string = `${SUMMARY_COLUMNS}, data, data_type_url`;

/** A row of {@link SUMMARY_COLUMNS}, as pg gives it. */
export interface SummaryRow {
  readonly source: string;
  readonly id: string;
  readonly type: string;
  readonly subject: string | null;
  readonly time_text: string | null;
  readonly datacontenttype: string | null;
  readonly dataschema: string | null;
  readonly extensions: Readonly<Record<string, string>>;
  readonly severity: number | null;
  readonly tags: readonly string[];
  readonly data_size: number;
  readonly accept_time: string;
  readonly principal: string;
  readonly trace_parent: string | null;
  readonly trace_state: string | null;
  readonly topic: string;
  readonly partition: number;
  readonly offset: string;
}

/** A row with its payload. */
export interface EventRow extends SummaryRow {
  readonly data: Buffer | null;
  readonly data_type_url: string | null;
}

/** The event of a row, in canonical form, exactly as it was stored. */
export function toSummary(row: SummaryRow): EventSummary {
  return {
    event: {
      id: row.id,
      source: row.source,
      type: row.type,
      subject: row.subject ?? undefined,
      time: row.time_text === null ? undefined : parseTimestamp(row.time_text),
      datacontenttype: row.datacontenttype ?? undefined,
      dataschema: row.dataschema ?? undefined,
      extensions: new Map(Object.entries(row.extensions).toSorted(([a], [b]) => (a < b ? -1 : 1))),
    },
    acceptTime: Number(row.accept_time),
    principal: row.principal,
    traceParent: row.trace_parent ?? undefined,
    traceState: row.trace_state ?? undefined,
    position: { topic: row.topic, partition: row.partition, offset: BigInt(row.offset) },
    dataSize: row.data_size,
    severity: row.severity ?? undefined,
    tags: row.tags,
  };
}

/** As {@link toSummary}, with the payload's exact bytes. */
export function toStoredEvent(row: EventRow): StoredEvent {
  const { event, acceptTime, principal, traceParent, traceState, position } = toSummary(row);
  const data =
    row.data === null
      ? undefined
      : {
          bytes: new Uint8Array(row.data.buffer, row.data.byteOffset, row.data.byteLength),
          protoType: row.data_type_url ?? undefined,
        };
  return { event: { ...event, data }, acceptTime, principal, traceParent, traceState, position };
}
