import { type DeadLetterIdentity } from "#core/dead-letter-name.ts";
import { type LogPosition } from "#core/event.ts";
import { toMicrosWithin } from "#core/timestamp.ts";

import { insertDeadLetters, type SetAsideRecord } from "./accounting.ts";
import { type ElementType, type ElementValue, encodeArray } from "./binary-format.ts";
import { type Database } from "./pool.ts";
import { cutText, LETTER_TEXT_BYTES, PREVIEW_BYTES, toText } from "./record-values.ts";
import { transaction, type Tx } from "./tx.ts";

/** How far a partition of the dead-letter topic has been read. */
export interface LetterScan {
  readonly next: bigint;
  /** When it was at the log's start. */
  readonly beganAt: Date;
}

/** A record of the dead-letter topic that is no dead letter of Weir's. */
export interface ForeignRecord extends LogPosition {
  /** Milliseconds since 1970. */
  readonly timestamp: number;
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  /** Why it is none, for a person. */
  readonly why: string;
}

/** What the records of a stretch of the dead-letter topic say that the index has not. */
export interface Corrections {
  /** Letters without a row, or whose row names an earlier place; with the groups that failed on their records. */
  readonly letters: readonly { readonly group: string; readonly record: SetAsideRecord }[];
  readonly foreign: readonly ForeignRecord[];
}

/** Where the scan of a partition is; undefined where there was none. */
export async function findScan(
  db: Database,
  { topic, partition }: Pick<LogPosition, "topic" | "partition">,
): Promise<LetterScan | undefined> {
  const { rows } = await db.pool.query<{ next_offset: string; began_at: Date }>({
    name: "reconciliation.scan",
    text: "select next_offset, began_at from consumer.letter_scan where topic = $1 and partition = $2",
    values: [topic, partition],
  });
  const [row] = rows;
  return row && { next: BigInt(row.next_offset), beganAt: row.began_at };
}

const MOVE = `
insert into consumer.letter_scan as scan (topic, partition, next_offset, began_at) values ($1, $2, $3, $4)
on conflict (topic, partition) do update
set next_offset = excluded.next_offset, began_at = excluded.began_at, updated_at = now()
where scan.next_offset = $5`;

/**
 * Puts the index right and moves the scan, in one transaction. Answers false where another process has moved it meanwhile:
 * then nothing was written.
 */
export async function saveCorrections(
  db: Database,
  at: Pick<LogPosition, "topic" | "partition"> & {
    readonly before: LetterScan | undefined;
    readonly after: LetterScan;
  },
  { letters, foreign }: Corrections,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const { topic, partition, before, after } = at;
    const { rowCount } = await tx.query({
      name: "reconciliation.move",
      text: MOVE,
      values: [topic, partition, after.next, after.beganAt, before?.next],
    });
    if (rowCount !== 1) return false;
    for (const [group, own] of Map.groupBy(letters, (letter) => letter.group)) {
      await insertDeadLetters(
        tx,
        group,
        own.map(({ record }) => record),
      );
    }
    await insertForeign(tx, foreign);
    return true;
  });
}

async function insertForeign(tx: Tx, records: readonly ForeignRecord[]): Promise<void> {
  if (records.length === 0) return;
  const list = <T extends ElementType>(
    type: T,
    valueOf: (record: ForeignRecord) => ElementValue<T>,
  ): Buffer => encodeArray(type, records.map(valueOf));
  await tx.query({
    name: "reconciliation.foreign",
    text: `insert into consumer.foreign_letter (topic, partition, "offset", time, why, value_size, key_preview, preview)
      select * from unnest($1::text[], $2::int4[], $3::int8[], $4::timestamptz[], $5::text[], $6::int4[], $7::bytea[], $8::bytea[])
      on conflict do nothing`,
    values: [
      list("text", ({ topic }) => topic),
      list("int4", ({ partition }) => partition),
      list("int8", ({ offset }) => offset),
      list("timestamptz", ({ timestamp }) => toMicrosWithin(timestamp)),
      list("text", ({ why }) => cutText(toText(why), LETTER_TEXT_BYTES.detail)),
      list("int4", ({ value }) => value?.byteLength),
      list("bytea", ({ key }) => key?.subarray(0, PREVIEW_BYTES)),
      list("bytea", ({ value }) => value?.subarray(0, PREVIEW_BYTES)),
    ],
  });
}

/** Removes the rows of foreign records that have left the log, below `logStart`. */
export async function forgetForeign(
  db: Database,
  { topic, partition }: Pick<LogPosition, "topic" | "partition">,
  logStart: bigint,
): Promise<void> {
  await db.pool.query({
    name: "reconciliation.forget",
    text: 'delete from consumer.foreign_letter where topic = $1 and partition = $2 and "offset" < $3',
    values: [topic, partition, logStart],
  });
}

/**
 * Which of these records their group has passed: those at or beyond its high_water are a worker's to account for, in the
 * transaction that passes them. A record of a partition without a checkpoint counts as passed.
 */
export async function filterPassed<T extends DeadLetterIdentity>(
  db: Database,
  records: readonly T[],
): Promise<readonly T[]> {
  if (records.length === 0) return [];
  const { rows } = await db.pool.query<{
    group_id: string;
    topic: string;
    partition: number;
    high_water: string | null;
  }>({
    name: "reconciliation.high-waters",
    text: "select group_id, topic, partition, high_water from consumer.checkpoint where group_id = any($1::text[])",
    values: [[...new Set(records.map(({ group }) => group))]],
  });
  const keyOf = (group: string, topic: string, partition: number): string =>
    JSON.stringify([group, topic, partition]);
  const waters = new Map(
    rows.map((row) => [keyOf(row.group_id, row.topic, row.partition), BigInt(row.high_water ?? 0)]),
  );
  return records.filter(({ group, topic, partition, offset }) => {
    const water = waters.get(keyOf(group, topic, partition));
    return water === undefined || offset < water;
  });
}
