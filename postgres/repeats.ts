import { type StoredEvent } from "#core/event.ts";
import { parseTimestamp } from "#core/timestamp.ts";

import { encodeArray } from "./binary-format.ts";
import { extensionsJson, occurredAt, partsOf } from "./event-values.ts";
import { type Tx } from "./tx.ts";

/** An event that was offered and whose key (source, id, occurred_at) had a row. */
export interface Repeat {
  readonly event: StoredEvent;
  /** The row is of this very record: it was stored before, off the same log, and is only read again. */
  readonly isSamePosition: boolean;
  /** The payload or an attribute is not the row's: two events have one name. Never of the same record. */
  readonly differs: boolean;
}

const KEYS = `unnest($1::text[], $2::text[], $3::timestamptz[]) with ordinality as offered (source, id, occurred_at, place)`;
const JOIN = `join events.event as stored using (source, id, occurred_at)`;

const PLACES = `
select place, stored.topic, stored.partition, stored."offset" from ${KEYS} ${JOIN} where stored_at >= $4::timestamptz`;

const COMPARE = `
select place, stored.time_text,
  (stored.type, stored.subject, stored.dataschema, stored.datacontenttype, stored.data_type_url, stored.extensions, stored.data)
    is distinct from (other.type, other.subject, other.dataschema, other.datacontenttype, other.data_type_url,
      other.extensions::jsonb, other.data) as differs
from unnest($1::text[], $2::text[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bytea[])
  with ordinality as other (source, id, occurred_at, type, subject, dataschema, datacontenttype, data_type_url, extensions, data, place)
${JOIN}`;

/**
 * Looks up what is there for events that were not written since their key has a row. What is read again is told by its
 * position alone; only a repeat from elsewhere is compared, in the database, so that its row's payload is not fetched. A
 * row that is gone meanwhile (retention) counts as one that did not differ. A row from before `logSince` is of another log:
 * what stands at its offsets now is another record, however alike.
 */
export async function findRepeats(
  tx: Tx,
  events: readonly StoredEvent[],
  logSince: string,
): Promise<readonly Repeat[]> {
  const { rows } = await tx.query<{ place: string; topic: string; partition: number; offset: string }>({
    name: "repeats.places",
    text: PLACES,
    values: [...keysOf(events), logSince],
  });
  const same = new Set<StoredEvent>();
  for (const row of rows) {
    const event = events[Number(row.place) - 1]!;
    const { topic, partition, offset } = event.position;
    if (row.topic === topic && row.partition === partition && BigInt(row.offset) === offset) same.add(event);
  }
  const differing = await findDiffering(
    tx,
    events.filter((event) => !same.has(event)),
  );
  return events.map((event) => ({ event, isSamePosition: same.has(event), differs: differing.has(event) }));
}

async function findDiffering(tx: Tx, events: readonly StoredEvent[]): Promise<ReadonlySet<StoredEvent>> {
  const differing = new Set<StoredEvent>();
  for (const part of partsOf(events)) {
    const texts = (valueOf: (event: StoredEvent["event"]) => string | undefined): Buffer =>
      encodeArray(
        "text",
        part.map(({ event }) => valueOf(event)),
      );
    const { rows } = await tx.query<{ place: string; time_text: string | null; differs: boolean }>({
      name: "repeats.compare",
      text: COMPARE,
      values: [
        ...keysOf(part),
        texts(({ type }) => type),
        texts(({ subject }) => subject),
        texts(({ dataschema }) => dataschema),
        texts(({ datacontenttype }) => datacontenttype),
        texts(({ data }) => data?.protoType),
        texts(extensionsJson),
        encodeArray(
          "bytea",
          part.map(({ event }) => event.data?.bytes),
        ),
      ],
    });
    for (const row of rows) {
      const event = part[Number(row.place) - 1]!;
      if (row.differs || !isSameInstant(event.event.time, row.time_text)) differing.add(event);
    }
  }
  return differing;
}

function keysOf(events: readonly StoredEvent[]): Buffer[] {
  return [
    encodeArray(
      "text",
      events.map(({ event }) => event.source),
    ),
    encodeArray(
      "text",
      events.map(({ event }) => event.id),
    ),
    encodeArray("timestamptz", events.map(occurredAt)),
  ];
}

/** The key has microseconds alone; and one instant can be written in several ways, which is no difference. */
function isSameInstant(time: StoredEvent["event"]["time"], rowText: string | null): boolean {
  const row = rowText === null ? undefined : parseTimestamp(rowText);
  return time?.seconds === row?.seconds && time?.nanos === row?.nanos;
}
