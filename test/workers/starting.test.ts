import { expect, test } from "vitest";

import { type OutgoingRecord } from "#kafka/ports.ts";
import { persistBatch, takeOver } from "#postgres/claims.ts";
import { accountFor, passedBy } from "#postgres/log-audit.ts";

import { type Bench, eventRecords, openBench, type Worker } from "./bench.ts";

const soon = { timeout: 20_000, interval: 50 };

/** Accounts for a partition up to an offset, as a worker of the past would have. */
async function setCheckpoint(bench: Bench, nextOffset: bigint, partition = 0): Promise<void> {
  const claim = await takeOver(bench.db, {
    group: bench.group,
    topic: bench.events,
    partition,
    owner: "past",
  });
  await persistBatch(bench.db, claim, { events: [], deadLetters: [], skips: [], nextOffset });
}

async function storedOffsets(bench: Bench, partition = 0): Promise<number[]> {
  const { rows } = await bench.db.pool.query<{ offset: string }>(
    `select "offset" from events.event where partition = $1 order by "offset"`,
    [partition],
  );
  return rows.map(({ offset }) => Number(offset));
}

const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from }, (_, index) => from + index);

test("starts at the checkpoint, whatever Kafka has committed", async () => {
  await using bench = await openBench(2);
  await bench.publish(...eventRecords(bench, 10, 0), ...eventRecords(bench, 10, 1));
  await setCheckpoint(bench, 4n, 0);
  await setCheckpoint(bench, 4n, 1);
  // Behind the checkpoint on one partition, beyond it on the other.
  await bench.commit({ 0: 2, 1: 9 });
  await using _worker = bench.work();
  await expect.poll(() => bench.committed(0), soon).toBe(10n);
  await expect.poll(() => bench.committed(1), soon).toBe(10n);
  expect(await storedOffsets(bench, 0)).toEqual(range(4, 10));
  expect(await storedOffsets(bench, 1)).toEqual(range(4, 10));
});

test("starts at the checkpoint where Kafka has forgotten the group", async () => {
  await using bench = await openBench();
  await bench.publish(...eventRecords(bench, 6));
  await setCheckpoint(bench, 4n);
  await using _worker = bench.work();
  await expect.poll(() => bench.committed(0), soon).toBe(6n);
  expect(await storedOffsets(bench)).toEqual([4, 5]);
});

test("without a checkpoint starts at Kafka's committed offset, without either at the earliest", async () => {
  await using bench = await openBench(2);
  await bench.publish(...eventRecords(bench, 10, 0), ...eventRecords(bench, 10, 1));
  await bench.commit({ 1: 7 });
  await using worker = bench.work();
  await expect.poll(() => bench.checkpoint(0), soon).toBe(10n);
  await expect.poll(() => bench.checkpoint(1), soon).toBe(10n);
  expect(await storedOffsets(bench, 0)).toEqual(range(0, 10));
  expect(await storedOffsets(bench, 1)).toEqual(range(7, 10));
  // What another database may hold is not passed over in silence.
  expect(await worker.metric(`weir_persist_gaps_total{topic="${bench.events}"}`)).toBe(7);
  expect(worker.log.lines.filter(([level]) => level === "error")).toHaveLength(1);
  expect(await skips(bench)).toEqual([{ partition: 1, from: 0, to: 7, kind: "ELSEWHERE" }]);
});

test("a checkpoint below the log's start is a gap: counted once, alarmed with its numbers, and read on from the start", async () => {
  await using bench = await openBench();
  await bench.publish(...eventRecords(bench, 10));
  await setCheckpoint(bench, 2n);
  await bench.broker.deleteRecords(bench.events, 0, 6n);
  {
    await using worker = bench.work();
    await expect.poll(() => bench.committed(0), soon).toBe(10n);
    expect(await storedOffsets(bench)).toEqual(range(6, 10));
    expect(await gaps(bench, worker)).toBe(4);
    const alarm = worker.log.lines.find(
      ([level, message]) => level === "error" && message.includes("left the log"),
    );
    expect(alarm?.[2]).toMatchObject({
      topic: bench.events,
      partition: 0,
      records: 4n,
      checkpoint: 2n,
      logStart: 6n,
    });
  }
  await using later = bench.work();
  await expect.poll(() => later.persist.progress, soon).toMatchObject([{ state: "assigned" }]);
  expect(await gaps(bench, later)).toBe(0);
  expect(await skips(bench)).toEqual([{ partition: 0, from: 2, to: 6, kind: "LOST" }]);
});

test("a gap is counted once though nothing is left on the log", async () => {
  await using bench = await openBench();
  await bench.publish(...eventRecords(bench, 10));
  await setCheckpoint(bench, 2n);
  await bench.broker.deleteRecords(bench.events, 0, 10n);
  await using worker = bench.work();
  await expect.poll(() => gaps(bench, worker), soon).toBe(8);
  expect(await bench.checkpoint(0)).toBe(10n);
});

test("a checkpoint beyond the log's end fails the partition by name, and the others go on", async () => {
  await using bench = await openBench(2);
  await bench.publish(...eventRecords(bench, 5, 0), ...eventRecords(bench, 5, 1));
  await setCheckpoint(bench, 50n, 0);
  await using worker = bench.work();
  await expect.poll(() => bench.committed(1), soon).toBe(5n);
  await expect
    .poll(() => worker.persist.progress, soon)
    .toContainEqual(expect.objectContaining({ partition: 0, state: "failed" }));
  expect(worker.role.fault).toMatch(
    new RegExp(
      `^FAILED: the checkpoint of ${bench.events}/0 in group ${bench.group} is 50, beyond the log's end 5`,
    ),
  );
  expect(await worker.metric(`weir_consumer_partitions{group="${bench.group}",state="failed"}`)).toBe(1);
  await expect.poll(() => worker.role.failed, soon).toBe(true);
  expect(await bench.checkpoint(0)).toBe(50n);

  // The log grows past the checkpoint: it is still another log, and what it holds below would be skipped.
  await bench.publish(...eventRecords(bench, 60, 0), ...eventRecords(bench, 1, 1));
  await expect.poll(() => bench.committed(1), soon).toBe(6n);
  const tries = (): number =>
    worker.log.lines.filter(([, message]) => message.startsWith("A partition failed")).length;
  const before = tries();
  await expect.poll(tries, soon).toBeGreaterThan(before);
  expect(await storedOffsets(bench, 0)).toEqual([]);

  // The fault says what puts it right, as one statement to paste.
  await bench.db.pool.query(/update consumer\.checkpoint [^;]*;/.exec(worker.role.fault ?? "")?.[0] ?? "");
  await expect.poll(() => bench.committed(0), { ...soon, timeout: 40_000 }).toBe(65n);
  expect(await storedOffsets(bench, 0)).toEqual(range(0, 65));
  await expect.poll(() => worker.role.fault).toBeUndefined();
  expect(worker.role.failed).toBe(false);
}, 90_000);

test("a topic made anew fails its partition, however long its log is, and after the cure all of it is stored and audited", async () => {
  await using bench = await openBench();
  const undecodable: OutgoingRecord = {
    topic: bench.events,
    partition: 0,
    key: null,
    value: Buffer.from("no event"),
    headers: [],
    timestamp: Date.now(),
  };
  const repeated = eventRecords(bench, 2);
  await bench.publish(...repeated, ...eventRecords(bench, 2), undecodable, repeated[0]!);
  {
    await using _worker = bench.work();
    await expect.poll(() => bench.committed(0), soon).toBe(6n);
  }
  expect(await audited(bench)).toEqual({ stored: 4n, duplicates: 1n, deadLetters: 1n, unaccounted: [] });

  // At the offset of a row there is a letter now, of a letter a row, of a repeat a row; and an event that is there already.
  await bench.broker.remake(bench.events, 1);
  const same = repeated[1]!;
  const fresh = eventRecords(bench, 6);
  await bench.publish(undecodable, same, ...fresh);
  await using worker = bench.work();
  await expect.poll(() => worker.persist.progress, soon).toMatchObject([{ state: "failed" }]);
  expect(worker.role.fault).toMatch(/^FAILED: .* is 6, and the topic was made anew since\./);
  expect(worker.role.failed).toBe(true);
  expect(await bench.checkpoint(0)).toBe(6n);
  expect(await bench.rows()).toBe(4);

  await bench.db.pool.query(/update consumer\.checkpoint [^;]*;/.exec(worker.role.fault ?? "")?.[0] ?? "");
  expect(await audited(bench)).toMatchObject({ stored: 0n, unaccounted: [] });
  await expect.poll(() => bench.checkpoint(0), { ...soon, timeout: 40_000 }).toBe(8n);
  expect(await audited(bench)).toEqual({ stored: 6n, duplicates: 1n, deadLetters: 1n, unaccounted: [] });
  expect(await bench.rows()).toBe(10);

  // What this log has lost is told, though the other one has rows at the same offsets.
  await bench.db.pool.query(`delete from events.event where "offset" = 2 and stored_at > $1`, [
    await logSince(bench),
  ]);
  await bench.db.pool.query("delete from consumer.dead_letter");
  await bench.db.pool.query("delete from events.duplicate");
  expect(await audited(bench)).toMatchObject({ stored: 5n, unaccounted: [{ from: 0n, to: 3n }] });
}, 90_000);

test("a log that was shorter is refused by whoever takes the partition over, though it has grown past the checkpoint", async () => {
  await using bench = await openBench();
  await bench.publish(...eventRecords(bench, 5));
  await setCheckpoint(bench, 50n);
  {
    await using worker = bench.work();
    await expect.poll(() => worker.persist.progress, soon).toMatchObject([{ state: "failed" }]);
  }
  await bench.publish(...eventRecords(bench, 60));
  await using next = bench.work();
  await expect.poll(() => next.persist.progress, soon).toMatchObject([{ state: "failed" }]);
  expect(next.role.fault).toMatch(/ is 50, and was beyond the log's end, which is 65 by now\./);
  expect(await bench.rows()).toBe(0);
}, 60_000);

test("a checkpoint of before takes the log that it meets for its own, once", async () => {
  await using bench = await openBench();
  await bench.publish(...eventRecords(bench, 5));
  await setCheckpoint(bench, 2n);
  {
    await using _worker = bench.work();
    await expect.poll(() => bench.committed(0), soon).toBe(5n);
  }
  await bench.broker.remake(bench.events, 1);
  await bench.publish(...eventRecords(bench, 9));
  await using worker = bench.work();
  await expect.poll(() => worker.persist.progress, soon).toMatchObject([{ state: "failed" }]);
}, 60_000);

async function logSince(bench: Bench): Promise<string> {
  return (await passedBy(bench.db, { group: bench.group, topic: bench.events })).get(0)!.logSince;
}

/** What the audit says of partition 0. */
async function audited(bench: Bench): Promise<unknown> {
  const known = (await passedBy(bench.db, { group: bench.group, topic: bench.events })).get(0)!;
  const range = { group: bench.group, topic: bench.events, partition: 0, from: 0n, to: known.highWater };
  const accounts = await accountFor(
    bench.db,
    { ...range, logSince: known.logSince },
    AbortSignal.timeout(9_000),
  );
  const { stored, duplicates, deadLetters, unaccountedRanges: unaccounted } = accounts;
  return { stored, duplicates, deadLetters, unaccounted };
}

/** What the checkpoint passed without a record, by its partition. */
async function skips(bench: Bench): Promise<unknown> {
  const { rows } = await bench.db.pool.query(
    "select partition, from_offset::int as from, to_offset::int as to, kind from consumer.skip order by 1, 2",
  );
  return rows;
}

async function gaps(bench: Bench, worker: Worker): Promise<number> {
  return worker.metric(`weir_persist_gaps_total{topic="${bench.events}"}`);
}
