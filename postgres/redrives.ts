import pg from "pg";

import { encodeTimestamptz } from "./binary-format.ts";
import { type LetterCursor, markingReplayed, type ReplayedLetter } from "./dead-letters.ts";
import { type Database } from "./pool.ts";
import { transaction, type Tx } from "./tx.ts";

/** RUNNING: a worker runs it, or will soon. The last two have ended for good. */
export type RedriveState = "RUNNING" | "PAUSED" | "COMPLETED" | "CANCELLED";

/** What became of letters: REPLAYED ones are on the log again; REFUSED ones Kafka did not take; the others cannot be replayed, and why. */
export type RedriveOutcome =
  | "REPLAYED"
  | "UNDECODABLE"
  | "FOREIGN_TOPIC"
  | "BUDGET_EXHAUSTED"
  | "TOO_LARGE"
  | "REFUSED";

/** Letters by outcome; what is absent is none. */
export type RedriveCounts = Readonly<Partial<Record<RedriveOutcome, number>>>;

/** What a redrive is to do. */
export interface RedriveOrder {
  readonly id: string;
  readonly group: string;
  /** In its canonical form; "" takes all. */
  readonly filter: string;
  /** Only letters of this reason. */
  readonly reason: string | undefined;
  /** Records published a second at most. */
  readonly maxPerSecond: number;
  /** The subject of the caller's token. */
  readonly startedBy: string;
}

/** A bulk replay of dead letters. Times in microseconds since 1970. */
export interface Redrive extends RedriveOrder {
  readonly state: RedriveState;
  readonly startedAt: bigint;
  readonly updatedAt: bigint;
  readonly endedAt: bigint | undefined;
  /** Only letters set aside before it are taken. */
  readonly snapshotTime: bigint;
  /** The last letter of the last chunk that is done. */
  readonly cursor: LetterCursor | undefined;
  readonly counts: RedriveCounts;
  /** Why it does not get on, for a person. */
  readonly error: string | undefined;
  /** The worker that runs it. */
  readonly owner: string | undefined;
  /** Raised by each worker that takes it over. */
  readonly epoch: bigint;
  /** Chunks in a row that were not done. */
  readonly failures: number;
}

const MICROS = (column: string): string =>
  `(extract(epoch from ${column}) * 1000000)::bigint as ${column.replace("_at", "_micros").replace("_time", "_micros")}`;
const COLUMNS = `id, group_id, state, filter, reason, max_per_second, started_by, counts, error, owner, epoch, failures,
  cursor_topic, cursor_partition, cursor_offset, ${["started_at", "updated_at", "ended_at", "snapshot_time", "cursor_time"].map(MICROS).join(", ")}`;

interface RedriveRow {
  readonly id: string;
  readonly group_id: string;
  readonly state: RedriveState;
  readonly filter: string;
  readonly reason: string | null;
  readonly max_per_second: number;
  readonly started_by: string;
  readonly counts: RedriveCounts;
  readonly error: string | null;
  readonly owner: string | null;
  readonly epoch: string;
  readonly failures: number;
  readonly cursor_topic: string | null;
  readonly cursor_partition: number | null;
  readonly cursor_offset: string | null;
  readonly started_micros: string;
  readonly updated_micros: string;
  readonly ended_micros: string | null;
  readonly snapshot_micros: string;
  readonly cursor_micros: string | null;
}

/**
 * Begins a redrive of the letters that were set aside by now. `begun` is undefined where one of the group has not ended:
 * that one is `open`.
 */
export async function startRedrive(
  db: Database,
  order: RedriveOrder,
): Promise<{ readonly begun: Redrive } | { readonly begun: undefined; readonly open: string | undefined }> {
  try {
    const { rows } = await db.pool.query<RedriveRow>({
      text: `insert into admin.redrive (id, group_id, state, filter, reason, max_per_second, dry_run, started_by, snapshot_time)
        values ($1, $2, 'RUNNING', $3, $4, $5, false, $6, clock_timestamp()) returning ${COLUMNS}`,
      values: [order.id, order.group, order.filter, order.reason, order.maxPerSecond, order.startedBy],
    });
    return { begun: toRedrive(rows[0]!) };
  } catch (error) {
    if (!(error instanceof pg.DatabaseError && error.constraint === "redrive_open_idx")) throw error;
    const { rows } = await db.pool.query<{ id: string }>({
      text: "select id from admin.redrive where group_id = $1 and ended_at is null",
      values: [order.group],
    });
    return { begun: undefined, open: rows[0]?.id };
  }
}

/** A redrive of a group; undefined where there is none of this id. */
export async function getRedrive(db: Database, group: string, id: string): Promise<Redrive | undefined> {
  const { rows } = await db.pool.query<RedriveRow>({
    text: `select ${COLUMNS} from admin.redrive where id = $1 and group_id = $2`,
    values: [id, group],
  });
  return rows[0] && toRedrive(rows[0]);
}

/** A group's redrives, begun last first, at most `limit`, after the one that began `after.time` with `after.id`. */
export async function listRedrives(
  db: Database,
  of: {
    readonly group: string;
    readonly after: { readonly time: bigint; readonly id: string } | undefined;
    readonly limit: number;
  },
): Promise<readonly Redrive[]> {
  const { group, after, limit } = of;
  const beyond = after && "and started_at <= $3::timestamptz and (started_at < $3::timestamptz or id > $4)";
  const { rows } = await db.pool.query<RedriveRow>({
    text: `select ${COLUMNS} from admin.redrive where group_id = $1 ${beyond ?? ""} order by started_at desc, id limit $2`,
    values: [group, limit, ...(after ? [encodeTimestamptz(after.time), after.id] : [])],
  });
  return rows.map(toRedrive);
}

/**
 * Pauses, resumes or cancels a redrive; what has the state already keeps it, and one that has ended stays as it is. One
 * that is resumed while it waits after a failure waits no longer.
 * Answers it as it is then, or undefined where there is none. A worker notices before its next chunk.
 */
export async function controlRedrive(
  db: Database,
  group: string,
  id: string,
  to: Exclude<RedriveState, "COMPLETED">,
): Promise<Redrive | undefined> {
  // A resumed one does not wait out what it waited for after a failure.
  await db.pool.query({
    text: `update admin.redrive set state = $3, updated_at = now(), ended_at = case when $3 = 'CANCELLED' then now() end,
        failures = case when $3 = 'RUNNING' then 0 else failures end,
        lease_until = case when owner is not null then lease_until end
      where id = $1 and group_id = $2 and ended_at is null
        and (state <> $3 or $3 = 'RUNNING' and owner is null and lease_until is not null)`,
    values: [id, group, to],
  });
  return getRedrive(db, group, id);
}

/**
 * Takes over the group's redrive that is to run and that nobody works on: who did so before is fenced from here on.
 * undefined where there is none.
 */
export async function claimRedrive(
  db: Database,
  by: { readonly group: string; readonly owner: string; readonly leaseMs: number },
): Promise<Redrive | undefined> {
  const { rows } = await db.pool.query<RedriveRow>({
    name: "redrives.claim",
    text: `update admin.redrive set owner = $2, epoch = epoch + 1, lease_until = now() + $3 * interval '1 ms'
      where group_id = $1 and ended_at is null and state = 'RUNNING'
        and (lease_until is null or lease_until < now() or owner = $2)
      returning ${COLUMNS}`,
    values: [by.group, by.owner, by.leaseMs],
  });
  return rows[0] && toRedrive(rows[0]);
}

/** Makes a claim last anew; answers the state that is wanted of the redrive by now, or "fenced". */
export async function renewClaim(
  db: Database,
  { id, epoch }: Pick<Redrive, "id" | "epoch">,
  leaseMs: number,
): Promise<RedriveState | "fenced"> {
  const { rows } = await db.pool.query<{ state: RedriveState }>({
    name: "redrives.renew",
    text: `update admin.redrive set lease_until = now() + $3 * interval '1 ms' where id = $1 and epoch = $2 returning state`,
    values: [id, epoch, leaseMs],
  });
  return rows[0]?.state ?? "fenced";
}

/** Lets a claim go, so that any worker may take the redrive over at once. */
export async function releaseClaim(
  db: Database,
  { id, epoch }: Pick<Redrive, "id" | "epoch">,
): Promise<void> {
  await db.pool.query({
    text: "update admin.redrive set owner = null, lease_until = null where id = $1 and epoch = $2",
    values: [id, epoch],
  });
}

/** What a chunk came to. */
export interface RedriveProgress {
  /** Its letters whose records are on the log again. */
  readonly replayed: readonly ReplayedLetter[];
  /** All letters of the redrive by outcome, this chunk included. */
  readonly counts: RedriveCounts;
  /** The last letter that is done with. */
  readonly cursor: LetterCursor | undefined;
  /** Nothing comes after it: the redrive is completed, unless it was paused or cancelled meanwhile. */
  readonly isLast: boolean;
  /** Why the chunk was not done whole, and how long the redrive is left alone then, in milliseconds. */
  readonly failure: { readonly error: string; readonly waitMs: number } | undefined;
  /** How long the claim lasts from now on, in milliseconds. */
  readonly leaseMs: number;
}

const SAVE = `
update admin.redrive set updated_at = now(), counts = $3, cursor_time = $4, cursor_topic = $5, cursor_partition = $6,
  cursor_offset = $7, error = $8, failures = case when $8::text is null then 0 else failures + 1 end,
  owner = case when $8::text is null then owner end,
  lease_until = now() + $9 * interval '1 ms',
  state = case when $10 and state = 'RUNNING' then 'COMPLETED' else state end,
  ended_at = case when $10 and state = 'RUNNING' then now() else ended_at end
where id = $1 and epoch = $2 returning state`;

/**
 * Marks the letters of a chunk as replayed and notes how far the redrive has come, in one transaction. A chunk that was
 * published counts though the redrive was paused or cancelled meanwhile. Answers the state that is wanted of it, or
 * "fenced": then nothing was written.
 */
export function saveProgress(
  db: Database,
  redrive: Pick<Redrive, "id" | "epoch" | "startedBy">,
  progress: RedriveProgress,
): Promise<RedriveState | "fenced"> {
  return transaction(db, (tx) => saveProgressIn(tx, redrive, progress));
}

/** As `saveProgress`, in the transaction that has the chunk's letters locked. */
export async function saveProgressIn(
  tx: Tx,
  { id, epoch, startedBy }: Pick<Redrive, "id" | "epoch" | "startedBy">,
  { replayed, counts, cursor, isLast, failure, leaseMs }: RedriveProgress,
): Promise<RedriveState | "fenced"> {
  const { rows } = await tx.query<{ state: RedriveState }>({
    name: "redrives.save",
    text: SAVE,
    values: [
      id,
      epoch,
      JSON.stringify(counts),
      cursor && encodeTimestamptz(cursor.time),
      cursor?.topic,
      cursor?.partition,
      cursor?.offset,
      failure?.error,
      failure?.waitMs ?? leaseMs,
      isLast,
    ],
  });
  if (rows[0] === undefined) return "fenced";
  if (replayed.length > 0) {
    await tx.query(markingReplayed(replayed, { principal: startedBy, cause: redriveName(id) }));
  }
  return rows[0].state;
}

/** The resource name of a redrive. */
export function redriveName(id: string): string {
  return `redrives/${id}`;
}

function toRedrive(row: RedriveRow): Redrive {
  const {
    cursor_micros: time,
    cursor_topic: topic,
    cursor_partition: partition,
    cursor_offset: offset,
  } = row;
  const hasCursor = time !== null && topic !== null && partition !== null && offset !== null;
  return {
    id: row.id,
    group: row.group_id,
    state: row.state,
    filter: row.filter,
    reason: row.reason ?? undefined,
    maxPerSecond: row.max_per_second,
    startedBy: row.started_by,
    startedAt: BigInt(row.started_micros),
    updatedAt: BigInt(row.updated_micros),
    endedAt: row.ended_micros === null ? undefined : BigInt(row.ended_micros),
    snapshotTime: BigInt(row.snapshot_micros),
    cursor: hasCursor ? { time: BigInt(time), topic, partition, offset: BigInt(offset) } : undefined,
    counts: row.counts,
    error: row.error ?? undefined,
    owner: row.owner ?? undefined,
    epoch: BigInt(row.epoch),
    failures: row.failures,
  };
}
