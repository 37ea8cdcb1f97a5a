import { type StoredEvent } from "#core/event.ts";

import {
  insertDeadLetters,
  insertDuplicates,
  insertSkips,
  type SetAsideRecord,
  type Skip,
} from "./accounting.ts";
import { encodeEvents, insertEvents } from "./events.ts";
import { type Database } from "./pool.ts";
import { transaction, type Tx } from "./tx.ts";

/** The right to write for one partition of a group, until another member takes the partition over. */
export interface Claim {
  readonly group: string;
  readonly topic: string;
  readonly partition: number;
  /** Raised by each take-over; a write under an older one is fenced. */
  readonly epoch: bigint;
  /** Raised only by a restart of the group. */
  readonly generation: bigint;
  /** The offset to read next, as of the take-over; undefined where nothing was ever stored. */
  readonly nextOffset: bigint | undefined;
  /** The highest nextOffset there ever was on this log. */
  readonly highWater: bigint | undefined;
  /** Which log its offsets are of, as of the take-over. undefined: not known yet; {@link REFUSED_LOG}: none that there is. */
  readonly logId: string | undefined;
  /** Since when that log is read, as PostgreSQL writes a time: what was recorded before is of another one. */
  readonly logSince: string;
  /** Who took it. */
  readonly owner: string;
}

/** Stands for the log of a partition whose log was not the one that was read: no topic has this id. */
export const REFUSED_LOG = "";

/** What a stretch of a partition came to. Every offset of it is one of the three, so that each is accounted for. */
export interface Batch {
  /** The events to store. */
  readonly events: readonly StoredEvent[];
  /** The records that were set aside: their letters are durable. */
  readonly deadLetters: readonly SetAsideRecord[];
  /** What the stretch has no records for. */
  readonly skips: readonly Skip[];
  /** One past the stretch's end. */
  readonly nextOffset: bigint;
}

/** What became of a batch. */
export type PersistResult =
  | ({ readonly outcome: "stored" } & StoredCounts)
  /** Another member has taken the partition over: nothing was written, and nothing ever will be under this claim. */
  | { readonly outcome: "fenced" };

/** What became of the events of a batch that is durable. */
export interface StoredCounts {
  readonly written: number;
  /** Their key had a row of another record, with the same attributes and payload. */
  readonly duplicates: number;
  /** As duplicates, but something differed. */
  readonly conflicts: number;
  /** They were stored before: the batch, or a part of it, was offered again. */
  readonly redelivered: number;
}

const TAKE_OVER = `
insert into consumer.checkpoint as held (group_id, topic, partition, owner, epoch)
values ($1, $2, $3, $4, 1)
on conflict (group_id, topic, partition)
do update set epoch = held.epoch + 1, owner = excluded.owner, updated_at = now()
returning epoch, generation, next_offset, high_water, log_id, log_since::text`;

const SET_LOG = `
update consumer.checkpoint set log_id = $6, updated_at = now()
where group_id = $1 and topic = $2 and partition = $3 and epoch = $4 and generation = $5`;

// The epoch is checked by the statement that moves the offset, and its row stays locked until the end of the
// transaction: a take-over waits for the batch in flight and then begins after it. The same batch again, or a part of
// it, finds the offset where it must be and changes nothing but the count.
const ADVANCE = `
update consumer.checkpoint
set next_offset = greatest(next_offset, $6), high_water = greatest(high_water, $6), records = records + $7, updated_at = now()
where group_id = $1 and topic = $2 and partition = $3 and epoch = $4 and generation = $5`;

interface TakeOverRow {
  readonly epoch: string;
  readonly generation: string;
  readonly next_offset: string | null;
  readonly high_water: string | null;
  readonly log_id: string | null;
  readonly log_since: string;
}

/**
 * Takes a partition over for its new owner: from here on a former owner is fenced. Waits for a batch of the former
 * owner that is being committed, within the statement timeout.
 */
export async function takeOver(
  db: Database,
  partition: Pick<Claim, "group" | "topic" | "partition" | "owner">,
): Promise<Claim> {
  const { rows } = await db.pool.query<TakeOverRow>({
    name: "claims.take-over",
    text: TAKE_OVER,
    values: [partition.group, partition.topic, partition.partition, partition.owner],
  });
  const row = rows[0]!;
  return {
    group: partition.group,
    topic: partition.topic,
    partition: partition.partition,
    owner: partition.owner,
    epoch: BigInt(row.epoch),
    generation: BigInt(row.generation),
    nextOffset: row.next_offset === null ? undefined : BigInt(row.next_offset),
    highWater: row.high_water === null ? undefined : BigInt(row.high_water),
    logId: row.log_id ?? undefined,
    logSince: row.log_since,
  };
}

/** Notes which log a claim's offsets are of, or that it is {@link REFUSED_LOG}; false where the claim is fenced. */
export async function setLog(db: Database, claim: Claim, logId: string): Promise<boolean> {
  const { rowCount } = await db.pool.query({
    name: "claims.set-log",
    text: SET_LOG,
    values: [claim.group, claim.topic, claim.partition, claim.epoch, claim.generation, logId],
  });
  return rowCount === 1;
}

/**
 * Stores a batch and moves the checkpoint past it, in one transaction: either all of it is durable or nothing. The same
 * batch may be offered again after any error, a lost COMMIT included, whole or in parts.
 *
 * @throws what PostgreSQL or the connection said; see {@link classify} for what to do then.
 */
export async function persistBatch(db: Database, claim: Claim, batch: Batch): Promise<PersistResult> {
  const encoded = encodeEvents(batch.events);
  return transaction(db, async (tx) => {
    if (!(await advanceCheckpoint(tx, claim, batch))) return { outcome: "fenced" };
    const { written, repeated } = await insertEvents(tx, batch.events, encoded, claim.logSince);
    await insertDuplicates(tx, repeated, claim.logSince);
    await insertDeadLetters(tx, claim.group, batch.deadLetters, claim.logSince);
    await insertSkips(tx, claim, batch.skips);
    const others = repeated.filter(({ isSamePosition }) => !isSamePosition);
    const conflicts = others.filter(({ differs }) => differs).length;
    return {
      outcome: "stored",
      written: written.length,
      duplicates: others.length - conflicts,
      conflicts,
      redelivered: repeated.length - others.length,
    };
  });
}

/** Moves the checkpoint of a claim; false where the claim is fenced, and then nothing has changed. */
async function advanceCheckpoint(
  tx: Tx,
  claim: Claim,
  { events, deadLetters, nextOffset }: Batch,
): Promise<boolean> {
  const records = events.length + deadLetters.length;
  const { rowCount } = await tx.query({
    name: "claims.advance",
    text: ADVANCE,
    values: [claim.group, claim.topic, claim.partition, claim.epoch, claim.generation, nextOffset, records],
  });
  return rowCount === 1;
}
