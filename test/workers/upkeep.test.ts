import { expect, test } from "vitest";

import { ensureMonth } from "#postgres/partitions.ts";

import { makeDeadLetters } from "../support/dead-letters.ts";
import { kafkaClient } from "../support/kafka-client.ts";
import { eventRecords, openBench } from "./bench.ts";
import { startWorkerProcess } from "./process.ts";

const soon = { timeout: 20_000, interval: 50 };

test("a worker process keeps to WEIR_RETENTION, and gives the index back what it has lost", async () => {
  await using bench = await openBench();
  const { connection, log, telemetry } = bench.broker;
  const topics = [{ name: bench.deadLetters, maxMessageBytes: 1_048_576 }];
  await using producer = kafkaClient.createProducer({ connection, topics, log, telemetry });
  await makeDeadLetters({ ...bench, producer, deadLettersPartitions: 1 }, eventRecords(bench, 5));
  await bench.db.pool.query("delete from consumer.dead_letter");
  await ensureMonth(bench.db, "2020-01");
  await ensureMonth(bench.db, "2020-02");
  await using _worker = await startWorkerProcess(bench, {
    WEIR_WORKER_ROLES: "maintain",
    WEIR_RETENTION: "13mo",
    WEIR_RETENTION_DROP: "true",
  });
  const count = async (from: string): Promise<number> =>
    (await bench.db.pool.query<{ count: number }>(`select count(*)::int as count from ${from}`)).rows[0]!
      .count;
  await expect.poll(() => count("consumer.dead_letter"), soon).toBe(5);
  await expect
    .poll(() => count("pg_class where relname like 'event_2020_%' and relkind = 'r'"), soon)
    .toBe(0);
  expect(await count("pg_inherits where inhparent = 'events.event'::regclass")).toBe(9);
});
