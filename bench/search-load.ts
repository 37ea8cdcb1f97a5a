import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

import { type Database } from "#postgres/pool.ts";

import type { LoadOrder, LoadReport } from "./search-load-task.ts";
import { END, GROUP, LOG_PARTITIONS } from "./search-events.ts";
import { type SearchStore } from "./search-store.ts";

/** When so many events were stored, it is under way. */
const FIRST = 50_000;

/**
 * Works while another process stores events as fast as it can, which come after those that are there, and the roles beside it
 * merge terms and sum up by hour. What was stored is gone afterwards.
 *
 * @param work is given how to learn how many events a second have been stored since it began.
 */
export async function underLoad(
  store: SearchStore,
  rows: number,
  work: (rate: () => number) => Promise<void>,
): Promise<void> {
  await using db = store.open({});
  await removeLoad(db, rows);
  const child = fork(join(import.meta.dirname, "search-load-task.ts"));
  const exited = once(child, "exit");
  try {
    child.send({ url: store.url, rows } satisfies LoadOrder);
    let stored = 0;
    const going = new Promise<void>((resolve) =>
      child.on("message", (report: LoadReport) => {
        stored = report.stored;
        if (stored >= FIRST) resolve();
      }),
    );
    await Promise.race([going, exited.then(failed)]);
    const [first, began] = [stored, performance.now()];
    const rate = (): number => ((stored - first) * 1_000) / (performance.now() - began);
    await Promise.race([exited.then(failed), work(rate)]);
  } finally {
    child.kill();
    await exited;
    await removeLoad(db, rows);
  }
}

function failed(): never {
  throw new Error("The process that stores events has ended.");
}

/** As if it had never been. */
async function removeLoad(db: Database, rows: number): Promise<void> {
  const { rows: later } = await db.pool.query<{ name: string }>({
    text: `select inhrelid::regclass::text as name from pg_inherits join pg_class on pg_class.oid = inhrelid
      where inhparent = 'events.event'::regclass and relname >= $1 and relname ~ '^event_2'`,
    values: [`event_${new Date(END).toISOString().slice(0, 7).replace("-", "_")}`],
  });
  await db.pool.query(`truncate ${later.map(({ name }) => name).join(", ")}`);
  await db.pool.query("delete from events.rollup where hour >= $1", [new Date(END)]);
  for (let partition = 0; partition < LOG_PARTITIONS; partition++) {
    const next = Math.ceil((rows - partition) / LOG_PARTITIONS);
    await db.pool.query(
      "update consumer.checkpoint set next_offset = $3, high_water = $3 where group_id = $1 and partition = $2",
      [GROUP, partition, next],
    );
    await db.pool.query("update events.rollup_era set next_offset = $2 where partition = $1", [
      partition,
      next,
    ]);
  }
}
