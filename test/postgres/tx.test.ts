import { beforeAll, expect, test } from "vitest";

import { classify } from "#postgres/failures.ts";
import { CommitUnknownError, transaction, type Tx } from "#postgres/tx.ts";

import { createProxy, openDatabase, useDatabase } from "./fixture.ts";

const suite = useDatabase();
const write = (tx: Tx, n: number): Promise<unknown> =>
  tx.query({ text: "insert into public.note (n) values ($1)", values: [n] });
const written = async (): Promise<number[]> =>
  (await suite.db.pool.query<{ n: number }>("select n from public.note order by n")).rows.map(({ n }) => n);
const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => "none",
    (error: unknown) => error,
  );

beforeAll(async () => {
  await suite.db.pool.query("create table public.note (n int primary key deferrable initially deferred)");
});

test("what a transaction writes is there once it resolves, with what it answered", async () => {
  expect(await transaction(suite.db, async (tx) => (await write(tx, 1), "done"))).toBe("done");
  expect(await written()).toContain(1);
});

test("a throw writes nothing, and the connection is used again", async () => {
  await using db = openDatabase(suite.url, { poolSize: 1 });
  const pidOf = async (): Promise<unknown> => (await db.pool.query("select pg_backend_pid()")).rows;
  const pid = await pidOf();
  const failure = await failureOf(
    transaction(db, async (tx) => {
      await write(tx, 2);
      await tx.query({ text: "select 1 / 0" });
    }),
  );
  expect(failure).toMatchObject({ code: "22012" });
  expect(await written()).not.toContain(2);
  expect(await pidOf()).toEqual(pid);
});

test("a throw that is not the database's leaves nothing open on the connection", async () => {
  await using db = openDatabase(suite.url, { poolSize: 1 });
  const failure = transaction(db, async (tx) => {
    await write(tx, 10);
    throw new Error("not the database's");
  });
  await expect(failure).rejects.toThrow("not the database's");
  await transaction(db, (tx) => write(tx, 11));
  expect(await written()).toEqual(expect.arrayContaining([11]));
  expect(await written()).not.toContain(10);
});

test("an error that a transaction hides is found at its COMMIT", async () => {
  const hidden = transaction(suite.db, async (tx) => {
    await write(tx, 3);
    await failureOf(tx.query({ text: "select 1 / 0" }));
  });
  await expect(hidden).rejects.toThrow(/rolled the transaction back/);
  expect(await written()).not.toContain(3);
});

test("an error that COMMIT itself brings is no unknown outcome", async () => {
  const failure = await failureOf(
    transaction(suite.db, async (tx) => {
      await write(tx, 4);
      await write(tx, 4);
    }),
  );
  expect(failure).toMatchObject({ code: "23505" });
  expect(await written()).not.toContain(4);
});

test("a backend that dies between a write and COMMIT takes the write with it", async () => {
  await using db = openDatabase(suite.url, { poolSize: 1 });
  const failure = await failureOf(
    transaction(db, async (tx) => {
      await write(tx, 5);
      const { rows } = await tx.query<{ pid: number }>({ text: "select pg_backend_pid() as pid" });
      await suite.db.pool.query("select pg_terminate_backend($1)", [rows[0]!.pid]);
      await tx.query({ text: "select 1" });
    }),
  );
  expect(classify(failure)).toBe("unavailable");
  expect(failure).not.toBeInstanceOf(CommitUnknownError);
  expect(await written()).not.toContain(5);
  await transaction(db, (tx) => write(tx, 6));
  expect(await written()).toContain(6);
});

test.each([
  { when: "before", durable: false },
  { when: "after", durable: true },
] as const)("a connection lost $when COMMIT ran is an unknown outcome", async ({ when, durable }) => {
  await using proxy = await createProxy(suite.url);
  await using db = openDatabase(proxy.url);
  const n = durable ? 8 : 7;
  proxy.breakAt("commit", when);
  const failure = await failureOf(transaction(db, (tx) => write(tx, n)));
  expect(failure).toBeInstanceOf(CommitUnknownError);
  expect(classify(failure)).toBe("unavailable");
  expect((await written()).includes(n)).toBe(durable);
});

test("a transaction that has ended takes no more writes", async () => {
  let kept: Tx | undefined;
  await transaction(suite.db, async (tx) => void (kept = tx));
  expect(() => write(kept!, 9)).toThrow(/has ended/);
  expect(await written()).not.toContain(9);
});
