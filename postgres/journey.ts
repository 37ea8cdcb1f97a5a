import { type DeadLetterIdentity } from "#core/dead-letter-name.ts";
import { type EventIdentity } from "#core/event-name.ts";
import { type LogPosition } from "#core/event.ts";
import { idTerm } from "#core/terms.ts";

import { encodeArray, encodeTimestamptz } from "./binary-format.ts";
import { type EventSummary, SUMMARY_COLUMNS, type SummaryRow, toSummary } from "./event-row.ts";
import { INCOMPLETE } from "./filter-text.ts";
import { MONTHS } from "./partitions.ts";
import { type Database } from "./pool.ts";
import { read } from "./read.ts";
import { cutText, LETTER_TEXT_BYTES, toText } from "./record-values.ts";

// What the store knows of one event. Every statement reads ranges of indexes, each of at most MOST rows. Times are microseconds
// since 1970; `key` is the time that tells events of one name apart.

/** The most rows of a kind that are told of. */
export const MOST = 100;
/** Repeats of one name that are looked at for the first ones; they come about in the order of their recording. */
const MOST_REPEATS = 1_000;

/** A row of events.event. */
export interface StoredFact {
  readonly event: EventSummary;
  readonly key: bigint;
  readonly storedAt: bigint;
}

/** A row of events.duplicate. */
export interface RepeatFact extends EventIdentity {
  readonly position: LogPosition;
  readonly key: bigint;
  readonly recordedAt: bigint;
  readonly differs: boolean;
}

/** A row of consumer.dead_letter. */
export interface LetterFact {
  readonly letter: DeadLetterIdentity;
  readonly reason: string;
  readonly detail: string;
  readonly attempt: number;
  readonly principal: string;
  readonly time: bigint;
  readonly recordedAt: bigint;
  /** The record's own timestamp: when it was accepted, where it came by Weir and is no replay. */
  readonly recordTime: bigint;
  readonly replays: number;
  readonly lastReplay: bigint | undefined;
  /** Of the event, where the record had one. */
  readonly event: EventIdentity | undefined;
  /** undefined where the record had no event. */
  readonly key: bigint | undefined;
}

/** Whether what the index of the dead letters keeps of a name is of this one: of a name that is too long its beginning. */
export function isKeptOf(kept: EventIdentity, name: EventIdentity): boolean {
  return (["source", "id"] as const).every(
    (part) => kept[part] === cutText(toText(name[part]), LETTER_TEXT_BYTES[part]),
  );
}

/** A row of consumer.replay. */
export interface ReplayFact {
  readonly letter: DeadLetterIdentity;
  readonly position: LogPosition;
  readonly attempt: number;
  readonly time: bigint;
  readonly principal: string;
  readonly cause: string;
}

/** A row of consumer.skip. */
export interface SkipFact {
  readonly from: bigint;
  /** One past the last. */
  readonly to: bigint;
  readonly kind: string;
  readonly recordedAt: bigint;
}

/** What is known by an event's name. */
export interface NamedFacts {
  /** In the order of acceptance. */
  readonly stored: readonly StoredFact[];
  /** The first ones. */
  readonly repeats: readonly RepeatFact[];
  readonly letters: readonly LetterFact[];
  /** There is more of one of them. */
  readonly truncated: boolean;
}

/** What is known of places on the log. */
export interface PlacedFacts {
  readonly stored: readonly StoredFact[];
  readonly repeats: readonly RepeatFact[];
  readonly letters: readonly LetterFact[];
  /** Of the letters at the places, and of the records at the places that are replays. */
  readonly replays: readonly ReplayFact[];
  readonly truncated: boolean;
}

const MICROS = (column: string, name: string): string =>
  `(extract(epoch from ${column}) * 1000000)::bigint as ${name}`;

const STORED = `${SUMMARY_COLUMNS}, ${MICROS("occurred_at", "key")}, ${MICROS("stored_at", "stored_micros")}`;
const REPEAT = `topic, partition, "offset", source, id, differs, ${MICROS("occurred_at", "key")}, ${MICROS("recorded_at", "recorded_micros")}`;
const LETTER = `group_id, topic, partition, "offset", reason, detail, attempt, principal, replays, source, id,
  ${MICROS("time", "time")}, ${MICROS("recorded_at", "recorded_micros")}, ${MICROS("record_time", "record_micros")}, ${MICROS("replayed_at", "replay_micros")},
  ${MICROS("coalesce(event_time, record_time)", "key")}`;
const REPLAY = `group_id, topic, partition, "offset", attempt, to_topic, to_partition, to_offset, principal, cause,
  ${MICROS("replayed_at", "time")}`;

const AT = `unnest($1::text[], $2::int[], $3::bigint[]) as place (t, p, o)`;
/** Rows at places: one look into the index for each, whatever PostgreSQL expects of the tables. */
function eachAt(columns: string, from: string): string {
  return `select ${columns} from ${AT} cross join lateral (select * from ${from} limit ${MOST}) as found limit ${MOST + 1}`;
}

/** What a statement looks for. */
export type StatementName =
  | "named"
  | "keyed"
  | "repeats"
  | "letters"
  | "storedAt"
  | "repeatsAt"
  | "lettersAt"
  | "replaysOf"
  | "replaysTo"
  | "skip";

/** The statements, for the tests of their plans. */
export const STATEMENTS: Readonly<Record<StatementName, string>> = {
  // The term leads to the rows with the id, but to those that have not all of their terms.
  named: `select ${STORED} from events.event
    where source = $1 and id = $2 and (terms @> $3::int4[] or ${INCOMPLETE})
    order by receive_time, partition, "offset" limit ${MOST + 1}`,
  keyed: `select ${STORED} from events.event where source = $1 and id = $2 and occurred_at = $3::timestamptz`,
  repeats: `select ${REPEAT} from (
      select * from events.duplicate where source = $1 and id = $2 limit ${MOST_REPEATS}
    ) as found order by recorded_at, topic, partition, "offset" limit ${MOST + 1}`,
  letters: `select ${LETTER} from consumer.dead_letter where source = $1 and id = $2 limit ${MOST + 1}`,
  storedAt: eachAt(STORED, `events.event where partition = p and "offset" = o and topic = t`),
  repeatsAt: eachAt(REPEAT, `events.duplicate where partition = p and "offset" = o and topic = t`),
  lettersAt: eachAt(
    LETTER,
    `consumer.dead_letter where group_id = $4 and topic = t and partition = p and "offset" = o`,
  ),
  replaysOf: eachAt(
    REPLAY,
    `consumer.replay where group_id = $4 and topic = t and partition = p and "offset" = o`,
  ),
  replaysTo: eachAt(REPLAY, `consumer.replay where to_topic = t and to_partition = p and to_offset = o`),
  // Ranges may lie in each other, where a stretch was read anew in other portions.
  skip: `select from_offset, to_offset, kind, ${MICROS("recorded_at", "recorded_micros")} from (
      select * from consumer.skip where group_id = $1 and topic = $2 and partition = $3 and from_offset <= $4
      order by from_offset desc limit ${MOST}
    ) as below where to_offset > $4 order by recorded_at desc limit 1`,
};

/**
 * What is known of an event by its name, and by its time where that is given: one more row, if need be.
 *
 * @throws QueryTimeoutError where PostgreSQL did not answer within the pool's statement timeout.
 */
export async function factsByName(
  db: Database,
  { source, id, time }: EventIdentity & { readonly time: bigint | undefined },
  signal: AbortSignal,
): Promise<NamedFacts> {
  const query = <R extends object>(name: StatementName, values: readonly unknown[]) =>
    read<R>(db, { name: `journey.${name}`, text: STATEMENTS[name], values: [...values] }, signal);
  const named = await query<StoredRow>("named", [source, id, [idTerm(id)]]);
  const keyed =
    time === undefined ? [] : await query<StoredRow>("keyed", [source, id, encodeTimestamptz(time)]);
  const repeats = await query<RepeatRow>("repeats", [source, id]);
  const letters = await query<LetterRow>("letters", [source, id]);
  const isKnown = ({ key }: StoredRow): boolean => named.slice(0, MOST).some((row) => row.key === key);
  return {
    stored: [...named.slice(0, MOST), ...keyed.filter((row) => !isKnown(row))].map(toStored),
    repeats: repeats.slice(0, MOST).map(toRepeat),
    letters: letters.slice(0, MOST).map(toLetter),
    truncated: [named, repeats, letters].some(({ length }) => length > MOST),
  };
}

/**
 * What is known of places on the log, and of the replays that lead there and away.
 *
 * @param group whose dead letters are meant.
 * @throws QueryTimeoutError as {@link factsByName}.
 */
export async function factsByPlace(
  db: Database,
  group: string,
  places: readonly LogPosition[],
  signal: AbortSignal,
): Promise<PlacedFacts> {
  const at = [
    encodeArray(
      "text",
      places.map(({ topic }) => topic),
    ),
    encodeArray(
      "int4",
      places.map(({ partition }) => partition),
    ),
    encodeArray(
      "int8",
      places.map(({ offset }) => offset),
    ),
  ];
  const query = <R extends object>(name: StatementName, ...more: readonly string[]) =>
    read<R>(db, { name: `journey.${name}`, text: STATEMENTS[name], values: [...at, ...more] }, signal);
  const stored = await query<StoredRow>("storedAt");
  const repeats = await query<RepeatRow>("repeatsAt");
  const letters = await query<LetterRow>("lettersAt", group);
  const onward = await query<ReplayRow>("replaysOf", group);
  const backward = await query<ReplayRow>("replaysTo");
  const all = [stored, repeats, letters, onward, backward];
  return {
    stored: stored.slice(0, MOST).map(toStored),
    repeats: repeats.slice(0, MOST).map(toRepeat),
    letters: letters.slice(0, MOST).map(toLetter),
    replays: [...onward.slice(0, MOST), ...backward.slice(0, MOST)].map(toReplay),
    truncated: all.some(({ length }) => length > MOST),
  };
}

/** The last skip of a group that covers a place; undefined where none does. */
export async function skipAt(
  db: Database,
  group: string,
  { topic, partition, offset }: LogPosition,
  signal: AbortSignal,
): Promise<SkipFact | undefined> {
  const values = [group, topic, partition, offset];
  const statement = { name: "journey.skip", text: STATEMENTS.skip, values };
  const [row] = await read<SkipRow>(db, statement, signal);
  return (
    row && {
      from: BigInt(row.from_offset),
      to: BigInt(row.to_offset),
      kind: row.kind,
      recordedAt: BigInt(row.recorded_micros),
    }
  );
}

/** The first month of which events are kept, such as "2026-08"; undefined where there are no months. */
export async function firstMonth(db: Database, signal: AbortSignal): Promise<string | undefined> {
  const [row] = await read<{ readonly month: string | null }>(
    db,
    {
      name: "journey.first-month",
      text: `select min(replace(substr(relname, 7), '_', '-')) as month from ${MONTHS}`,
    },
    signal,
  );
  return row?.month ?? undefined;
}

interface PlaceRow {
  readonly topic: string;
  readonly partition: number;
  readonly offset: string;
}

interface StoredRow extends SummaryRow {
  readonly key: string;
  readonly stored_micros: string;
}

interface RepeatRow extends PlaceRow, EventIdentity {
  readonly differs: boolean;
  readonly key: string;
  readonly recorded_micros: string;
}

interface LetterRow extends PlaceRow {
  readonly group_id: string;
  readonly reason: string;
  readonly detail: string;
  readonly attempt: number;
  readonly principal: string | null;
  readonly replays: number;
  readonly source: string | null;
  readonly id: string | null;
  readonly time: string;
  readonly recorded_micros: string;
  readonly record_micros: string;
  readonly replay_micros: string | null;
  readonly key: string;
}

interface ReplayRow extends PlaceRow {
  readonly group_id: string;
  readonly attempt: number;
  readonly to_topic: string;
  readonly to_partition: number;
  readonly to_offset: string;
  readonly principal: string;
  readonly cause: string;
  readonly time: string;
}

interface SkipRow {
  readonly from_offset: string;
  readonly to_offset: string;
  readonly kind: string;
  readonly recorded_micros: string;
}

function placeOf({ topic, partition, offset }: PlaceRow): LogPosition {
  return { topic, partition, offset: BigInt(offset) };
}

function toStored(row: StoredRow): StoredFact {
  return { event: toSummary(row), key: BigInt(row.key), storedAt: BigInt(row.stored_micros) };
}

function toRepeat(row: RepeatRow): RepeatFact {
  const { source, id, differs } = row;
  return {
    source,
    id,
    differs,
    position: placeOf(row),
    key: BigInt(row.key),
    recordedAt: BigInt(row.recorded_micros),
  };
}

function toLetter(row: LetterRow): LetterFact {
  const { source, id, reason, detail, attempt, replays, principal } = row;
  const event = source === null || id === null ? undefined : { source, id };
  return {
    letter: { group: row.group_id, ...placeOf(row) },
    reason,
    detail,
    attempt,
    replays,
    principal: principal ?? "",
    time: BigInt(row.time),
    recordedAt: BigInt(row.recorded_micros),
    recordTime: BigInt(row.record_micros),
    lastReplay: row.replay_micros === null ? undefined : BigInt(row.replay_micros),
    event,
    key: event && BigInt(row.key),
  };
}

function toReplay(row: ReplayRow): ReplayFact {
  const { attempt, principal, cause } = row;
  return {
    letter: { group: row.group_id, ...placeOf(row) },
    position: { topic: row.to_topic, partition: row.to_partition, offset: BigInt(row.to_offset) },
    attempt,
    principal,
    cause,
    time: BigInt(row.time),
  };
}
