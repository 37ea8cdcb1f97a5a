import { expect, test } from "vitest";

import { createProxy } from "../postgres/fixture.ts";
import { createEmptyDatabase } from "../support/database.ts";
import { eventRecords, openBench } from "./bench.ts";
import { startWorkerProcess } from "./process.ts";

const soon = { timeout: 30_000, interval: 50 };

test("stores, says that it is ready, and ends in order when it is asked to", async () => {
  await using bench = await openBench(2);
  await using workers = await startWorkerProcess(bench);
  await bench.publish(...eventRecords(bench, 10, 0), ...eventRecords(bench, 10, 1));
  await expect.poll(() => bench.rows(), soon).toBe(20);
  await expect
    .poll(() => workers.readyz(), soon)
    .toMatchObject({
      status: "ready",
      services: {
        persist: { ready: true, reasons: [] },
        index: { ready: true, reasons: [] },
        maintain: { ready: true, reasons: [] },
      },
      dependencies: { kafka: { ready: true }, postgresql: { ready: true } },
    });
  expect((await fetch(`${workers.url}/readyz`)).status).toBe(200);
  expect(await (await fetch(`${workers.url}/healthz`)).json()).toEqual({ status: "ok" });
  const metrics = await fetch(`${workers.url}/metrics`);
  expect(metrics.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
  expect(await metrics.text()).toContain('weir_persist_records_total{outcome="written"} 20');
  expect((await fetch(`${workers.url}/else`)).status).toBe(404);
  const post = await fetch(`${workers.url}/readyz`, { method: "POST" });
  expect([post.status, post.headers.get("allow")]).toEqual([405, "GET, HEAD"]);

  await workers.child.stop();
  expect(workers.child.exit()).toEqual({ code: 0, signal: null });
  expect(await bench.broker.members(bench.group)).toBe(0);
  expect([await bench.committed(0), await bench.committed(1)]).toEqual([10n, 10n]);
});

test("plays the roles that are named, and no others", async () => {
  await using bench = await openBench();
  await using workers = await startWorkerProcess(bench, { WEIR_WORKER_ROLES: "maintain" });
  await expect.poll(() => workers.readyz(), soon).toMatchObject({ status: "ready" });
  expect(Object.keys((await workers.readyz())!.services)).toEqual(["maintain"]);
  expect(await bench.broker.members(bench.group)).toBe(0);
});

test("several share the partitions, and where one is killed the others store all, once", async () => {
  await using bench = await openBench(4);
  await using one = await startWorkerProcess(bench);
  await using other = await startWorkerProcess(bench);
  const owners = async (): Promise<number> =>
    (await bench.db.pool.query("select from consumer.checkpoint group by owner")).rowCount ?? 0;
  await expect.poll(owners, soon).toBe(2);
  const all = (): Promise<void> =>
    bench.publish(...[0, 1, 2, 3].flatMap((partition) => eventRecords(bench, 200, partition)));
  await all();
  await expect.poll(() => bench.rows(), soon).toBe(800);

  await all();
  one.child.kill();
  await one.child.exited;
  await all();
  await expect.poll(() => bench.rows(), { ...soon, timeout: 60_000 }).toBe(2_400);
  await expect.poll(() => other.readyz(), soon).toMatchObject({ status: "ready" });
}, 120_000);

test("refuses a schema that is behind, and says what to run", async () => {
  await using bench = await openBench();
  await using database = await createEmptyDatabase();
  await using workers = await startWorkerProcess(bench, { WEIR_DATABASE_URL: database.url });
  expect(await workers.child.exited).toEqual({ code: 1, signal: null });
  expect(workers.output()).toMatch(
    /The database lacks 0001_events\.sql, .*: run `npm run migrate`, then start again/,
  );
});

test("waits for PostgreSQL and Kafka, says what is away, and goes on when it is there", async () => {
  await using bench = await openBench();
  await using proxy = await createProxy(bench.databaseUrl);
  await proxy.cut();
  await using workers = await startWorkerProcess(bench, { WEIR_DATABASE_URL: proxy.url });
  await expect
    .poll(() => workers.readyz(), soon)
    .toMatchObject({
      status: "not_ready",
      services: { persist: { ready: false }, maintain: { ready: false } },
      dependencies: { kafka: { ready: true }, postgresql: { ready: false } },
    });
  expect((await fetch(`${workers.url}/readyz`)).status).toBe(503);
  expect((await fetch(`${workers.url}/healthz`)).status).toBe(200);
  await proxy.restore();
  await bench.publish(...eventRecords(bench, 3));
  await expect.poll(() => bench.rows(), soon).toBe(3);
  await expect.poll(() => workers.readyz(), soon).toMatchObject({ status: "ready" });

  await using brokerless = await startWorkerProcess(bench, { WEIR_KAFKA_BROKERS: "127.0.0.1:1" });
  await expect
    .poll(() => brokerless.readyz(), soon)
    .toMatchObject({
      status: "not_ready",
      services: { persist: { ready: false }, redrive: { ready: false }, maintain: { ready: false } },
      dependencies: { kafka: { ready: false }, postgresql: { ready: true } },
    });
  await brokerless.child.stop();
  expect(brokerless.child.exit()).toEqual({ code: 0, signal: null });
}, 90_000);

test("names a setting that it cannot use", async () => {
  await using bench = await openBench();
  await using workers = await startWorkerProcess(bench, { WEIR_WORKER_ROLES: "persist,dance" });
  expect(await workers.child.exited).toEqual({ code: 1, signal: null });
  expect(workers.output()).toContain("WEIR_WORKER_ROLES");
});
