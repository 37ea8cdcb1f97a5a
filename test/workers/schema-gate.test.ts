import { expect, test, vi } from "vitest";

import { createSchemaGate } from "../../workers/schema-gate.ts";
import { createKeptLog } from "../kafka/broker.ts";
import { createProxy, openDatabase } from "../postgres/fixture.ts";
import { createTestDatabase } from "../support/database.ts";

const soon = { timeout: 20_000, interval: 50 };

test("waits for a database that is away, says so once for each reason, and goes on", async () => {
  await using database = await createTestDatabase();
  await using proxy = await createProxy(database.url);
  await proxy.cut();
  await using db = openDatabase(proxy.url);
  const asking = vi.spyOn(db.probes, "query");
  const log = createKeptLog();
  const gate = createSchemaGate(db, log);
  const stop = new AbortController();
  const running = gate.run(stop.signal);

  await expect.poll(() => asking.mock.calls.length, soon).toBeGreaterThan(3);
  const warnings = (): readonly unknown[] => log.lines.filter(([level]) => level === "warn");
  const away = "The database cannot be asked for its schema yet";
  expect(warnings()).toEqual([["warn", away, { reason: expect.stringContaining("ECONNREFUSED") as string }]]);

  await proxy.restore();
  await gate.ready;
  expect(warnings()).toHaveLength(1);
  expect(log.lines.at(-1)).toEqual(["info", "The database answers", undefined]);
  stop.abort();
  await running;
});

test("a schema that is newer than the code is no fault, and is told of, at the start and while the worker runs", async () => {
  await using database = await createTestDatabase();
  await using db = openDatabase(database.url);
  const apply = (name: string): Promise<unknown> =>
    db.pool.query("insert into migration.applied (name, sha256) values ($1, '')", [name]);
  await apply("9998_later.sql");
  const log = createKeptLog();
  const gate = createSchemaGate(db, log, 50);
  const stop = new AbortController();
  const running = gate.run(stop.signal);
  await gate.ready;
  expect(gate.ahead).toMatch(/^the schema is newer .* does not know 9998_later\.sql: /);
  await apply("9999_latest.sql");
  await expect.poll(() => gate.ahead, soon).toContain("9998_later.sql, 9999_latest.sql");
  const told = log.lines.filter(([level]) => level === "warn").map(([, , fields]) => fields);
  expect(told).toEqual([{ unknown: ["9998_later.sql"] }, { unknown: ["9998_later.sql", "9999_latest.sql"] }]);
  stop.abort();
  await running;
});
