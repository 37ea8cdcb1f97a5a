import { type DeadLetterReason } from "#core/dead-letter.ts";
import { type CloudEvent, type LogPosition } from "#core/event.ts";
import { toMicros, toMicrosWithin } from "#core/timestamp.ts";

import { type ElementType, type ElementValue, encodeArray } from "./binary-format.ts";
import { occurredAt } from "./event-values.ts";
import { cutText, LETTER_TEXT_BYTES, PREVIEW_BYTES, toText } from "./record-values.ts";
import { type Repeat } from "./repeats.ts";
import { type Tx } from "./tx.ts";

/** A record that was set aside, for the index of the dead letters. */
export interface SetAsideRecord {
  /** Where the record stands that failed. */
  readonly position: LogPosition;
  readonly reason: DeadLetterReason;
  /** What was wrong, for a person. */
  readonly detail: string;
  /** When it was set aside: the letter's own time, in milliseconds since 1970. */
  readonly time: number;
  /** The record's own timestamp, in milliseconds since 1970. */
  readonly recordTime: number;
  /** Which replay of a record this was. */
  readonly attempt: number;
  readonly value: Uint8Array | null;
  /** The event, where the record had one. */
  readonly event: CloudEvent | undefined;
  /** The subject of the sender's token, where the record names one. */
  readonly principal: string | undefined;
  /** Where the letter stands in the dead-letter topic. */
  readonly letter: LogPosition;
}

/** Why a checkpoint passed offsets without a record (the column consumer.skip.kind). */
export type SkipKind =
  /** Control records, aborted transactions, what compaction took. */
  | "NO_RECORD"
  /** They left the log before they were read. */
  | "LOST"
  /** A group without a checkpoint here began at the offset that it had committed. */
  | "ELSEWHERE";

/** Offsets that a checkpoint passes without a record. */
export interface Skip {
  readonly from: bigint;
  /** One past the last; above `from`. */
  readonly to: bigint;
  readonly kind: SkipKind;
}

interface Column {
  readonly name: string;
  readonly type: ElementType;
  encode(records: readonly SetAsideRecord[]): Buffer;
}

function column<T extends ElementType>(
  name: string,
  type: T,
  valueOf: (record: SetAsideRecord) => ElementValue<T>,
): Column {
  return { name, type, encode: (records) => encodeArray(type, records.map(valueOf)) };
}

function bounded(
  name: keyof typeof LETTER_TEXT_BYTES,
  textOf: (record: SetAsideRecord) => string | undefined,
): Column {
  return column(name, "text", (record) => {
    const text = textOf(record);
    return text === undefined ? undefined : cutText(toText(text), LETTER_TEXT_BYTES[name]);
  });
}

const COLUMNS: readonly Column[] = [
  column("topic", "text", ({ position }) => position.topic),
  column("partition", "int4", ({ position }) => position.partition),
  column("offset", "int8", ({ position }) => position.offset),
  column("time", "timestamptz", ({ time }) => toMicrosWithin(time)),
  column("record_time", "timestamptz", ({ recordTime }) => toMicrosWithin(recordTime)),
  column("event_time", "timestamptz", ({ event }) => event?.time && toMicros(event.time)),
  column("attempt", "int4", ({ attempt }) => attempt),
  column("reason", "text", ({ reason }) => reason),
  bounded("detail", ({ detail }) => detail),
  column("letter_topic", "text", ({ letter }) => letter.topic),
  column("letter_partition", "int4", ({ letter }) => letter.partition),
  column("letter_offset", "int8", ({ letter }) => letter.offset),
  column("value_size", "int4", ({ value }) => value?.byteLength),
  bounded("source", ({ event }) => event?.source),
  bounded("id", ({ event }) => event?.id),
  bounded("type", ({ event }) => event?.type),
  bounded("subject", ({ event }) => event?.subject),
  bounded("principal", ({ principal }) => principal),
  column("preview", "bytea", ({ value }) => value?.subarray(0, PREVIEW_BYTES)),
];

// Of two letters with one key compaction keeps the later: the row points to that one, and is the first's in all else, unless
// that is of another log, whose letter is gone with this one.
const INSERT_LETTERS = `
insert into consumer.dead_letter as known (group_id, ${COLUMNS.map(({ name }) => `"${name}"`).join(", ")})
select $1, * from unnest(${COLUMNS.map(({ type }, index) => `$${index + 3}::${type}[]`).join(", ")})
on conflict (group_id, topic, partition, "offset") do update
set ${COLUMNS.map(({ name }) =>
  name.startsWith("letter_")
    ? `${name} = excluded.${name}`
    : `"${name}" = case when known.recorded_at < $2 then excluded."${name}" else known."${name}" end`,
).join(", ")},
  replays = case when known.recorded_at < $2 then 0 else known.replays end,
  replayed_at = case when known.recorded_at < $2 then null else known.replayed_at end,
  recorded_at = case when known.recorded_at < $2 then now() else known.recorded_at end
where known.recorded_at < $2 or (known.letter_topic, known.letter_partition, known.letter_offset)
  is distinct from (excluded.letter_topic, excluded.letter_partition, excluded.letter_offset)`;

/**
 * Writes the index rows of a group's dead letters. A record that has one already keeps it: its letter was written twice
 * (a kill, or a rewind), and the row points to the later from then on. One from before `logSince`, as of a claim, is of a
 * record of another log at the same offset, and is replaced. None of them is refused by PostgreSQL: what it cannot hold is
 * replaced here, and stands whole in the letter.
 */
export async function insertDeadLetters(
  tx: Tx,
  group: string,
  records: readonly SetAsideRecord[],
  logSince = "-infinity",
): Promise<void> {
  if (records.length === 0) return;
  const values = [group, logSince, ...COLUMNS.map((each) => each.encode(records))];
  await tx.query({ name: "accounting.dead-letters", text: INSERT_LETTERS, values });
}

const INSERT_DUPLICATES = `
insert into events.duplicate as known (topic, partition, "offset", source, id, occurred_at, differs)
select topic, partition, "offset", source, id, occurred_at, differs = 1
from unnest($1::text[], $2::int4[], $3::int8[], $4::text[], $5::text[], $6::timestamptz[], $7::int2[])
  as repeat (topic, partition, "offset", source, id, occurred_at, differs)
on conflict (topic, partition, "offset") do update
set source = excluded.source, id = excluded.id, occurred_at = excluded.occurred_at, differs = excluded.differs, recorded_at = now()
where known.recorded_at < $8`;

/**
 * Writes a row for each repeat that is a record of its own; what is only read again is none, and has its row. A row from
 * before `logSince`, as of a claim, is of a record of another log, and is replaced.
 */
export async function insertDuplicates(tx: Tx, repeats: readonly Repeat[], logSince: string): Promise<void> {
  const others = repeats.filter(({ isSamePosition }) => !isSamePosition);
  if (others.length === 0) return;
  const list = <T extends ElementType>(type: T, valueOf: (repeat: Repeat) => ElementValue<T>): Buffer =>
    encodeArray(type, others.map(valueOf));
  await tx.query({
    name: "accounting.duplicates",
    text: INSERT_DUPLICATES,
    values: [
      list("text", ({ event }) => event.position.topic),
      list("int4", ({ event }) => event.position.partition),
      list("int8", ({ event }) => event.position.offset),
      list("text", ({ event }) => event.event.source),
      list("text", ({ event }) => event.event.id),
      list("timestamptz", ({ event }) => occurredAt(event)),
      list("int2", ({ differs }) => Number(differs)),
      logSince,
    ],
  });
}

// The same range again, after a lost COMMIT or in other portions, is the same row; unless that is of another log.
const INSERT_SKIPS = `
insert into consumer.skip as known (group_id, topic, partition, from_offset, to_offset, kind)
select $1, $2, $3, * from unnest($4::int8[], $5::int8[], $6::text[])
on conflict (group_id, topic, partition, from_offset) do update
set to_offset = excluded.to_offset, kind = case when known.recorded_at < $7 then excluded.kind else known.kind end,
  recorded_at = case when known.recorded_at < $7 then now() else known.recorded_at end
where known.recorded_at < $7 or known.to_offset < excluded.to_offset`;

/** Writes a row for each range of a claim's partition that brought no record. */
export async function insertSkips(
  tx: Tx,
  {
    group,
    topic,
    partition,
    logSince,
  }: Readonly<Record<"group" | "topic" | "logSince", string>> & { readonly partition: number },
  skips: readonly Skip[],
): Promise<void> {
  if (skips.length === 0) return;
  await tx.query({
    name: "accounting.skips",
    text: INSERT_SKIPS,
    values: [
      group,
      topic,
      partition,
      encodeArray(
        "int8",
        skips.map(({ from }) => from),
      ),
      encodeArray(
        "int8",
        skips.map(({ to }) => to),
      ),
      encodeArray(
        "text",
        skips.map(({ kind }) => kind),
      ),
      logSince,
    ],
  });
}
