import { randomUUID } from "node:crypto";

import { expect, test } from "vitest";

import {
  claimRedrive,
  controlRedrive,
  getRedrive,
  listRedrives,
  type Redrive,
  type RedriveProgress,
  releaseClaim,
  renewClaim,
  saveProgress,
  startRedrive,
} from "#postgres/redrives.ts";

import { useDatabase } from "./fixture.ts";

const suite = useDatabase();

async function start(group: string = randomUUID()): Promise<Redrive> {
  const order = {
    id: randomUUID(),
    group,
    filter: "",
    reason: undefined,
    maxPerSecond: 5,
    startedBy: "alice",
  };
  const { begun } = await startRedrive(suite.db, order);
  if (begun === undefined) throw new Error("another has not ended");
  return begun;
}

function claim({ group }: Redrive, owner: string, leaseMs = 60_000): Promise<Redrive | undefined> {
  return claimRedrive(suite.db, { group, owner, leaseMs });
}

async function seen({ group, id }: Redrive): Promise<Redrive | undefined> {
  return getRedrive(suite.db, group, id);
}

/** One letter of a group, and what a worker says when it has replayed it. */
async function replayed({ group }: Redrive): Promise<RedriveProgress> {
  await suite.db.pool.query(
    `insert into consumer.dead_letter (time, record_time, "offset", partition, attempt, group_id, topic, letter_topic, reason, detail)
     values (now(), now(), 7, 3, 0, $1, 'events', 'dlq', 'MALFORMED', '')`,
    [group],
  );
  const letter = { topic: "events", partition: 3, offset: 7n };
  return {
    replayed: [
      { letter: { group, ...letter }, attempt: 1, position: { topic: "events", partition: 0, offset: 70n } },
    ],
    counts: { REPLAYED: 1 },
    cursor: { time: 1_700_000_000_123_456n, ...letter },
    isLast: false,
    failure: undefined,
    leaseMs: 60_000,
  };
}

async function replaysOf({ group }: Redrive): Promise<number | undefined> {
  const { rows } = await suite.db.pool.query<{ replays: number }>(
    "select replays from consumer.dead_letter where group_id = $1",
    [group],
  );
  return rows[0]?.replays;
}

test("is claimed by one until its lease is over, and by that one again at any time", async () => {
  const redrive = await start();
  expect(await claim(redrive, "one")).toMatchObject({ id: redrive.id, epoch: 1n, owner: "one" });
  expect(await claim(redrive, "other")).toBeUndefined();
  expect(await claim(redrive, "one")).toMatchObject({ epoch: 2n });
  await suite.db.pool.query("update admin.redrive set lease_until = now() - interval '1 s' where id = $1", [
    redrive.id,
  ]);
  expect(await claim(redrive, "other")).toMatchObject({ epoch: 3n, owner: "other" });
  await releaseClaim(suite.db, (await seen(redrive))!);
  expect(await claim(redrive, "one")).toMatchObject({ epoch: 4n });
});

test("who was overtaken writes nothing: no progress, no mark, no lease", async () => {
  const redrive = await start();
  const former = (await claim(redrive, "one"))!;
  const progress = await replayed(redrive);
  const present = (await claim(redrive, "one"))!;
  const before = await seen(redrive);
  expect(await saveProgress(suite.db, former, progress)).toBe("fenced");
  expect(await renewClaim(suite.db, former, 1)).toBe("fenced");
  await releaseClaim(suite.db, former);
  expect(await seen(redrive)).toEqual(before);
  expect(await replaysOf(redrive)).toBe(0);

  expect(await saveProgress(suite.db, present, progress)).toBe("RUNNING");
  expect(await seen(redrive)).toMatchObject({ counts: { REPLAYED: 1 }, cursor: progress.cursor });
  expect(await replaysOf(redrive)).toBe(1);
});

test("what was published counts though it was cancelled meanwhile, and does not end it anew", async () => {
  const redrive = await start();
  const claimed = (await claim(redrive, "one"))!;
  const cancelled = await controlRedrive(suite.db, redrive.group, redrive.id, "CANCELLED");
  const progress = await replayed(redrive);
  expect(await saveProgress(suite.db, claimed, { ...progress, isLast: true })).toBe("CANCELLED");
  expect(await seen(redrive)).toMatchObject({ counts: { REPLAYED: 1 }, endedAt: cancelled!.endedAt });
  expect(await claim(redrive, "one")).toBeUndefined();
});

test("a failure leaves it alone for a while, whoever asks, and resuming ends that", async () => {
  const redrive = await start();
  const claimed = (await claim(redrive, "one"))!;
  const progress = { ...(await replayed(redrive)), replayed: [], failure: { error: "away", waitMs: 60_000 } };
  await saveProgress(suite.db, claimed, progress);
  expect(await seen(redrive)).toMatchObject({
    error: "away",
    failures: 1,
    owner: undefined,
    state: "RUNNING",
  });
  expect(await claim(redrive, "one")).toBeUndefined();
  await controlRedrive(suite.db, redrive.group, redrive.id, "PAUSED");
  await controlRedrive(suite.db, redrive.group, redrive.id, "RUNNING");
  const again = (await claim(redrive, "other"))!;
  expect(again).toMatchObject({ failures: 0 });
  await saveProgress(suite.db, again, { ...progress, isLast: true, failure: undefined });
  expect(await seen(redrive)).toMatchObject({ state: "COMPLETED", error: undefined });
});

test("a paused one is claimed by nobody", async () => {
  const redrive = await start();
  await controlRedrive(suite.db, redrive.group, redrive.id, "PAUSED");
  expect(await claim(redrive, "one")).toBeUndefined();
});

test("those of a group are listed, begun last first, also where they began at one time", async () => {
  const group = randomUUID();
  for (let index = 0; index < 4; index += 1)
    await controlRedrive(suite.db, group, (await start(group)).id, "CANCELLED");
  await suite.db.pool.query("update admin.redrive set started_at = '2026-01-01' where group_id = $1", [
    group,
  ]);
  await start(group);
  await start();
  const all = await listRedrives(suite.db, { group, after: undefined, limit: 10 });
  expect(all).toHaveLength(5);
  const paged: string[] = [];
  for (let last: Redrive | undefined; ;) {
    const after = last && { time: last.startedAt, id: last.id };
    const [next] = await listRedrives(suite.db, { group, after, limit: 1 });
    if (next === undefined) break;
    paged.push(next.id);
    last = next;
  }
  expect(paged).toEqual(all.map(({ id }) => id));
  expect(all[0]!.startedAt).toBeGreaterThan(all[1]!.startedAt);
});

test("one that waits after a failure is tried again at once where it is resumed", async () => {
  const redrive = (await claim(await start(), "one"))!;
  const progress = await replayed(redrive);
  const failure = { error: "Kafka is away", waitMs: 60_000 };
  await saveProgress(suite.db, redrive, { ...progress, failure });
  expect(await claim(redrive, "one")).toBeUndefined();
  expect(await controlRedrive(suite.db, redrive.group, redrive.id, "RUNNING")).toMatchObject({ failures: 0 });
  const claimed = await claim(redrive, "other");
  expect(claimed).toMatchObject({ owner: "other" });
  // Who runs it keeps its claim.
  await controlRedrive(suite.db, redrive.group, redrive.id, "RUNNING");
  expect(await claim(redrive, "one")).toBeUndefined();
});
