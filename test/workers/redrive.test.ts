import { randomUUID } from "node:crypto";

import { expect, test } from "vitest";

import { type OutgoingRecord } from "#kafka/ports.ts";
import { topicTable } from "#kafka/topics.ts";
import {
  controlRedrive,
  getRedrive,
  type Redrive,
  type RedriveOrder,
  startRedrive,
} from "#postgres/redrives.ts";
import { createTelemetry } from "#runtime/telemetry.ts";

import { createRedriveRole, type RedriveRoleOptions } from "../../workers/redrive.ts";
import { createKeptLog } from "../kafka/broker.ts";
import { makeDeadLetters } from "../support/dead-letters.ts";
import { kafkaClient } from "../support/kafka-client.ts";
import { readTopic } from "../support/topic.ts";
import { accepted, type Bench, eventRecord, openBench } from "./bench.ts";
import { startWorkerProcess } from "./process.ts";

const soon = { timeout: 25_000, interval: 25 };

/** Makes as many dead letters, of events of four keys. */
async function letters(
  bench: Bench,
  count: number,
  change: (record: OutgoingRecord, index: number) => OutgoingRecord = (record) => record,
): Promise<void> {
  const { connection, log, telemetry } = bench.broker;
  await using producer = kafkaClient.createProducer({
    connection,
    topics: [{ name: bench.deadLetters, maxMessageBytes: 16 * 1024 * 1024 }],
    log,
    telemetry,
  });
  const records = Array.from({ length: count }, (_, index) =>
    change(eventRecord(bench, accepted({ id: `${index}`, source: `/key/${index % 4}` })), index),
  );
  await makeDeadLetters({ ...bench, producer, deadLettersPartitions: 1 }, records);
}

function order(bench: Bench, change: Partial<RedriveOrder> = {}): RedriveOrder {
  const id = randomUUID();
  return {
    id,
    group: bench.group,
    filter: "",
    reason: undefined,
    maxPerSecond: 100_000,
    startedBy: "alice",
    ...change,
  };
}

async function start(bench: Bench, change: Partial<RedriveOrder> = {}): Promise<Redrive> {
  const { begun } = await startRedrive(bench.db, order(bench, change));
  if (begun === undefined) throw new Error("another has not ended");
  return begun;
}

function idOf({ headers }: OutgoingRecord): string {
  return Buffer.from(headers.find(([name]) => name === "ce_id")?.[1] ?? []).toString();
}

interface Running extends AsyncDisposable {
  /** The messages of its log. */
  readonly lines: () => readonly string[];
  metric(name: string): Promise<number>;
}

/** A redrive role of its own. */
function run(bench: Bench, change: Partial<RedriveRoleOptions> = {}): Running {
  const { connection, admin } = bench.broker;
  const log = createKeptLog();
  const telemetry = createTelemetry(log);
  const [{ maxMessageBytes }] = topicTable({
    replication: 1,
    events: bench.events,
    eventsPartitions: bench.partitions,
    eventsRetentionMs: 1,
    deadLetters: bench.deadLetters,
    deadLettersPartitions: 1,
    deadLettersRetentionMs: 1,
  });
  const producer = kafkaClient.createProducer({
    connection,
    topics: [{ name: bench.events, maxMessageBytes }],
    log,
    telemetry,
    publishTimeoutMs: 2_000,
  });
  const role = createRedriveRole({
    db: bench.db,
    admin,
    producer,
    letters: { name: bench.deadLetters, partitions: 1 },
    owner: { group: bench.group, topic: bench.events, partitions: bench.partitions, maxMessageBytes },
    retentionMs: 7 * 24 * 3_600_000,
    name: `test/${randomUUID()}`,
    telemetry,
    log,
    pollMs: 25,
    ...change,
  });
  const stopping = new AbortController();
  const running = role.run(stopping.signal);
  return {
    lines: () => log.lines.map(([, message]) => message),
    async metric(name) {
      const line = (await telemetry.page()).body.split("\n").find((each) => each.startsWith(`${name} `));
      return Number(line?.slice(name.length + 1) ?? 0);
    },
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await running;
      await producer.close(1_000);
    },
  };
}

async function seen(bench: Bench, { id }: Redrive): Promise<Redrive> {
  const redrive = await getRedrive(bench.db, bench.group, id);
  if (redrive === undefined) throw new Error("it is gone");
  return redrive;
}

/** The ids of the events that were replayed, in the order of the log. */
async function replayedIds(bench: Bench): Promise<number[]> {
  const records = await readTopic(bench.broker.connection.brokers.join(","), bench.events);
  return records
    .filter(({ headers }) => headers.some(([name]) => name === "weir-replay-of"))
    .map(({ headers }) => Number(headers.find(([name]) => name === "ce_id")?.[1]));
}

async function unreplayed(bench: Bench): Promise<number> {
  const { rows } = await bench.db.pool.query<{ count: number }>(
    "select count(*)::int as count from consumer.dead_letter where replays <> 1",
  );
  return rows[0]!.count;
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

test("replays every letter once, in order, and marks it; a later letter is left for the next", async () => {
  await using bench = await openBench();
  await letters(bench, 1_200);
  const redrive = await start(bench);
  await bench.db.pool.query(
    `insert into consumer.dead_letter (time, record_time, "offset", partition, attempt, group_id, topic, letter_topic, reason, detail)
     values (clock_timestamp(), now(), 9000, 0, 0, $1, $2, $3, 'MALFORMED', 'after the snapshot'),
       (now() - interval '1 day', now(), 9001, 0, 3, $1, $2, $3, 'MALFORMED', 'spent'),
       (now() - interval '1 day', now(), 9002, 0, 0, $1, 'other', $3, 'MALFORMED', 'of another topic')`,
    [bench.group, bench.events, bench.deadLetters],
  );
  await using running = run(bench);
  await expect.poll(async () => (await seen(bench, redrive)).state, soon).toBe("COMPLETED");
  const done = await seen(bench, redrive);
  expect(done.counts).toEqual({ REPLAYED: 1_200, BUDGET_EXHAUSTED: 1, FOREIGN_TOPIC: 1 });
  expect(done.error).toBeUndefined();
  expect(done.endedAt).toBeGreaterThan(done.startedAt);
  expect(await replayedIds(bench)).toEqual(upTo(1_200));
  expect(await unreplayed(bench)).toBe(3);
  expect(await running.metric('weir_redrive_letters_total{outcome="replayed"}')).toBe(1_200);
});

test("takes letters of one reason alone", async () => {
  await using bench = await openBench();
  await letters(bench, 10);
  await bench.db.pool.query(`update consumer.dead_letter set reason = 'MALFORMED' where "offset" % 2 = 0`);
  const redrive = await start(bench, { reason: "MALFORMED" });
  await using _running = run(bench);
  await expect.poll(async () => (await seen(bench, redrive)).state, soon).toBe("COMPLETED");
  expect(await replayedIds(bench)).toEqual([0, 2, 4, 6, 8]);
});

test("takes letters that match its filter alone, whose times count from its start", async () => {
  await using bench = await openBench();
  await letters(bench, 10);
  await bench.db.pool.query(
    `update consumer.dead_letter set time = now() - interval '2 hours' where "offset" % 2 = 0`,
  );
  const redrive = await start(bench, { filter: "offset >= 4 AND time < now-1h" });
  // However long it waits to be run.
  await bench.db.pool.query("update admin.redrive set snapshot_time = snapshot_time - interval '90 minutes'");
  await bench.db.pool.query(
    `update consumer.dead_letter set time = time - interval '1 hour' where "offset" in (6, 8)`,
  );
  await using _running = run(bench);
  await expect.poll(async () => (await seen(bench, redrive)).state, soon).toBe("COMPLETED");
  expect(await replayedIds(bench)).toEqual([6, 8]);
});

test("is one at a time for a group, and the second is told of the first", async () => {
  await using bench = await openBench();
  const first = await start(bench);
  expect(await startRedrive(bench.db, order(bench))).toEqual({ begun: undefined, open: first.id });
  expect((await startRedrive(bench.db, order(bench, { group: "another" }))).begun).toBeDefined();
  await controlRedrive(bench.db, bench.group, first.id, "CANCELLED");
  await start(bench);
});

test("keeps to its rate", async () => {
  await using bench = await openBench();
  await letters(bench, 150);
  const redrive = await start(bench, { maxPerSecond: 50 });
  await using _running = run(bench);
  await expect.poll(async () => (await seen(bench, redrive)).state, soon).toBe("COMPLETED");
  const { startedAt, endedAt } = await seen(bench, redrive);
  // The third 50 come two seconds after the first.
  expect(Number(endedAt! - startedAt) / 1e6).toBeGreaterThan(1.9);
  expect(await unreplayed(bench)).toBe(0);
});

test("pauses, resumes and is cancelled within a chunk", async () => {
  await using bench = await openBench();
  await letters(bench, 200);
  const redrive = await start(bench, { maxPerSecond: 10 });
  await using _running = run(bench);
  const replayed = async (): Promise<number> => (await seen(bench, redrive)).counts.REPLAYED ?? 0;
  await expect.poll(replayed, soon).toBeGreaterThan(0);
  const before = await replayed();
  await controlRedrive(bench.db, bench.group, redrive.id, "PAUSED");
  await expect.poll(async () => (await seen(bench, redrive)).owner, soon).toBeUndefined();
  const paused = await replayed();
  expect(paused - before).toBeLessThanOrEqual(10);
  expect((await replayedIds(bench)).length).toBe(paused);
  await controlRedrive(bench.db, bench.group, redrive.id, "RUNNING");
  await expect.poll(replayed, soon).toBeGreaterThan(paused);
  const cancelled = await controlRedrive(bench.db, bench.group, redrive.id, "CANCELLED");
  // One that begins then shows that nobody is at work on the former.
  const next = await start(bench);
  await expect.poll(async () => (await seen(bench, next)).state, soon).toBe("COMPLETED");
  const end = await seen(bench, redrive);
  expect(end.state).toBe("CANCELLED");
  expect(end.endedAt).toBe(cancelled!.endedAt);
  expect((end.counts.REPLAYED ?? 0) - cancelled!.counts.REPLAYED!).toBeLessThanOrEqual(10);
  expect((await controlRedrive(bench.db, bench.group, redrive.id, "RUNNING"))!.state).toBe("CANCELLED");
  expect(new Set(await replayedIds(bench))).toEqual(new Set(upTo(200)));
});

test("stops after the chunk in which it is paused or cancelled, however fast it is", async () => {
  for (const to of ["PAUSED", "CANCELLED"] as const) {
    await using bench = await openBench();
    await letters(bench, 1_300);
    const redrive = await start(bench);
    const { connection, log, telemetry } = bench.broker;
    const topics = [{ name: bench.events, maxMessageBytes: 1_048_576 }];
    await using producer = kafkaClient.createProducer({ connection, topics, log, telemetry });
    let published = 0;
    const publish: typeof producer.publish = async (record, signal) => {
      published += 1;
      if (published === 10) await controlRedrive(bench.db, bench.group, redrive.id, to);
      return producer.publish(record, signal);
    };
    await using running = run(bench, { producer: { publish } });
    await expect.poll(() => running.lines(), soon).toContain("A redrive is let go");
    const { state, counts, owner, cursor } = await seen(bench, redrive);
    expect({ state, counts, published }).toEqual({ state: to, counts: { REPLAYED: 500 }, published: 500 });
    expect(cursor?.offset).toBe(499n);
    expect(owner === undefined).toBe(to === "PAUSED");
  }
});

test("of two workers one runs it, and one whose claim is lost publishes and writes nothing more", async () => {
  await using bench = await openBench();
  await letters(bench, 300);
  const redrive = await start(bench, { maxPerSecond: 50 });
  await using one = run(bench);
  await using other = run(bench);
  await expect.poll(async () => (await seen(bench, redrive)).counts.REPLAYED ?? 0, soon).toBeGreaterThan(0);
  expect((await seen(bench, redrive)).epoch).toBe(1n);
  await bench.db.pool.query("update admin.redrive set epoch = epoch + 1, owner = 'x', lease_until = null");
  await expect.poll(async () => (await seen(bench, redrive)).state, soon).toBe("COMPLETED");
  const fenced = 'weir_redrive_chunks_total{outcome="fenced"}';
  expect((await one.metric(fenced)) + (await other.metric(fenced))).toBe(1);
  const ids = await replayedIds(bench);
  expect(new Set(ids)).toEqual(new Set(upTo(300)));
  expect(ids.length).toBeLessThanOrEqual(350);
});

test("where Kafka takes nothing it waits, names the letter and the reason, and goes on without a gap", async () => {
  await using bench = await openBench();
  await letters(bench, 40);
  const redrive = await start(bench, { maxPerSecond: 10 });
  let isAway = false;
  const { connection, log, telemetry } = bench.broker;
  await using producer = kafkaClient.createProducer({
    connection,
    topics: [{ name: bench.events, maxMessageBytes: 1_048_576 }],
    log,
    telemetry,
  });
  await using _running = run(bench, {
    producer: {
      // From the middle of a chunk on its topic is not there.
      publish: (record, signal) =>
        producer.publish(
          isAway && idOf(record).endsWith("5") ? { ...record, topic: "not-there" } : record,
          signal,
        ),
    },
  });
  await expect.poll(async () => (await seen(bench, redrive)).counts.REPLAYED ?? 0, soon).toBeGreaterThan(0);
  isAway = true;
  await expect
    .poll(async () => (await seen(bench, redrive)).error, soon)
    .toMatch(
      /^Kafka did not take the record of deadLetters\/.*5: this producer was not made for topic not-there$/,
    );
  const { state, cursor, failures } = await seen(bench, redrive);
  expect(state).toBe("RUNNING");
  expect(failures).toBeGreaterThan(0);
  expect(cursor!.offset % 10n).toBe(9n);
  isAway = false;
  await expect.poll(async () => (await seen(bench, redrive)).state, soon).toBe("COMPLETED");
  expect(await seen(bench, redrive)).toMatchObject({ error: undefined, counts: { REPLAYED: 40 } });
  expect(new Set(await replayedIds(bench))).toEqual(new Set(upTo(40)));
});

test("a record that is refused for its own sake is counted and passed over, and so is one too large to be sent", async () => {
  await using bench = await openBench();
  await letters(bench, 40, (record, index) =>
    // The topic has taken it, and not with the headers of a replay.
    index === 7 ? { ...record, value: new Uint8Array(2 * 1024 * 1024 - 61 - 200) } : record,
  );
  const redrive = await start(bench);
  const { connection, log, telemetry } = bench.broker;
  await using producer = kafkaClient.createProducer({
    connection,
    topics: [{ name: bench.events, maxMessageBytes: 16 * 1024 * 1024 }],
    log,
    telemetry,
  });
  await using running = run(bench, {
    producer: {
      // The broker itself refuses them, each in a batch with others.
      publish: (record, signal) =>
        producer.publish(
          idOf(record).endsWith("5") ? { ...record, value: new Uint8Array(3_000_000) } : record,
          signal,
        ),
    },
  });
  await expect.poll(async () => (await seen(bench, redrive)).state, soon).toBe("COMPLETED");
  expect(await seen(bench, redrive)).toMatchObject({
    error: undefined,
    counts: { REPLAYED: 35, REFUSED: 4, TOO_LARGE: 1 },
  });
  const left = [5, 7, 15, 25, 35];
  expect((await replayedIds(bench)).toSorted((a, b) => a - b)).toEqual(
    upTo(40).filter((id) => !left.includes(id)),
  );
  const { rows } = await bench.db.pool.query<{ offset: string }>(
    'select "offset" from consumer.dead_letter where replayed_at is null order by "offset"',
  );
  expect(rows.map(({ offset }) => Number(offset))).toEqual(left);
  expect(await running.metric('weir_redrive_letters_total{outcome="too_large"}')).toBe(1);
  expect(await running.metric('weir_redrive_letters_total{outcome="refused"}')).toBe(4);
  expect(running.lines().filter((line) => line.includes("which a redrive passes over"))).toHaveLength(4);
});

test("killed midway it is taken up by another worker, and every record is a row exactly once", async () => {
  await using bench = await openBench();
  await letters(bench, 3_000);
  const redrive = await start(bench, { maxPerSecond: 1_000 });
  await using persist = await startWorkerProcess(bench, { WEIR_WORKER_ROLES: "persist" });
  {
    await using killed = await startWorkerProcess(bench, { WEIR_WORKER_ROLES: "redrive" });
    await expect
      .poll(async () => (await seen(bench, redrive)).counts.REPLAYED ?? 0, soon)
      .toBeGreaterThan(500);
    process.kill(killed.child.pid, "SIGKILL");
    await killed.child.exited;
  }
  const before = await seen(bench, redrive);
  expect(before).toMatchObject({ state: "RUNNING" });
  // Its lease is what keeps others away; that it ends is the database's clock, which no test waits for.
  await bench.db.pool.query("update admin.redrive set lease_until = now()");
  await using _other = await startWorkerProcess(bench, { WEIR_WORKER_ROLES: "redrive" });
  await expect.poll(async () => (await seen(bench, redrive)).state, soon).toBe("COMPLETED");
  const done = await seen(bench, redrive);
  expect(done).toMatchObject({ epoch: before.epoch + 1n, counts: { REPLAYED: 3_000 } });
  expect(await unreplayed(bench)).toBe(0);
  await expect.poll(() => bench.rows(), soon).toBe(3_000);
  const ids = await replayedIds(bench);
  expect(new Set(ids)).toEqual(new Set(upTo(3_000)));
  expect(ids.length).toBeLessThanOrEqual(3_500);
  expect(persist.output()).not.toContain("conflict");
}, 90_000);
