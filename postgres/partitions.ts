import { type Database } from "./pool.ts";
import { transaction, type Tx } from "./tx.ts";

/** Whole months before and after the current one that have a partition (design § 6). */
const MONTHS_BACK = 4;
const MONTHS_AHEAD = 3;

/** SQL: whether `relname` is the name of a monthly partition. */
export const IS_MONTH: string = "relname ~ '^event_[0-9]{4}_[0-9]{2}$'";
/** SQL for behind `from`: the monthly partitions of events.event, as rows of pg_class, with the condition that makes them so. */
export const MONTHS: string = `pg_inherits join pg_class on pg_class.oid = inhrelid where inhparent = 'events.event'::regclass and ${IS_MONTH}`;

interface Month {
  /** Of the partition, without its schema. */
  readonly name: string;
  /** The first instant of the month and that of the next, UTC, as PostgreSQL writes a time. */
  readonly start: string;
  readonly end: string;
}

/**
 * Makes the monthly partitions of events.event that are missing, from four months before `now` to three after it, each
 * in a transaction of its own, and answers their names. Rows of such a month that had fallen into the default partition
 * move to where they belong. Several processes may call it at once. Waits at most 5 s for a lock that readers or
 * writers hold, and then throws: call it again later.
 */
export async function ensurePartitions(db: Database, now: Date): Promise<readonly string[]> {
  const made: string[] = [];
  for (let index = -MONTHS_BACK; index <= MONTHS_AHEAD; index++) {
    const month = monthOf(now, index);
    if (await transaction(db, (tx) => ensurePartition(tx, month))) made.push(month.name);
  }
  return made;
}

/**
 * Makes the partition of one month, `YYYY-MM`, as {@link ensurePartitions} does, with the rows of it that fell into the
 * default partition, and says so; "detached" where its table is there and no partition any more (retention), so that rows
 * of the month stay in the default partition.
 */
export async function ensureMonth(db: Database, month: string): Promise<"made" | "attached" | "detached"> {
  const of = monthOf(new Date(`${month}-01T00:00:00Z`), 0);
  return transaction(db, async (tx) => {
    if (await ensurePartition(tx, of)) return "made";
    const { rowCount } = await tx.query({
      text: "select from pg_inherits where inhrelid = to_regclass($1) and inhparent = 'events.event'::regclass",
      values: [`events.${of.name}`],
    });
    return rowCount === 1 ? "attached" : "detached";
  });
}

/**
 * The months, `YYYY-MM`, of the rows in the default partition, with how many there are of each: the first 1,000. One before
 * the year 1 ends in " BC"; there is no partition for those, nor for years of more than four digits.
 */
export async function defaultMonths(
  db: Database,
): Promise<readonly { readonly month: string; readonly rows: bigint }[]> {
  const { rows } = await db.pool.query<{ month: string; rows: string }>(
    `select to_char(start at time zone 'UTC', 'YYYY-MM') || case when extract(year from start at time zone 'UTC') < 0 then ' BC' else '' end
       as month, count(*) as rows
     from events.event_default cross join lateral (select date_trunc('month', occurred_at, 'UTC') as start) as of
     group by start order by start limit 1000`,
  );
  return rows.map((row) => ({ month: row.month, rows: BigInt(row.rows) }));
}

/** How many rows are in the default partition, where none should be; counted up to 10,001. */
export async function countDefaultRows(db: Database): Promise<number> {
  const { rows } = await db.pool.query<{ count: number }>(
    "select count(*)::int as count from (select from events.event_default limit 10001) as counted",
  );
  return rows[0]!.count;
}

/** How many months after the one of `now` have a partition. */
export async function countMonthsAhead(db: Database, now: Date): Promise<number> {
  const { rows } = await db.pool.query<{ count: number }>({
    text: `select count(*)::int as count from ${MONTHS} and relname > $1`,
    values: [monthOf(now, 0).name],
  });
  return rows[0]!.count;
}

// Names and bounds are made of whole numbers alone, so they may stand in the text; DDL takes no parameters.
async function ensurePartition(tx: Tx, { name, start, end }: Month): Promise<boolean> {
  await tx.query({ text: "set local lock_timeout = '5s'" });
  await tx.query({ text: "select pg_advisory_xact_lock(hashtext('weir.partitions'))" });
  const there = await tx.query({
    text: "select 1 where to_regclass($1) is not null",
    values: [`events.${name}`],
  });
  if (there.rowCount === 1) return false;
  // ATTACH lets writers to the other partitions go on, which CREATE TABLE … PARTITION OF does not.
  await tx.query({ text: `create table events.${name} (like events.event including all)` });
  // As the whole table has it, which LIKE does not copy.
  await tx.query({ text: `alter table events.${name} alter column terms set statistics 300` });
  const range = `occurred_at >= '${start}' and occurred_at < '${end}'`;
  const fallen = await tx.query({ text: `select from events.event_default where ${range} limit 1` });
  if (fallen.rowCount === 1) {
    await tx.query({ text: "lock table events.event_default in access exclusive mode" });
    await tx.query({
      text: `with fallen as (delete from events.event_default where ${range} returning *) insert into events.${name} select * from fallen`,
    });
  }
  await tx.query({
    text: `alter table events.event attach partition events.${name} for values from ('${start}') to ('${end}')`,
  });
  return true;
}

function monthOf(now: Date, offset: number): Month {
  const first = (index: number): Date => {
    const day = new Date(0);
    // Date.UTC takes the years 0 to 99 for those of the twentieth century.
    day.setUTCFullYear(now.getUTCFullYear(), now.getUTCMonth() + index, 1);
    return day;
  };
  const start = first(offset);
  const [year, month] = [start.getUTCFullYear(), start.getUTCMonth() + 1];
  const name = `event_${String(year).padStart(4, "0")}_${String(month).padStart(2, "0")}`;
  return { name, start: toInstant(start), end: toInstant(first(offset + 1)) };
}

/** Without the sign that ISO 8601 puts before years of more than four digits. */
function toInstant(day: Date): string {
  return day.toISOString().replace(/^\+0*/, "");
}
