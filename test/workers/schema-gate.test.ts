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
