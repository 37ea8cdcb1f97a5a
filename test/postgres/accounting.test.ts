import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";

import { type SetAsideRecord } from "#postgres/accounting.ts";
import { type Claim, persistBatch, takeOver } from "#postgres/claims.ts";

import { sketchEvent, useDatabase } from "./fixture.ts";

const suite = useDatabase();

const claimFresh = (): Promise<Claim> =>
  takeOver(suite.db, { group: "weir.persist.v1", topic: `events-${randomUUID()}`, partition: 3, owner: "a" });
const letterOf = (
  { topic, partition }: Claim,
  offset: bigint,
  change: Partial<SetAsideRecord> = {},
): SetAsideRecord => ({
  position: { topic, partition, offset },
  reason: "MALFORMED",
  detail: "not JSON",
  time: 1_796_000_000_123,
  recordTime: 1_795_000_000_000,
  attempt: 0,
  value: new TextEncoder().encode("x".repeat(600)),
  event: undefined,
  principal: undefined,
  letter: { topic: "letters", partition: 1, offset: 7n },
  ...change,
});
const rowsOf = async (table: string, topic: string): Promise<unknown[]> => {
  const { rows } = await suite.db.pool.query<{ row: unknown }>(
    `select to_jsonb(t) as row from ${table} as t where topic = $1
     order by to_jsonb(t)->'offset', to_jsonb(t)->'from_offset'`,
    [topic],
  );
  return rows.map(({ row }) => row);
};

test("a batch of nothing but poison moves the checkpoint, and its letters have their rows", async () => {
  const claim = await claimFresh();
  const whole = sketchEvent({ offset: 1n, subject: "s", time: "2026-11-30T10:00:00Z" });
  const deadLetters = [
    letterOf(claim, 0n, { value: null, attempt: 2, principal: "alice" }),
    letterOf(claim, 1n, { reason: "UNPERSISTABLE", event: whole.event }),
  ];
  const batch = { events: [], deadLetters, skips: [], nextOffset: 2n };
  expect(await persistBatch(suite.db, claim, batch)).toMatchObject({ outcome: "stored", written: 0 });
  const common = {
    group_id: claim.group,
    topic: claim.topic,
    partition: 3,
    time: "2026-11-30T00:53:20.123+00:00",
    letter_topic: "letters",
    letter_partition: 1,
    letter_offset: 7,
    replays: 0,
    replayed_at: null,
  };
  const none = { source: null, id: null, type: null, subject: null, event_time: null };
  expect(await rowsOf("consumer.dead_letter", claim.topic)).toMatchObject([
    { ...common, ...none, offset: 0, attempt: 2, value_size: null, preview: null, principal: "alice" },
    {
      ...common,
      offset: 1,
      reason: "UNPERSISTABLE",
      value_size: 600,
      preview: `\\x${"78".repeat(512)}`,
      source: "/test",
      id: whole.event.id,
      type: "com.example.test",
      subject: "s",
      event_time: "2026-11-30T10:00:00+00:00",
      principal: null,
    },
  ]);
  expect(await takeOver(suite.db, { ...claim, owner: "b" })).toMatchObject({ nextOffset: 2n, highWater: 2n });
});

test("a letter that was written twice keeps its first row, which points to the one that compaction keeps", async () => {
  const claim = await claimFresh();
  const again = { letter: { topic: "letters", partition: 1, offset: 8n }, time: 1_796_000_009_000 };
  for (const change of [{}, again]) {
    const batch = { events: [], deadLetters: [letterOf(claim, 0n, change)], skips: [], nextOffset: 1n };
    expect(await persistBatch(suite.db, claim, batch)).toMatchObject({ outcome: "stored" });
  }
  expect(await rowsOf("consumer.dead_letter", claim.topic)).toMatchObject([
    { letter_offset: 8, time: "2026-11-30T00:53:20.123+00:00" },
  ]);
});

test("whatever a record brings, PostgreSQL takes the row of its letter", async () => {
  const claim = await claimFresh();
  const long = "x".repeat(100_000);
  const hostile = { source: "\0", id: long, type: "\ud800", subject: "a\0b" };
  const { event } = sketchEvent({ offset: 0n, ...hostile, time: "0001-01-01T00:00:00Z" });
  const deadLetters = [
    letterOf(claim, 0n, { detail: "\0\ud800", principal: "\0", event, recordTime: Number.MAX_SAFE_INTEGER }),
    letterOf(claim, 1n, { recordTime: -Number.MAX_SAFE_INTEGER, value: new Uint8Array(), attempt: 999_999 }),
  ];
  const batch = { events: [], deadLetters, skips: [], nextOffset: 2n };
  expect(await persistBatch(suite.db, claim, batch)).toMatchObject({ outcome: "stored" });
  expect(await rowsOf("consumer.dead_letter", claim.topic)).toMatchObject([
    {
      detail: "\uFFFD\uFFFD",
      principal: "\uFFFD",
      source: "\uFFFD",
      id: `${long.slice(0, 512)}…`,
      type: "\uFFFD",
      subject: "a\uFFFDb",
      record_time: "9999-12-31T23:59:59.999+00:00",
    },
    { record_time: "0001-01-01T00:00:00+00:00", value_size: 0, attempt: 999_999 },
  ]);
});

test("a repeat has a row that says whether it differs, once, however often it is read", async () => {
  const claim = await claimFresh();
  const at = (offset: bigint, data: string) =>
    sketchEvent({
      topic: claim.topic,
      partition: 3,
      offset,
      id: claim.topic,
      time: "2026-11-30T10:00:00Z",
      data: new TextEncoder().encode(data),
    });
  const events = [at(0n, "one"), at(1n, "one"), at(2n, "two")];
  const batch = { events, deadLetters: [], skips: [], nextOffset: 3n };
  const counts = { outcome: "stored", duplicates: 1, conflicts: 1 };
  expect(await persistBatch(suite.db, claim, batch)).toEqual({ ...counts, written: 1, redelivered: 0 });
  expect(await persistBatch(suite.db, claim, batch)).toEqual({ ...counts, written: 0, redelivered: 1 });
  const common = { source: "/test", id: claim.topic, occurred_at: "2026-11-30T10:00:00+00:00" };
  expect(await rowsOf("events.duplicate", claim.topic)).toMatchObject([
    { ...common, offset: 1, differs: false },
    { ...common, offset: 2, differs: true },
  ]);
});

test("what was passed without a record has a row, which grows where the same range is passed in other portions", async () => {
  const claim = await claimFresh();
  const pass = (...skips: [bigint, bigint][]) =>
    persistBatch(suite.db, claim, {
      events: [],
      deadLetters: [],
      skips: skips.map(([from, to]) => ({ from, to, kind: "NO_RECORD" as const })),
      nextOffset: 20n,
    });
  await pass([2n, 5n], [7n, 8n]);
  await pass([2n, 9n], [7n, 8n]);
  await pass([2n, 4n]);
  expect(await rowsOf("consumer.skip", claim.topic)).toMatchObject([
    { from_offset: 2, to_offset: 9, kind: "NO_RECORD", group_id: claim.group, partition: 3 },
    { from_offset: 7, to_offset: 8 },
  ]);
});

test("nothing of a batch is accounted for where it is fenced, or refused", async () => {
  const claim = await claimFresh();
  const event = sketchEvent({
    offset: 0n,
    topic: claim.topic,
    id: claim.topic,
    time: "2026-11-30T10:00:00Z",
  });
  const repeat = { ...event, position: { ...event.position, offset: 1n } };
  const batch = {
    events: [event, repeat],
    deadLetters: [letterOf(claim, 2n)],
    skips: [{ from: 3n, to: 4n, kind: "NO_RECORD" as const }],
    nextOffset: 4n,
  };
  const poison = { ...event, event: { ...event.event, id: "other", subject: "\0" } };
  await expect(
    persistBatch(suite.db, claim, { ...batch, events: [...batch.events, poison] }),
  ).rejects.toMatchObject({ code: "22021" });
  const present = await takeOver(suite.db, { ...claim, owner: "b" });
  expect(await persistBatch(suite.db, claim, batch)).toEqual({ outcome: "fenced" });
  const tables = ["events.event", "events.duplicate", "consumer.dead_letter", "consumer.skip"];
  for (const table of tables) expect(await rowsOf(table, claim.topic)).toEqual([]);
  await persistBatch(suite.db, present, batch);
  for (const table of tables) expect(await rowsOf(table, claim.topic)).toHaveLength(1);
});
