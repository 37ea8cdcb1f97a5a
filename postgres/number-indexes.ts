import type pg from "pg";

import { EVENT_DAY, jsonpathOf, NUMBER_INFIX, type NumberPath, numberPathKey } from "./number-paths.ts";
import { type Database } from "./pool.ts";

/** What was done to the indexes of numbers, by their names. */
export interface KeptIndexes {
  readonly made: readonly string[];
  readonly dropped: readonly string[];
}

// An index whose making was broken off is there, but not valid.
const INDEXES = `
select c.relname as month, array(
    select i.relname::text from pg_index join pg_class i on i.oid = indexrelid
    where indrelid = c.oid and strpos(i.relname, '${NUMBER_INFIX}') > 0 and indisvalid = wanted.valid
  ) as indexes, wanted.valid
from pg_inherits join pg_class c on c.oid = inhrelid, (values (true), (false)) as wanted (valid)
where inhparent = 'events.event'::regclass order by 1`;

/**
 * Makes the indexes of the paths that are missing, for each month the numbers of its events by day, and drops those of other
 * paths; answers what it made and dropped. Where another process is at it, that is nothing. No writer waits for it, however long
 * it takes: it reads all events of a month, and waits itself for transactions that began before, up to a minute for each, so its
 * pool needs a long statement timeout. Where one index fails the others are made all the same. Needs the owner's rights.
 *
 * @param signal when it is raised PostgreSQL is told to stop; an index that is half made is made anew later.
 * @throws the first failure, after the others were tried.
 */
export async function keepNumberIndexes(
  db: Database,
  paths: readonly NumberPath[],
  signal?: AbortSignal,
): Promise<KeptIndexes> {
  const client: pg.PoolClient & { readonly processID?: number } = await db.pool.connect();
  const cancel = (): void => {
    db.probes.query("select pg_cancel_backend($1)", [client.processID]).catch(() => {});
  };
  signal?.addEventListener("abort", cancel);
  try {
    signal?.throwIfAborted();
    const { rows } = await client.query<{ held: boolean }>(
      "select pg_try_advisory_lock(hashtext('weir.number-indexes')) as held",
    );
    if (!rows[0]!.held) return { made: [], dropped: [] };
    await client.query("set lock_timeout = '1min'");
    return await keep(client, paths, signal);
  } finally {
    signal?.removeEventListener("abort", cancel);
    // With the connection go its lock and its settings.
    client.release(true);
  }
}

async function keep(
  client: pg.PoolClient,
  paths: readonly NumberPath[],
  signal: AbortSignal | undefined,
): Promise<KeptIndexes> {
  const { rows } = await client.query<{ month: string; indexes: readonly string[]; valid: boolean }>(INDEXES);
  const wanted = paths.map((path) => ({ jsonpath: jsonpathOf(path), key: numberPathKey(path) }));
  const [made, dropped]: [string[], string[]] = [[], []];
  const failures: unknown[] = [];
  const attempt = async (name: string, done: string[], statement: string): Promise<void> => {
    signal?.throwIfAborted();
    try {
      await client.query(statement);
      done.push(name);
    } catch (error) {
      signal?.throwIfAborted();
      failures.push(error);
    }
  };
  for (const { month, indexes, valid } of rows) {
    const names = new Set(wanted.map(({ key }) => `${month}${NUMBER_INFIX}${key}`));
    for (const name of indexes) {
      if (!valid || !names.has(name))
        await attempt(name, dropped, `drop index concurrently if exists events.${name}`);
    }
  }
  for (const { month, indexes } of rows.filter(({ valid }) => valid)) {
    const before = made.length;
    for (const { jsonpath, key } of wanted) {
      const name = `${month}${NUMBER_INFIX}${key}`;
      // DDL takes no parameters.
      const path = `'${jsonpath.replaceAll("'", "''")}'::jsonpath`;
      if (!indexes.includes(name)) {
        await attempt(
          name,
          made,
          `create index concurrently ${name} on events.${month} ((${EVENT_DAY}), (events.data_number(data, data_form, ${path})))`,
        );
      }
    }
    // Only then does the planner know what the numbers are.
    if (made.length > before) await attempt(month, [], `analyze events.${month}`);
  }
  if (failures.length > 0) throw failures[0];
  return { made, dropped };
}
