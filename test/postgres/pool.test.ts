import { once } from "node:events";
import { createServer } from "node:net";
import type pg from "pg";
import { expect, test, vi } from "vitest";

import { classify } from "#postgres/failures.ts";
import { countConnections, probe } from "#postgres/pool.ts";

import { silentLogger } from "../support/logger.ts";
import { createProxy, openDatabase, useDatabase } from "./fixture.ts";

const suite = useDatabase();
const endOf = (client: pg.PoolClient): Promise<void> =>
  new Promise((resolve) => void client.once("end", () => resolve()));
const failureOf = (query: Promise<unknown>): Promise<unknown> =>
  query.then(
    () => "none",
    (error: unknown) => error,
  );

test("a database that was away is used again when it is back, and its loss while idle is logged", async () => {
  await using proxy = await createProxy(suite.url);
  const warn = vi.fn<(message: string) => void>();
  await using db = openDatabase(proxy.url, { logger: { ...silentLogger, warn } });
  await db.pool.query("select 1");
  expect(await probe(db)).toBeUndefined();

  await proxy.cut();
  await vi.waitFor(() => expect(warn).toHaveBeenCalledTimes(2)); // the pool's connection and the probe's
  expect(classify(await failureOf(db.pool.query("select 1")))).toBe("unavailable");
  expect(await probe(db)).toMatch(/does not answer: .*ECONNREFUSED/);

  await proxy.restore();
  expect(await probe(db)).toBeUndefined();
  await db.pool.query("select 1");
});

test("a connection that breaks while its client holds it says so at the next statement and harms nothing else", async () => {
  await using db = openDatabase(suite.url, { poolSize: 1 });
  const client = await db.pool.connect();
  const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
  const ended = endOf(client);
  await suite.db.pool.query("select pg_terminate_backend($1)", [rows[0]!.pid]);
  await ended;
  expect(classify(await failureOf(client.query("select 1")))).toBe("unavailable");
  client.release(true);
  await db.pool.query("select 1");
});

test("a server that takes connections and says nothing is found out within a second", async () => {
  const server = createServer(() => {}).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  await using db = openDatabase(`postgres://weir:weir@127.0.0.1:${port}/weir`, { connectTimeoutMs: 300 });
  const started = performance.now();
  expect(await probe(db)).toMatch(/does not answer/);
  expect(performance.now() - started).toBeLessThan(5_000);
  expect(classify(await failureOf(db.pool.query("select 1")))).toBe("unavailable");
  server.close();
});

test("a server that falls silent amid a statement is given up a second after the statement's bound", async () => {
  await using proxy = await createProxy(suite.url);
  await using db = openDatabase(proxy.url, { statementTimeoutMs: 200 });
  await db.pool.query("select 1");
  proxy.silence();
  const started = performance.now();
  expect(classify(await failureOf(db.pool.query("select 2")))).toBe("unavailable");
  expect(performance.now() - started).toBeLessThan(5_000);
});

test("no free connection within the bound is unavailable, and the probe is not taken in by it", async () => {
  await using db = openDatabase(suite.url, { poolSize: 1, connectTimeoutMs: 200 });
  const client = await db.pool.connect();
  expect(classify(await failureOf(db.pool.query("select 1")))).toBe("unavailable");
  expect(countConnections(db)).toEqual({ idle: 0, used: 1, waiting: 0 });
  expect(await probe(db)).toBeUndefined();
  client.release();
  expect(countConnections(db)).toEqual({ idle: 1, used: 0, waiting: 0 });
});

test("the server holds a statement and an open transaction to their bounds", async () => {
  await using db = openDatabase(suite.url, { statementTimeoutMs: 200 });
  expect(await failureOf(db.pool.query("select pg_sleep(60)"))).toMatchObject({ code: "57014" });
  const client = await db.pool.connect();
  const ended = endOf(client);
  await client.query("begin");
  await ended;
  client.release(true);
});

test("a read-only database refuses to write, on every connection", async () => {
  await using db = openDatabase(suite.url, { readOnly: true, poolSize: 2 });
  const writes = [1, 2].map(() => failureOf(db.pool.query("create table public.never ()")));
  for (const failure of await Promise.all(writes)) expect(failure).toMatchObject({ code: "25006" });
});

test("disposing twice is the same as once, and nothing can be asked after it", async () => {
  const db = openDatabase(suite.url);
  await db.pool.query("select 1");
  await Promise.all([db[Symbol.asyncDispose](), db[Symbol.asyncDispose]()]);
  expect(await failureOf(db.pool.query("select 1"))).toBeInstanceOf(Error);
});
