import pg from "pg";
import { expect, test, vi } from "vitest";

import { accountFor, passedBy } from "#postgres/log-audit.ts";

import { accepted, type Bench, eventRecord, eventRecords, openBench } from "./bench.ts";
import { startWorkerProcess, type WorkerProcess } from "./process.ts";

const soon = { timeout: 40_000, interval: 100 };

/** How many offsets below high_water have no account, over all partitions. */
async function unaccounted(bench: Bench): Promise<bigint> {
  const { group, events: topic } = bench;
  let sum = 0n;
  for (const [partition, { highWater: to, logSince }] of await passedBy(bench.db, { group, topic })) {
    const range = { group, topic, partition, from: 0n, to, logSince };
    sum += (await accountFor(bench.db, range, AbortSignal.timeout(10_000))).unaccounted;
  }
  return sum;
}

async function owner(bench: Bench, partition = 0): Promise<string | undefined> {
  const { rows } = await bench.db.pool.query<{ owner: string }>(
    "select owner from consumer.checkpoint where partition = $1",
    [partition],
  );
  return rows[0]?.owner;
}

test("a worker that was paused in the midst of a batch wakes up fenced: it writes nothing and commits nothing", async () => {
  await using bench = await openBench();
  const env = { WEIR_DATABASE_STATEMENT_TIMEOUT: "2s", WEIR_WORKER_ROLES: "persist" };
  await using paused = await startWorkerProcess(bench, env);
  await bench.publish(...eventRecords(bench, 5));
  await expect.poll(() => bench.committed(0), soon).toBe(5n);
  const former = await owner(bench);

  // Holds the key of an event, so that its batch stops between the checkpoint and COMMIT.
  const event = accepted();
  const held = new pg.Client({ connectionString: bench.databaseUrl });
  await held.connect();
  await held.query("begin");
  await held.query(
    `insert into events.event (source, id, occurred_at, receive_time, "offset", partition, data_size, type, topic, principal, tags, extensions, terms)
     values ($1, $2, $3, now(), 9, 9, 0, 't', 'other', 'p', '{}', '{}', '{}')`,
    [event.event.source, event.event.id, event.event.time!.text],
  );
  await bench.publish(eventRecord(bench, event), ...eventRecords(bench, 9));
  await vi.waitFor(async () => {
    const { rowCount } = await bench.db.pool.query(
      "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%copy events.event%'",
    );
    expect(rowCount).toBe(1);
  }, soon);
  process.kill(paused.child.pid, "SIGSTOP");
  await using other = await startWorkerProcess(bench, env);
  // Kafka gives it the partition once the other one's session is over.
  await expect.poll(() => owner(bench), soon).not.toBe(former);
  await held.end();
  await expect.poll(() => bench.committed(0), soon).toBe(15n);
  expect(await bench.rows()).toBe(15);

  process.kill(paused.child.pid, "SIGCONT");
  // It hears of it from whomever it asks first: PostgreSQL, where it is fenced, or Kafka, where its session is over.
  await expect
    .poll(() => paused.output(), soon)
    .toMatch(/Another worker has taken|Consuming was interrupted|A partition cannot be consumed/);
  await expect.poll(() => bench.broker.members(bench.group), soon).toBe(2);
  expect(await metric(paused, 'weir_persist_records_total{outcome="written"}')).toBe(5);
  expect(await metric(paused, 'weir_persist_records_total{outcome="redelivered"}')).toBe(0);
  expect([await bench.committed(0), await bench.checkpoint(0), await bench.rows()]).toEqual([15n, 15n, 15]);

  // Both go on, and whoever has the partition stores each event once.
  await bench.publish(...eventRecords(bench, 10));
  await expect.poll(() => bench.committed(0), soon).toBe(25n);
  expect(await bench.rows()).toBe(25);
  expect(await unaccounted(bench)).toBe(0n);
  expect(other.child.exit()).toBeUndefined();
}, 150_000);

test("1, then 4, then 1 worker under load: nothing is lost, nothing doubled", async () => {
  const partitions = 6;
  await using bench = await openBench(partitions);
  let published = 0;
  const load = new AbortController();
  const loading = (async () => {
    while (!load.signal.aborted) {
      const records = Array.from({ length: partitions }, (_, partition) =>
        eventRecords(bench, 20, partition),
      );
      await bench.publish(...records.flat());
      published += records.flat().length;
    }
  })();
  const owners = async (): Promise<number> =>
    (await bench.db.pool.query("select from consumer.checkpoint group by owner")).rowCount ?? 0;
  const goesOn = async (): Promise<void> => {
    const before = await bench.rows();
    await expect.poll(() => bench.rows(), soon).toBeGreaterThan(before + 500);
  };

  await using first = await startWorkerProcess(bench);
  await goesOn();
  {
    await using second = await startWorkerProcess(bench);
    await using third = await startWorkerProcess(bench);
    await using fourth = await startWorkerProcess(bench);
    await expect.poll(owners, soon).toBe(4);
    await goesOn();
    // One ends in order, one by force, one with the others at the end of this block.
    await second.child.stop();
    fourth.child.kill();
    await fourth.child.exited;
    await goesOn();
    expect(third.child.exit()).toBeUndefined();
  }
  await expect.poll(owners, soon).toBe(1);
  await goesOn();
  load.abort();
  await loading;
  await expect.poll(() => bench.rows(), { ...soon, timeout: 60_000 }).toBe(published);
  await expect
    .poll(() => metric(first, `weir_consumer_partitions{group="${bench.group}",state="assigned"}`))
    .toBe(partitions);
  const { rows } = await bench.db.pool.query<{ next: number; highest: number }>(
    `select next_offset::int as next, (select max("offset")::int + 1 from events.event e where e.partition = c.partition) as highest
     from consumer.checkpoint c`,
  );
  expect(rows).toHaveLength(partitions);
  for (const { next, highest } of rows) expect(next).toBe(highest);
  expect(await unaccounted(bench)).toBe(0n);
  const { rowCount } = await bench.db.pool.query("select from events.duplicate");
  expect(rowCount).toBe(0);
}, 180_000);

async function metric(worker: WorkerProcess, name: string): Promise<number> {
  const page = await (await fetch(`${worker.url}/metrics`)).text();
  const line = page.split("\n").find((each) => each.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1) ?? 0);
}
