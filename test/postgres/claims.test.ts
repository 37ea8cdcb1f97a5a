import { randomUUID } from "node:crypto";
import { expect, test, vi } from "vitest";

import {
  type Claim,
  persistBatch,
  type PersistResult,
  type StoredCounts,
  takeOver,
} from "#postgres/claims.ts";
import { classify } from "#postgres/failures.ts";
import { CommitUnknownError } from "#postgres/tx.ts";

import { createProxy, openDatabase, sketchEvent, useDatabase } from "./fixture.ts";

const suite = useDatabase();

/** A partition that no other test touches. */
const freshPartition = (): { group: string; topic: string; partition: number } => ({
  group: "weir.persist.v1",
  topic: `events-${randomUUID()}`,
  partition: 3,
});
const batchOf = (topic: string, first: bigint, count: number) => ({
  events: Array.from({ length: count }, (_, index) =>
    sketchEvent({
      topic,
      partition: 3,
      offset: first + BigInt(index),
      id: `${topic}/${first + BigInt(index)}`,
      time: "2026-11-30T10:00:00Z",
    }),
  ),
  deadLetters: [],
  skips: [],
  nextOffset: first + BigInt(count),
});
const stored = (counts: Partial<StoredCounts>): PersistResult => ({
  outcome: "stored",
  written: 0,
  duplicates: 0,
  conflicts: 0,
  redelivered: 0,
  ...counts,
});
const checkpointOf = async (topic: string): Promise<unknown> => {
  const { rows } = await suite.db.pool.query(
    "select next_offset::int, high_water::int, epoch::int, records::int, owner from consumer.checkpoint where topic = $1",
    [topic],
  );
  return rows[0];
};
const offsetsOf = async (topic: string): Promise<number[]> => {
  const { rows } = await suite.db.pool.query<{ at: number }>(
    'select "offset"::int as at from events.event where topic = $1 order by 1',
    [topic],
  );
  return rows.map(({ at }) => at);
};
const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => "none",
    (error: unknown) => error,
  );
const untilSomeoneWaits = (statement: string): Promise<void> =>
  vi.waitFor(async () => {
    const { rowCount } = await suite.db.pool.query(
      "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like $1",
      [`%${statement}%`],
    );
    expect(rowCount).toBe(1);
  });

test("the first take-over of a partition finds nothing, the next one what was stored", async () => {
  const partition = freshPartition();
  const first = await takeOver(suite.db, { ...partition, owner: "a" });
  expect(first).toEqual({
    ...partition,
    owner: "a",
    epoch: 1n,
    generation: 1n,
    nextOffset: undefined,
    highWater: undefined,
    logId: undefined,
    logSince: "-infinity",
  });
  const result = await persistBatch(suite.db, first, batchOf(partition.topic, 5n, 3));
  expect(result).toEqual(stored({ written: 3 }));
  expect(await offsetsOf(partition.topic)).toEqual([5, 6, 7]);
  expect(await takeOver(suite.db, { ...partition, owner: "b" })).toEqual({
    ...partition,
    owner: "b",
    epoch: 2n,
    generation: 1n,
    nextOffset: 8n,
    highWater: 8n,
    logId: undefined,
    logSince: "-infinity",
  });
});

test("take-overs at the same moment all get an epoch of their own, and only the last one writes", async () => {
  const partition = freshPartition();
  const claims = await Promise.all(
    Array.from({ length: 8 }, (_, index) => takeOver(suite.db, { ...partition, owner: `worker ${index}` })),
  );
  const inOrder = claims.toSorted((a, b) => Number(a.epoch - b.epoch));
  expect(inOrder.map(({ epoch }) => epoch)).toEqual([1n, 2n, 3n, 4n, 5n, 6n, 7n, 8n]);
  const outcomes = await Promise.all(
    inOrder.map((claim, index) => persistBatch(suite.db, claim, batchOf(partition.topic, BigInt(index), 1))),
  );
  expect(outcomes.map(({ outcome }) => outcome)).toEqual([...Array<string>(7).fill("fenced"), "stored"]);
  expect(await offsetsOf(partition.topic)).toEqual([7]);
});

test("a former owner is fenced: it writes neither rows nor a checkpoint", async () => {
  const partition = freshPartition();
  const former = await takeOver(suite.db, { ...partition, owner: "former" });
  await persistBatch(suite.db, former, batchOf(partition.topic, 0n, 2));
  await takeOver(suite.db, { ...partition, owner: "new" });
  const before = await checkpointOf(partition.topic);
  expect(await persistBatch(suite.db, former, batchOf(partition.topic, 2n, 2))).toEqual({
    outcome: "fenced",
  });
  expect(await offsetsOf(partition.topic)).toEqual([0, 1]);
  expect(await checkpointOf(partition.topic)).toEqual(before);
});

test("a claim of another generation, or one that never was, is fenced", async () => {
  const partition = freshPartition();
  const claim = await takeOver(suite.db, { ...partition, owner: "a" });
  const strangers: Claim[] = [
    { ...claim, generation: claim.generation - 1n },
    { ...claim, epoch: claim.epoch + 1n },
    { ...claim, partition: 4 },
    { ...claim, group: "other" },
  ];
  for (const stranger of strangers)
    expect(await persistBatch(suite.db, stranger, batchOf(partition.topic, 0n, 1))).toEqual({
      outcome: "fenced",
    });
  expect(await offsetsOf(partition.topic)).toEqual([]);
});

test("a take-over waits for the batch in flight and begins after it", async () => {
  const partition = freshPartition();
  const former = await takeOver(suite.db, { ...partition, owner: "former" });
  const batch = batchOf(partition.topic, 0n, 2);
  const held = await suite.db.pool.connect();
  try {
    // Holds one of the batch's keys, so that the batch stops between its checkpoint and its COMMIT.
    await held.query("begin");
    const { event } = batch.events[1]!;
    await held.query(
      `insert into events.event (source, id, occurred_at, receive_time, "offset", partition, data_size, type, topic, principal, tags, extensions, terms)
       values ($1, $2, $3, now(), 9, 9, 0, 't', 'other', 'p', '{}', '{}', '{}')`,
      [event.source, event.id, event.time!.text],
    );
    const persisted = persistBatch(suite.db, former, batch);
    await untilSomeoneWaits("copy events.event");
    const taken = takeOver(suite.db, { ...partition, owner: "new" });
    await untilSomeoneWaits("insert into consumer.checkpoint");
    await held.query("rollback");
    expect(await persisted).toEqual(stored({ written: 2 }));
    expect(await taken).toMatchObject({ epoch: 2n, nextOffset: 2n });
  } finally {
    held.release();
  }
});

test("next_offset never goes back within a generation, and high_water never at all", async () => {
  const partition = freshPartition();
  const claim = await takeOver(suite.db, { ...partition, owner: "a" });
  await persistBatch(suite.db, claim, batchOf(partition.topic, 0n, 10));
  await persistBatch(suite.db, claim, batchOf(partition.topic, 0n, 4)); // redelivered in other portions
  expect(await checkpointOf(partition.topic)).toMatchObject({ next_offset: 10, high_water: 10, records: 14 });

  // As a restart of the group does it.
  await suite.db.pool.query(
    "update consumer.checkpoint set generation = generation + 1, epoch = epoch + 1, next_offset = 3 where topic = $1",
    [partition.topic],
  );
  expect(await persistBatch(suite.db, claim, batchOf(partition.topic, 10n, 1))).toEqual({
    outcome: "fenced",
  });
  const restarted = await takeOver(suite.db, { ...partition, owner: "a" });
  expect(restarted).toMatchObject({ generation: 2n, nextOffset: 3n, highWater: 10n });
  const again = await persistBatch(suite.db, restarted, batchOf(partition.topic, 3n, 2));
  expect(again).toEqual(stored({ redelivered: 2 }));
  expect(await checkpointOf(partition.topic)).toMatchObject({ next_offset: 5, high_water: 10 });
});

test("a record that PostgreSQL refuses is a data error, and nothing of its batch is written", async () => {
  const partition = freshPartition();
  const claim = await takeOver(suite.db, { ...partition, owner: "a" });
  const batch = batchOf(partition.topic, 0n, 3);
  const poison = { ...batch.events[2]!, event: { ...batch.events[2]!.event, subject: "nul \0" } };
  const failure = await failureOf(
    persistBatch(suite.db, claim, { ...batch, events: [...batch.events.slice(0, 2), poison] }),
  );
  expect(classify(failure)).toBe("data");
  expect(await offsetsOf(partition.topic)).toEqual([]);
  expect(await checkpointOf(partition.topic)).toMatchObject({ next_offset: null, records: 0 });
});

test("a backend killed between the rows and COMMIT leaves neither rows nor a checkpoint", async () => {
  const partition = freshPartition();
  const claim = await takeOver(suite.db, { ...partition, owner: "a" });
  const batch = batchOf(partition.topic, 0n, 5);
  // Deferred: it runs once COMMIT has come, after every statement of the transaction.
  await suite.db.pool.query(`
    create function public.die() returns trigger language plpgsql as $$
      begin perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(60); return null; end $$;
    create constraint trigger die after update on consumer.checkpoint deferrable initially deferred
      for each row when (new.owner = 'a') execute function public.die()`);
  const failure = await failureOf(persistBatch(suite.db, claim, batch));
  await suite.db.pool.query("drop function public.die cascade");
  expect(failure).toMatchObject({ cause: { code: "57P01" } });
  expect(classify(failure)).toBe("unavailable");
  expect(await offsetsOf(partition.topic)).toEqual([]);
  expect(await checkpointOf(partition.topic)).toMatchObject({ next_offset: null, high_water: null });

  expect(await persistBatch(suite.db, claim, batch)).toMatchObject({ outcome: "stored", written: 5 });
});

test.each([
  { when: "before", again: stored({ written: 4 }) },
  { when: "after", again: stored({ redelivered: 4 }) },
] as const)(
  "a batch whose connection is lost $when COMMIT ran may be offered again",
  async ({ when, again }) => {
    const partition = freshPartition();
    const claim = await takeOver(suite.db, { ...partition, owner: "a" });
    const batch = batchOf(partition.topic, 0n, 4);
    await using proxy = await createProxy(suite.url);
    await using db = openDatabase(proxy.url);
    proxy.breakAt("commit", when);
    expect(await failureOf(persistBatch(db, claim, batch))).toBeInstanceOf(CommitUnknownError);
    expect(await offsetsOf(partition.topic)).toEqual(when === "after" ? [0, 1, 2, 3] : []);

    expect(await persistBatch(db, claim, batch)).toEqual(again);
    expect(await offsetsOf(partition.topic)).toEqual([0, 1, 2, 3]);
    expect(await checkpointOf(partition.topic)).toMatchObject({ next_offset: 4, high_water: 4, epoch: 1 });
  },
);

test("after a lost COMMIT a new owner goes on from what was committed, and the old one is fenced", async () => {
  const partition = freshPartition();
  const claim = await takeOver(suite.db, { ...partition, owner: "a" });
  const batch = batchOf(partition.topic, 0n, 4);
  await using proxy = await createProxy(suite.url);
  await using db = openDatabase(proxy.url);
  proxy.breakAt("commit", "after");
  await failureOf(persistBatch(db, claim, batch));
  expect(await takeOver(suite.db, { ...partition, owner: "b" })).toMatchObject({ nextOffset: 4n });
  expect(await persistBatch(db, claim, batch)).toEqual({ outcome: "fenced" });
  expect(await offsetsOf(partition.topic)).toEqual([0, 1, 2, 3]);
});
