import type pg from "pg";

import { type DeadLetterIdentity } from "#core/dead-letter-name.ts";
import { type LogPosition } from "#core/event.ts";
import { type Filter } from "#core/filter/tree.ts";

import { type ElementType, type ElementValue, encodeArray, encodeTimestamptz } from "./binary-format.ts";
import { compileFilter } from "./filter.ts";
import { createParameters } from "./parameters.ts";
import { type Database } from "./pool.ts";
import { read } from "./read.ts";

/** A dead letter as the index has it; with an empty group a record of the dead-letter topic that is none of Weir's. */
export interface IndexedLetter extends DeadLetterIdentity {
  /** "" for a foreign record. */
  readonly reason: string;
  readonly detail: string;
  /** When it was set aside; with `recordTime` and `replayTime` in microseconds since 1970. */
  readonly time: bigint;
  readonly recordTime: bigint;
  readonly replayTime: bigint | undefined;
  /** Which replay of a record it was. */
  readonly attempt: number;
  /** How often it was replayed. */
  readonly replays: number;
  /** The topic that the letter is in, and where it stands there, where that is known. */
  readonly letterTopic: string;
  readonly letterPosition: LogPosition | undefined;
  /** The event's name, where the record had one. */
  readonly event: { readonly source: string; readonly id: string } | undefined;
  readonly principal: string;
  readonly valueSize: number | undefined;
  readonly preview: Uint8Array;
  /** Of a foreign record's key. */
  readonly keyPreview: Uint8Array;
}

/** A place among dead letters: set aside at a time, those of one time by topic, partition and offset. */
export interface LetterCursor extends LogPosition {
  /** Microseconds since 1970. */
  readonly time: bigint;
}

/**
 * The fields of a filter that the index of the dead letters has: of the event, where the record had one; when the record was
 * set aside (time) and its own timestamp (receive_time); and where it stands. A foreign record stands in the dead-letter
 * topic, and both of its times are its own timestamp.
 */
export const LETTER_FIELDS: readonly string[] = [
  "id",
  "source",
  "type",
  "subject",
  "time",
  "receive_time",
  "partition",
  "offset",
];

/** Which dead letters, and how many. */
export interface LetterSelection {
  /** The consumer group whose letters they are, and the topic that it writes them to, whose foreign records are among them. */
  readonly group: string;
  readonly letterTopic: string;
  /** Those set aside last first (listing), or first (replay). */
  readonly order: "newest" | "oldest";
  /** Only those of this reason. */
  readonly reason: string | undefined;
  /** Only those that match, by {@link LETTER_FIELDS} alone. */
  readonly filter: Filter | undefined;
  /** What `now` is in the filter, in milliseconds since 1970. */
  readonly now: number;
  /** Only those that were never replayed. */
  readonly unreplayed: boolean;
  /** The last that was looked at before. */
  readonly after: LetterCursor | undefined;
  /** Letters at most. */
  readonly limit: number;
  /** When to stop looking, by performance.now(); a statement that is under way goes on to its own bound. */
  readonly until: number;
}

/** What a selection found. */
export interface SelectedLetters {
  readonly letters: readonly IndexedLetter[];
  /** How many were looked at. */
  readonly scanned: number;
  /** Time ran out before it was full and all were looked at. */
  readonly truncated: boolean;
  /** Where to go on; undefined where all were looked at. */
  readonly next: LetterCursor | undefined;
}

/** How many index rows one statement looks at where not each of them is wanted. */
const CHUNK_ROWS = 5_000;

const LETTER = `select group_id, topic, partition, "offset", time, record_time, replayed_at, attempt, replays, reason, detail,
  letter_topic, letter_partition, letter_offset, source, id, type, subject, principal, value_size, preview,
  null::bytea as key_preview from consumer.dead_letter`;
const FOREIGN = `select '' collate "C", topic, partition, "offset", time, time, null, 0, 0, '' collate "C", why,
  topic, partition, "offset", null, null, null, null, null, value_size, preview, key_preview
  from consumer.foreign_letter`;
// The fields of a filter are compiled to columns of events.event: those of these names, and these.
const EVENT_NAMES = "time as occurred_at, record_time as receive_time, '' as time_text";

const MICROS = (column: string): string => `(extract(epoch from ${column}) * 1000000)::bigint`;
const COLUMNS = `group_id, topic, partition, "offset", reason, detail, attempt, replays, letter_topic, letter_partition,
  letter_offset, source, id, principal, value_size, preview, key_preview, ${MICROS("time")} as time,
  ${MICROS("record_time")} as record_time, ${MICROS("replayed_at")} as replay_time`;

/**
 * The dead letters of a selection, in its order: for listing, for a plan and for a run alike. What is filtered out does
 * not count towards the limit. It costs by how many are looked at, however many there are, and wherever it begins.
 *
 * @throws QueryTimeoutError where PostgreSQL did not answer within the pool's statement timeout.
 */
export async function selectLetters(db: Database, selection: LetterSelection): Promise<SelectedLetters> {
  const letters: IndexedLetter[] = [];
  let { after } = selection;
  let scanned = 0;
  for (;;) {
    const isFiltered = selection.unreplayed || selection.filter !== undefined;
    const chunk = isFiltered ? CHUNK_ROWS : selection.limit - letters.length + 1;
    const rows = await read<ScannedRow>(db, scanStatement({ ...selection, after }, chunk));
    const total = Number(rows.at(-1)?.total ?? 0);
    const isLast = total < chunk;
    for (const row of rows) {
      if (row.hit) letters.push(toLetter(row));
      if (letters.length === selection.limit) {
        const place = Number(row.place);
        const next = isLast && place === total ? undefined : cursorOf(row);
        return { letters, scanned: scanned + place, truncated: false, next };
      }
    }
    scanned += total;
    const last = rows.at(-1);
    if (isLast || last === undefined) return { letters, scanned, truncated: false, next: undefined };
    after = cursorOf(last);
    if (performance.now() >= selection.until) return { letters, scanned, truncated: true, next: after };
  }
}

/**
 * The statement that looks at the next `chunk` letters: its rows are those that match, and the last one whatever it is, each
 * with its place among those looked at. Equal times are a branch of their own, so that each is one range of an index.
 */
export function scanStatement(selection: LetterSelection, chunk: number): pg.QueryConfig {
  const { order, reason, unreplayed, filter, now, after } = selection;
  const parameters = createParameters();
  const { bind } = parameters;
  const limit = bind(chunk, "int");
  const letters = `${LETTER} where group_id = ${bind(selection.group, "text")}`;
  // A foreign record has no reason.
  const sources =
    reason === undefined
      ? [letters, `${FOREIGN} where topic = ${bind(selection.letterTopic, "text")}`]
      : [`${letters} and reason = ${bind(reason, "text")}`];
  const [beyond, orderBy] =
    order === "newest"
      ? ["<", `time desc, topic, partition, "offset"`]
      : [">", `time, topic, partition, "offset"`];
  const ranges = [""];
  if (after !== undefined) {
    const time = bind(encodeTimestamptz(after.time), "timestamptz");
    const place = `${bind(after.topic, "text")}, ${bind(after.partition, "int")}, ${bind(after.offset, "bigint")}`;
    ranges[0] = ` and time = ${time} and (topic, partition, "offset") > (${place})`;
    ranges.push(` and time ${beyond} ${time}`);
  }
  const branches = ranges.flatMap((range) =>
    sources.map((from) => `(${from}${range} order by ${orderBy} limit ${limit})`),
  );
  const conditions = [
    ...(unreplayed ? ["replayed_at is null"] : []),
    ...(filter === undefined ? [] : [`(${compileFilter(filter, { parameters, now })}) is true`]),
  ];
  const text = `with looked_at as (
      select *, ${EVENT_NAMES} from (${branches.join(" union all ")}) as ranges order by ${orderBy} limit ${limit}
    ),
    judged as (
      select *, row_number() over (order by ${orderBy}) as place, count(*) over () as total,
        ${conditions.join(" and ") || "true"} as hit
      from looked_at
    )
    select ${COLUMNS}, place, total, hit from judged where hit or place = total order by place`;
  return { text, values: [...parameters.values] };
}

/** The dead letters of these names; one that there is not is absent. Of any group. */
export async function findLetters(
  db: Database,
  names: readonly DeadLetterIdentity[],
): Promise<readonly IndexedLetter[]> {
  const select = `select ${COLUMNS} from`;
  const letter = `${LETTER} join ${NAMED} on group_id = g and topic = t and partition = p and "offset" = o`;
  const foreign = `${FOREIGN} join ${NAMED} on g = '' and topic = t and partition = p and "offset" = o`;
  const rows = await read<LetterRow>(db, {
    text: `${select} (${letter} union all ${foreign}) as found`,
    values: namesAsArrays(names),
  });
  return rows.map(toLetter);
}

/** How many dead letters there are. */
export interface LetterDepth {
  /** By the partition that the records came from; one without any is absent. */
  readonly partitions: readonly {
    readonly partition: number;
    readonly letters: bigint;
    readonly replayed: bigint;
  }[];
  /** Foreign records of the dead-letter topic. */
  readonly foreign: bigint;
}

/**
 * Counts a group's dead letters of a topic.
 *
 * @throws QueryTimeoutError as {@link selectLetters}.
 */
export async function countLetters(
  db: Database,
  of: { readonly group: string; readonly topic: string; readonly letterTopic: string },
): Promise<LetterDepth> {
  const [rows, [foreign]] = await Promise.all([
    read<{ partition: number; letters: string; replayed: string }>(db, {
      text: `select partition, count(*) as letters, count(replayed_at) as replayed from consumer.dead_letter
        where group_id = $1 and topic = $2 group by partition order by partition`,
      values: [of.group, of.topic],
    }),
    read<{ count: string }>(db, {
      text: "select count(*) from consumer.foreign_letter where topic = $1",
      values: [of.letterTopic],
    }),
  ]);
  return {
    partitions: rows.map(({ partition, letters, replayed }) => ({
      partition,
      letters: BigInt(letters),
      replayed: BigInt(replayed),
    })),
    foreign: BigInt(foreign!.count),
  };
}

/** Letters by their names, which the parameters are: `namesAsArrays`. */
const NAMED = `unnest($1::text[], $2::text[], $3::int[], $4::bigint[]) as named (g, t, p, o)`;

function namesAsArrays(names: readonly DeadLetterIdentity[]): Buffer[] {
  const list = <T extends ElementType>(
    type: T,
    valueOf: (name: DeadLetterIdentity) => ElementValue<T>,
  ): Buffer => encodeArray(type, names.map(valueOf));
  return [
    list("text", ({ group }) => group),
    list("text", ({ topic }) => topic),
    list("int4", ({ partition }) => partition),
    list("int8", ({ offset }) => offset),
  ];
}

/** A letter whose record is on the log again. */
export interface ReplayedLetter {
  readonly letter: DeadLetterIdentity;
  /** Which replay of the record it is, from 1 on. */
  readonly attempt: number;
  /** Where the record stands since. */
  readonly position: LogPosition;
}

/** Who had letters replayed, and by what. */
export interface ReplayCause {
  /** The subject of the caller's token. */
  readonly principal: string;
  /** The resource name of the audit entry, or of the redrive. */
  readonly cause: string;
}

// The same place again, as on a log that was made anew, is another record.
const MARK_REPLAYED = `
with marked as (
  update consumer.dead_letter set replays = replays + 1, replayed_at = now() from ${NAMED}
  where group_id = g and topic = t and partition = p and "offset" = o
)
insert into consumer.replay
  (group_id, topic, partition, "offset", attempt, to_topic, to_partition, to_offset, principal, cause)
select *, $9, $10 from unnest($1::text[], $2::text[], $3::int[], $4::bigint[], $5::int[], $6::text[], $7::int[], $8::bigint[])
on conflict (to_topic, to_partition, to_offset) do update
set replayed_at = now(), group_id = excluded.group_id, topic = excluded.topic, partition = excluded.partition,
  "offset" = excluded."offset", attempt = excluded.attempt, principal = excluded.principal, cause = excluded.cause`;

/** The statement that notes that the records of letters were published again, now: on each letter, and where they are. */
export function markingReplayed(
  replayed: readonly ReplayedLetter[],
  { principal, cause }: ReplayCause,
): pg.QueryConfig {
  const list = <T extends ElementType>(
    type: T,
    valueOf: (replay: ReplayedLetter) => ElementValue<T>,
  ): Buffer => encodeArray(type, replayed.map(valueOf));
  return {
    name: "dead-letters.mark-replayed",
    text: MARK_REPLAYED,
    values: [
      ...namesAsArrays(replayed.map(({ letter }) => letter)),
      list("int4", ({ attempt }) => attempt),
      list("text", ({ position }) => position.topic),
      list("int4", ({ position }) => position.partition),
      list("int8", ({ position }) => position.offset),
      principal,
      cause,
    ],
  };
}

interface LetterRow {
  readonly group_id: string;
  readonly topic: string;
  readonly partition: number;
  readonly offset: string;
  readonly reason: string;
  readonly detail: string;
  readonly attempt: number;
  readonly replays: number;
  readonly letter_topic: string;
  readonly letter_partition: number | null;
  readonly letter_offset: string | null;
  readonly source: string | null;
  readonly id: string | null;
  readonly principal: string | null;
  readonly value_size: number | null;
  readonly preview: Buffer | null;
  readonly key_preview: Buffer | null;
  readonly time: string;
  readonly record_time: string;
  readonly replay_time: string | null;
}

interface ScannedRow extends LetterRow {
  readonly place: string;
  readonly total: string;
  readonly hit: boolean;
}

const NO_BYTES = new Uint8Array();

function toLetter(row: LetterRow): IndexedLetter {
  const { letter_topic: letterTopic, letter_partition: partition, letter_offset: offset, source, id } = row;
  const isPlaced = partition !== null && offset !== null;
  return {
    group: row.group_id,
    topic: row.topic,
    partition: row.partition,
    offset: BigInt(row.offset),
    reason: row.reason,
    detail: row.detail,
    time: BigInt(row.time),
    recordTime: BigInt(row.record_time),
    replayTime: row.replay_time === null ? undefined : BigInt(row.replay_time),
    attempt: row.attempt,
    replays: row.replays,
    letterTopic,
    letterPosition: isPlaced ? { topic: letterTopic, partition, offset: BigInt(offset) } : undefined,
    event: source === null || id === null ? undefined : { source, id },
    principal: row.principal ?? "",
    valueSize: row.value_size ?? undefined,
    preview: row.preview ?? NO_BYTES,
    keyPreview: row.key_preview ?? NO_BYTES,
  };
}

function cursorOf({ time, topic, partition, offset }: LetterRow): LetterCursor {
  return { time: BigInt(time), topic, partition, offset: BigInt(offset) };
}
