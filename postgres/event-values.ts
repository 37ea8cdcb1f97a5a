import { type CloudEvent, type StoredEvent } from "#core/event.ts";
import { toMicros } from "#core/timestamp.ts";

/** What one statement carries at most, unless a single event is larger: it bounds the memory on either side. */
const STATEMENT_BYTES = 4 * 1024 * 1024;

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

/** Cuts a list into parts of what one statement carries at most. */
export function* partsOf(events: readonly StoredEvent[]): Generator<readonly StoredEvent[]> {
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

/** The extension attributes as a JSON object. */
export function extensionsJson({ extensions }: Pick<CloudEvent, "extensions">): string {
  return JSON.stringify(Object.fromEntries(extensions));
}

/** Milliseconds as microseconds. */
export function millisToMicros(millis: number): bigint {
  return BigInt(millis) * 1_000n;
}
