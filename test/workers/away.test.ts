import { expect, test } from "vitest";

import { createProxy } from "../postgres/fixture.ts";
import { readTopic } from "../support/topic.ts";
import { type Bench, eventRecords, openBench, type Worker } from "./bench.ts";

const soon = { timeout: 20_000, interval: 50 };
/** The back-off of a partition that has failed a few times comes on top. */
const later = { timeout: 45_000, interval: 50 };

async function letters(bench: Bench): Promise<number> {
  return (await readTopic(bench.broker.connection.brokers.join(","), bench.deadLetters)).length;
}

function isStopped(worker: Worker): boolean {
  return worker.persist.progress.every(({ state }) => state === "stopped") && worker.role.fault !== undefined;
}

test("a database that is away stops the partition, dead-letters nothing, and is waited for", async () => {
  await using bench = await openBench();
  await using proxy = await createProxy(bench.databaseUrl);
  await using worker = bench.work({ databaseUrl: proxy.url });
  await bench.publish(...eventRecords(bench, 10));
  await expect.poll(() => bench.committed(0), soon).toBe(10n);

  await proxy.cut();
  await bench.publish(...eventRecords(bench, 30));
  await expect.poll(() => isStopped(worker), soon).toBe(true);
  // Three tries of the transaction, and then the partition backs off.
  await expect.poll(() => worker.metric('weir_persist_batches_total{outcome="failed"}'), soon).toBe(3);
  expect(worker.role.fault).toMatch(/ECONNREFUSED|connect/i);
  // The lag of a partition that is stopped is the one that matters.
  const partition = `group="${bench.group}",topic="${bench.events}",partition="0"`;
  await expect.poll(() => worker.metric(`weir_consumer_lag{${partition}}`), soon).toBe(30);
  expect(await bench.committed(0)).toBe(10n);
  expect(await bench.checkpoint(0)).toBe(10n);

  await proxy.restore();
  await expect.poll(() => bench.committed(0), later).toBe(40n);
  expect(await bench.rows()).toBe(40);
  expect(await letters(bench)).toBe(0);
  expect(await worker.metric('weir_persist_records_total{outcome="dead_lettered"}')).toBe(0);
  expect(worker.role.fault).toBeUndefined();
}, 90_000);

test("a database that takes connections and says nothing is away, too", async () => {
  await using bench = await openBench();
  await using proxy = await createProxy(bench.databaseUrl);
  await using worker = bench.work({ databaseUrl: proxy.url, statementTimeoutMs: 500 });
  await expect.poll(() => worker.persist.progress, soon).toMatchObject([{ state: "assigned" }]);
  proxy.silence();
  await bench.publish(...eventRecords(bench, 5));
  await expect.poll(() => isStopped(worker), later).toBe(true);
  expect(await bench.committed(0)).toBeUndefined();
  expect(await letters(bench)).toBe(0);
}, 90_000);

test("a worker that starts while the database is away begins when it is there", async () => {
  await using bench = await openBench();
  await using proxy = await createProxy(bench.databaseUrl);
  await proxy.cut();
  await bench.publish(...eventRecords(bench, 5));
  await using worker = bench.work({ databaseUrl: proxy.url });
  await expect.poll(() => isStopped(worker) && worker.persist.progress.length, soon).toBe(1);
  await proxy.restore();
  await expect.poll(() => bench.committed(0), later).toBe(5n);
  expect(await bench.rows()).toBe(5);
}, 90_000);

test("while the dead-letter topic is away the offset stays, and the good events of other partitions are stored", async () => {
  await using bench = await openBench(2);
  const missing = bench.broker.name("missing");
  await using worker = bench.work({ deadLetters: missing });
  const poison = {
    topic: bench.events,
    partition: 0,
    key: null,
    value: null,
    headers: [],
    timestamp: Date.now(),
  };
  await bench.publish(...eventRecords(bench, 3, 0), poison, ...eventRecords(bench, 5, 1));
  await expect.poll(() => bench.committed(1), soon).toBe(5n);
  await expect
    .poll(() => worker.persist.progress, soon)
    .toContainEqual(expect.objectContaining({ partition: 0, state: "stopped" }));
  await expect.poll(() => worker.role.fault, soon).toContain(missing);
  expect(await bench.committed(0)).toBeUndefined();
  expect(await bench.checkpoint(0)).toBeUndefined();

  await bench.broker.topic(1, {}, missing);
  await expect.poll(() => bench.committed(0), later).toBe(4n);
  expect(await readTopic(bench.broker.connection.brokers.join(","), missing)).toHaveLength(1);
  expect(await bench.rows()).toBe(8);
}, 90_000);
