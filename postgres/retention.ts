import { raiseFloor } from "./log-floor.ts";
import { IS_MONTH, MONTHS } from "./partitions.ts";
import { type Database } from "./pool.ts";
import { transaction, type Tx } from "./tx.ts";

/** A time by the calendar. */
export interface Age {
  readonly months: number;
  readonly days: number;
}

/** What retention is to do. */
export interface RetentionPlan {
  /** What occurred before it goes. */
  readonly cutoff: Date;
  /** What was accepted since then may be on the log still: it must stay, or reading the log again would store it anew. */
  readonly loggedSince: Date;
  /** Drop what is detached, too. */
  readonly drop: boolean;
}

/** What became of a monthly partition that is old enough. */
export interface RetiredPartition {
  readonly name: string;
  /** "needed": it has events that are on the log still. */
  readonly outcome: "detached" | "dropped" | "needed";
}

/** The moment that is so long before another, by UTC; of a shorter month the last day stands for those that it has not. */
export function before(time: Date, { months, days }: Age): Date {
  const [year, month, day] = [time.getUTCFullYear(), time.getUTCMonth() - months, time.getUTCDate()];
  const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  const at = new Date(time);
  at.setUTCFullYear(year, month, Math.min(day, lastDay));
  at.setUTCDate(at.getUTCDate() - days);
  return at;
}

/**
 * Takes the months out of events.event that lie before the cutoff as a whole, each in a transaction of its own with its sums
 * and with how far it reached into the log, and answers what became of each. Their tables stay, detached, unless they are to be dropped. Several processes may call it at once.
 * Waits at most 5 s for a lock that readers or writers hold, and then throws: call it again later.
 */
export async function retirePartitions(
  db: Database,
  plan: RetentionPlan,
): Promise<readonly RetiredPartition[]> {
  const { rows } = await db.pool.query<{ name: string }>(
    `select relname as name from ${MONTHS} order by relname`,
  );
  const retired: RetiredPartition[] = [];
  for (const { name } of rows) {
    if (endOf(name) > plan.cutoff.getTime()) break;
    const outcome = await transaction(db, (tx) => retire(tx, name, plan));
    if (outcome !== undefined) retired.push({ name, outcome });
  }
  return retired;
}

/** The first instant of the month of a partition. */
function startOf(name: string): Date {
  return new Date(Date.UTC(Number(name.slice(6, 10)), Number(name.slice(11, 13)) - 1));
}

/** The first instant after the month of a partition. */
function endOf(name: string): number {
  return Date.UTC(Number(name.slice(6, 10)), Number(name.slice(11, 13)));
}

// Names are those of months, so they may stand in the text; DDL takes no parameters. CONCURRENTLY is refused where a
// default partition exists.
async function retire(
  tx: Tx,
  name: string,
  { loggedSince, drop }: RetentionPlan,
): Promise<RetiredPartition["outcome"] | undefined> {
  await tx.query({ text: "set local lock_timeout = '5s'" });
  await tx.query({ text: "select pg_advisory_xact_lock(hashtext('weir.partitions'))" });
  const attached = await tx.query({
    text: "select 1 from pg_class where oid = to_regclass($1) and relispartition",
    values: [`events.${name}`],
  });
  if (attached.rowCount !== 1) return undefined;
  // Nothing may come into it between the question and the answer; hardly anybody writes to a month that is so old.
  await tx.query({ text: `lock table events.${name} in share mode` });
  const needed = await tx.query({
    text: `select from events.${name} where receive_time >= $1 limit 1`,
    values: [loggedSince],
  });
  if (needed.rowCount === 1) return "needed";
  await raiseFloor(tx, name);
  await tx.query({ text: `alter table events.event detach partition events.${name}` });
  // Sums are of what is in the table. Whoever was adding to those of this month has let go of the partition.
  await tx.query({
    text: "delete from events.rollup where hour >= $1 and hour < $2",
    values: [startOf(name), new Date(endOf(name))],
  });
  if (!drop) return "detached";
  await tx.query({ text: `drop table events.${name}` });
  return "dropped";
}

/** How many monthly tables are detached and not dropped. */
export async function countDetached(db: Database): Promise<number> {
  const { rows } = await db.pool.query<{ count: number }>(
    `select count(*)::int as count from pg_class
     where relnamespace = 'events'::regnamespace and relkind = 'r' and not relispartition and ${IS_MONTH}`,
  );
  return rows[0]!.count;
}

/** Rows that one statement removes. */
const PORTION = 10_000;

/** Removes the rows of repeats that were recorded before the cutoff and left the log, and answers how many there were. */
export async function deleteDuplicates(
  db: Database,
  { cutoff, loggedSince }: Pick<RetentionPlan, "cutoff" | "loggedSince">,
  signal: AbortSignal,
): Promise<number> {
  const earlier = cutoff < loggedSince ? cutoff : loggedSince;
  for (let removed = 0; ;) {
    const { rowCount } = await db.pool.query({
      text: `delete from events.duplicate where ctid = any(array(
        select ctid from events.duplicate where recorded_at < $1 limit ${PORTION}))`,
      values: [earlier],
    });
    removed += rowCount ?? 0;
    if ((rowCount ?? 0) < PORTION || signal.aborted) return removed;
  }
}
