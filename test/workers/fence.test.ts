import { randomUUID } from "node:crypto";

import { expect, test } from "vitest";

import { type ReceivedRecord } from "#kafka/ports.ts";
import { takeOver } from "#postgres/claims.ts";

import { createPersist, type Persist } from "../../workers/persist.ts";
import { readTopic } from "../support/topic.ts";
import { createProxy } from "../postgres/fixture.ts";
import { type Bench, eventRecords, openBench } from "./bench.ts";

const soon = { timeout: 20_000, interval: 50 };

/** A worker without a consumer: what it is told is the test's to say. */
function idleWorker({ db, group, broker }: Bench): Persist {
  const setAside = (): Promise<never> => Promise.reject(new Error("nothing of this test is a dead letter"));
  return createPersist({
    db,
    setAside,
    group,
    owner: `test/${randomUUID()}`,
    telemetry: broker.telemetry,
    log: broker.log,
  });
}

async function recordsOf(bench: Bench): Promise<readonly ReceivedRecord[]> {
  return readTopic(bench.broker.connection.brokers.join(","), bench.events);
}

test("of two claims the older writes nothing: neither rows nor checkpoint", async () => {
  await using bench = await openBench();
  await bench.publish(...eventRecords(bench, 10));
  const records = await recordsOf(bench);
  const partition = { topic: bench.events, partition: 0 };
  const log = { start: 0n, end: 10n, stable: 10n, committed: undefined, topicId: undefined };
  const signal = new AbortController().signal;
  const [former, present] = [idleWorker(bench), idleWorker(bench)];
  expect(await former.assigned(partition, log)).toBe(0n);
  await former.records(partition, records.slice(0, 2), signal);
  expect(await present.assigned(partition, log)).toBe(2n);

  await expect(former.records(partition, records.slice(2, 8), signal)).rejects.toThrow(
    "Another worker has taken",
  );
  expect(await bench.rows()).toBe(2);
  expect(await bench.checkpoint(0)).toBe(2n);

  await present.records(partition, records.slice(2), signal);
  expect(await bench.rows()).toBe(10);
  expect(await bench.checkpoint(0)).toBe(10n);
  // Let go for good: not even the same records, without taking the partition over anew.
  await expect(former.records(partition, records.slice(2, 8), signal)).rejects.toThrow("was not taken over");
});

test("a worker whose claim is taken over lets the partition go, and takes it over anew while Kafka says it is its own", async () => {
  await using bench = await openBench();
  await bench.publish(...eventRecords(bench, 5));
  await using worker = bench.work();
  await expect.poll(() => bench.committed(0), soon).toBe(5n);
  const stranger = await takeOver(bench.db, {
    group: bench.group,
    topic: bench.events,
    partition: 0,
    owner: "stranger",
  });
  await bench.publish(...eventRecords(bench, 5));
  await expect.poll(() => worker.metric('weir_persist_batches_total{outcome="fenced"}'), soon).toBe(1);
  await expect.poll(() => bench.committed(0), soon).toBe(10n);
  expect(await bench.rows()).toBe(10);
  expect(await worker.metric('weir_persist_records_total{outcome="duplicate"}')).toBe(0);
  const { rows } = await bench.db.pool.query<{ epoch: string }>("select epoch from consumer.checkpoint");
  expect(BigInt(rows[0]!.epoch)).toBeGreaterThan(stranger.epoch);
});

test("a crash between the transaction and the offset's commit neither loses nor doubles", async () => {
  await using bench = await openBench();
  await bench.publish(...eventRecords(bench, 20));
  {
    // The rows are committed, and the process is gone before its consumer hears of it.
    const gone = Promise.withResolvers<never>();
    gone.promise.catch(() => {});
    await using _worker = bench.work({
      wrap: (persist) => ({
        ...persist,
        async records(...call) {
          await persist.records(...call);
          await gone.promise;
        },
      }),
    });
    await expect.poll(() => bench.checkpoint(0), soon).toBe(20n);
    gone.reject(new Error("gone"));
  }
  expect(await bench.committed(0)).toBeUndefined();
  await bench.publish(...eventRecords(bench, 5));
  await using next = bench.work();
  await expect.poll(() => bench.committed(0), soon).toBe(25n);
  expect(await bench.rows()).toBe(25);
  expect(await next.metric('weir_persist_records_total{outcome="written"}')).toBe(5);
  expect(await next.metric('weir_persist_records_total{outcome="duplicate"}')).toBe(0);
});

test("a COMMIT whose answer is lost is tried again: stored once, and counted", async () => {
  await using bench = await openBench();
  await using proxy = await createProxy(bench.databaseUrl);
  await using worker = bench.work({ databaseUrl: proxy.url });
  await expect.poll(() => worker.persist.progress, soon).toMatchObject([{ state: "assigned" }]);
  proxy.breakAt("commit", "after");
  await bench.publish(...eventRecords(bench, 20));
  await expect.poll(() => bench.committed(0), soon).toBe(20n);
  expect(await bench.rows()).toBe(20);
  expect(await worker.metric('weir_persist_batches_total{outcome="failed"}')).toBeGreaterThanOrEqual(1);
  expect(await worker.metric('weir_persist_records_total{outcome="redelivered"}')).toBeGreaterThan(0);
});
