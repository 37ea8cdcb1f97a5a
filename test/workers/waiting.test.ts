import pg from "pg";
import { expect, test } from "vitest";

import { type Bench, eventRecords, openBench } from "./bench.ts";

// What is waited for is said within some ten seconds, long before anything has failed.
const soon = { timeout: 12_000, interval: 100 };

/** Holds a statement's locks until it is let go. */
async function holding(bench: Bench, statement: string): Promise<AsyncDisposable> {
  const client = new pg.Client({ connectionString: bench.databaseUrl });
  await client.connect();
  await client.query("begin");
  await client.query(statement);
  return { [Symbol.asyncDispose]: () => client.end() };
}

test.each([
  [
    "the table of events",
    "lock table events.event",
    "records from offset 3 on have been waiting to be stored",
  ],
  [
    "the row of the checkpoint",
    "select from consumer.checkpoint for update",
    "records from offset 3 on have been waiting to be stored",
  ],
])(
  "that a batch waits for a lock on %s, and since when",
  async (_, statement, text) => {
    await using bench = await openBench();
    await using worker = bench.work({ statementTimeoutMs: 30_000 });
    await bench.publish(...eventRecords(bench, 3));
    await expect.poll(() => bench.checkpoint(0), soon).toBe(3n);
    const began = Date.now();
    {
      await using _lock = await holding(bench, statement);
      await bench.publish(...eventRecords(bench, 1));
      await expect.poll(() => worker.role.fault, soon).toContain(text);
      const since = Date.parse(/ since (\S+Z)/.exec(worker.role.fault!)![1]!);
      expect(since).toBeGreaterThanOrEqual(began);
      expect(since).toBeLessThan(Date.now() - 5_000);
      await expect.poll(() => told(worker.log.lines), soon).toHaveLength(1);
    }
    await expect.poll(() => bench.checkpoint(0), soon).toBe(4n);
    await expect.poll(() => worker.role.fault, soon).toBeUndefined();
    expect(told(worker.log.lines)).toHaveLength(1);
  },
  60_000,
);

test("that a partition waits to be taken over", async () => {
  await using bench = await openBench();
  {
    await using _worker = bench.work();
    await bench.publish(...eventRecords(bench, 3));
    await expect.poll(() => bench.checkpoint(0), soon).toBe(3n);
  }
  await using stack = new AsyncDisposableStack();
  const lock = await holding(bench, "select from consumer.checkpoint for update");
  const worker = stack.use(bench.work({ statementTimeoutMs: 30_000 }));
  stack.use(lock); // let go first
  await expect
    .poll(() => worker.role.fault, { ...soon, timeout: 20_000 })
    .toContain("has been waiting to be taken over");
}, 60_000);

test("that another producer's open transaction holds a partition back; the group is not joined anew for it", async () => {
  await using bench = await openBench();
  await using worker = bench.work();
  await bench.publish(...eventRecords(bench, 2));
  await expect.poll(() => bench.checkpoint(0), soon).toBe(2n);
  const open = await bench.broker.openTransaction(bench.events, "no event");
  await bench.publish(...eventRecords(bench, 3));
  await expect
    .poll(() => worker.role.fault, { ...soon, timeout: 15_000 })
    .toMatch(/records from offset 2 on have been waiting since \S+Z for the end of an open transaction/);
  await expect.poll(() => told(worker.log.lines), soon).toHaveLength(1);
  await open.commit();
  await expect.poll(() => bench.checkpoint(0), soon).toBe(7n);
  await expect.poll(() => worker.role.fault, soon).toBeUndefined();
}, 60_000);

function told(lines: readonly (readonly [string, string, unknown])[]): readonly unknown[] {
  return lines.filter(([level, message]) => level === "warn" && message === "Records wait to be stored");
}
