import { type StoredEvent } from "#core/event.ts";

import { COPY_EVENTS, encodeColumns, encodeRows, INSERT_EVENTS } from "./event-columns.ts";
import { partsOf } from "./event-values.ts";
import { isUniqueViolation } from "./failures.ts";
import { findRepeats, type Repeat } from "./repeats.ts";
import { type Tx } from "./tx.ts";

export { occurredAt } from "./event-values.ts";

/** What became of events that were offered: each is in one of the two, in the order given. */
export interface Inserted {
  readonly written: readonly StoredEvent[];
  /** Those whose key has a row from before, or from an event earlier in the same list. */
  readonly repeated: readonly Repeat[];
}

/** What is worked out of events before their transaction begins, so that it does not hold a connection and locks meanwhile. */
export interface EncodedEvents {
  /** The rows of the first part; there is seldom another, and its bytes need not be held for so long. */
  readonly first: Buffer;
}

/** See {@link EncodedEvents}. */
export function encodeEvents(events: readonly StoredEvent[]): EncodedEvents {
  const [first = []] = partsOf(events);
  return { first: encodeRows(first) };
}

/**
 * Inserts what is not there yet by (source, id, occurred_at), in the order given. Where all of it is new, which is nearly
 * always, it is copied: one statement for each part. Only where a key repeats is that undone and all of it inserted again in a
 * way that absorbs repeats, with the statements that look at those. docs/decisions/persist-speed.md has what either costs.
 * `logSince`: as of a claim; usually one log is all there ever was.
 */
export async function insertEvents(
  tx: Tx,
  events: readonly StoredEvent[],
  encoded: EncodedEvents = encodeEvents(events),
  logSince = "-infinity",
): Promise<Inserted> {
  if (events.length === 0 || (await copyEvents(tx, events, encoded)))
    return { written: events, repeated: [] };
  const inserted = new Set<string>();
  for (const part of partsOf(events)) {
    const { rows } = await tx.query<{ topic: string; partition: number; offset: string }>({
      name: "events.insert",
      text: INSERT_EVENTS,
      values: encodeColumns(part),
    });
    for (const row of rows) inserted.add(`${row.offset} ${row.partition} ${row.topic}`);
  }
  const written: StoredEvent[] = [];
  const others: StoredEvent[] = [];
  for (const each of events) {
    const { offset, partition, topic } = each.position;
    // Deleted as it is met, so that what is offered twice is written once.
    (inserted.delete(`${offset} ${partition} ${topic}`) ? written : others).push(each);
  }
  return { written, repeated: await findRepeats(tx, others, logSince) };
}

/** False where a key repeats, among the events or with a row: then nothing was written. */
async function copyEvents(
  tx: Tx,
  events: readonly StoredEvent[],
  { first }: EncodedEvents,
): Promise<boolean> {
  let isFirst = true;
  try {
    for (const part of partsOf(events)) {
      if (isFirst) await tx.copy(`savepoint copied; ${COPY_EVENTS}`, first);
      else await tx.copy(COPY_EVENTS, encodeRows(part));
      isFirst = false;
    }
    return true;
  } catch (error) {
    if (!isUniqueViolation(error)) throw error;
    await tx.query({ text: "rollback to savepoint copied" });
    return false;
  }
}
