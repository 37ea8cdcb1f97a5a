import { expect, test } from "vitest";

import { encodeDeadLetter } from "#core/dead-letter.ts";
import { type LogPosition } from "#core/event.ts";
import { timestampFrom } from "#core/timestamp.ts";
import { type Admin, type OutgoingRecord } from "#kafka/ports.ts";
import { createTelemetry } from "#runtime/telemetry.ts";

import { createReconcile, type Reconcile } from "../../workers/reconcile.ts";
import { makeDeadLetters } from "../support/dead-letters.ts";
import { kafkaClient } from "../support/kafka-client.ts";
import { accepted, type Bench, eventRecord, openBench } from "./bench.ts";

const NOW = new Date();
const NEVER = new AbortController().signal;
const text = (value: string): Buffer => Buffer.from(value);

interface Reconciling {
  readonly reconcile: Reconcile;
  readonly count: (outcome: "restored" | "moved" | "foreign") => Promise<number>;
}

function reconciling(
  { db, deadLetters, broker, group, events, partitions }: Bench,
  admin: Pick<Admin, "logRanges" | "readFrom"> = broker.admin,
): Reconciling {
  const telemetry = createTelemetry(broker.log);
  const letters = { name: deadLetters };
  return {
    reconcile: createReconcile({
      db,
      admin,
      letters,
      owner: { group, topic: events, partitions },
      telemetry,
      log: broker.log,
    }),
    async count(outcome) {
      const name = `weir_dead_letters_reconciled_total{outcome="${outcome}"}`;
      const line = (await telemetry.page()).body.split("\n").find((each) => each.startsWith(`${name} `));
      return Number(line?.slice(name.length + 1) ?? 0);
    },
  };
}

/** Puts records on the dead-letter topic. */
async function publish(bench: Bench, records: readonly Partial<OutgoingRecord>[]): Promise<void> {
  const { connection, log, telemetry } = bench.broker;
  const topics = [{ name: bench.deadLetters, maxMessageBytes: 16 * 1024 * 1024 }];
  await using producer = kafkaClient.createProducer({ connection, topics, log, telemetry });
  const plain = { topic: bench.deadLetters, partition: 0, key: null, value: null, headers: [], timestamp: 1 };
  for (const record of records) {
    const result = await producer.publish({ ...plain, ...record });
    expect(result.outcome).toBe("acknowledged");
  }
}

/** Dead letters of as many events, with the rows that a worker makes of them. */
async function letters(bench: Bench, count: number): Promise<void> {
  const { connection, log, telemetry } = bench.broker;
  const topics = [{ name: bench.deadLetters, maxMessageBytes: 16 * 1024 * 1024 }];
  await using producer = kafkaClient.createProducer({ connection, topics, log, telemetry });
  const records = Array.from({ length: count }, (_, index) =>
    eventRecord(
      bench,
      accepted({ id: `${index}`, data: { bytes: text(`data ${index}`), protoType: undefined } }),
    ),
  );
  await makeDeadLetters({ ...bench, producer, deadLettersPartitions: 1 }, records);
}

async function index(bench: Bench): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const { rows } = await bench.db.pool.query<Record<string, unknown>>(
    `select group_id, topic, partition, "offset", time, record_time, attempt, reason, detail, letter_topic, letter_partition,
       letter_offset, value_size, preview, replays from consumer.dead_letter order by "offset"`,
  );
  return rows;
}

function letterOf(
  bench: Bench,
  offset: bigint,
  change: { group?: string; attempt?: number } = {},
): OutgoingRecord {
  const letter = encodeDeadLetter({
    reason: "MALFORMED",
    detail: "made by a test",
    group: bench.group,
    position: { topic: bench.events, partition: 0, offset },
    timestamp: 5,
    attempt: 0,
    key: null,
    headers: [["weir-principal", text("bob")]],
    value: text("x"),
    time: timestampFrom(1_700_000_000, 0),
    ...change,
  });
  return { topic: bench.deadLetters, partition: 0, ...letter, timestamp: 1 };
}

test("rows that a database has lost come back as they were, a day later at the latest", async () => {
  await using bench = await openBench();
  await letters(bench, 300);
  const { reconcile, count } = reconciling(bench);
  await reconcile(NOW, NEVER);
  expect(await count("restored")).toBe(0);
  const before = await index(bench);
  expect(before).toHaveLength(300);

  await bench.db.pool.query('delete from consumer.dead_letter where "offset" % 3 = 0');
  await reconcile(new Date(NOW.getTime() + 23 * 3_600_000), NEVER);
  expect(await index(bench)).toHaveLength(200);
  await reconcile(new Date(NOW.getTime() + 25 * 3_600_000), NEVER);
  expect(await index(bench)).toEqual(before);
  expect(await count("restored")).toBe(100);

  // A database that was restored from before all of this has no position either.
  await bench.db.pool.query("delete from consumer.dead_letter");
  await bench.db.pool.query("delete from consumer.letter_scan");
  await reconcile(NOW, NEVER);
  expect(await index(bench)).toEqual(before);
  const { rows } = await bench.db.pool.query(
    'select source, id from consumer.dead_letter where "offset" = 7',
  );
  expect(rows).toEqual([{ source: "/test", id: "7" }]);
});

test("what is no letter of Weir's is listed with the reason, and forgotten once it has left the log", async () => {
  await using bench = await openBench();
  const letter = letterOf(bench, 1n);
  await publish(bench, [
    letter,
    { key: text("k\0"), value: text("\0no letter"), timestamp: 1_700_000_000_000 },
    { key: text("tombstone") },
    { ...letter, key: text("another key") },
    letterOf(bench, 2n, { attempt: 2 ** 40 }),
    letterOf(bench, 3n, { group: "" }),
    letterOf(bench, 4n, { group: "g".repeat(5_000) }),
    letterOf(bench, 5n, { group: "nul\0" }),
    { key: new Uint8Array(2_000).fill(0xfe), value: new Uint8Array(2_000).fill(0xff) },
  ]);
  const { reconcile, count } = reconciling(bench);
  await reconcile(NOW, NEVER);
  expect(await index(bench)).toMatchObject([{ offset: "1", letter_offset: "0", replays: 0 }]);
  const { rows } = await bench.db.pool.query<Record<string, unknown>>(
    'select "offset", why, value_size, key_preview, preview, time from consumer.foreign_letter order by "offset"',
  );
  expect(rows.map(({ offset, why }) => [offset, why])).toEqual([
    ["1", expect.stringContaining("It is no dead letter: ")],
    ["2", "It has no value."],
    ["3", "Its key is not that of the letter that it holds."],
    ["4", "It names a record that no log can have."],
    ["5", "It names a record that no log can have."],
    ["6", "It names a record that no log can have."],
    ["7", expect.stringContaining("It is no dead letter: ")],
    ["8", expect.stringContaining("It is no dead letter: ")],
  ]);
  expect(rows[0]).toMatchObject({ value_size: 10, key_preview: text("k\0"), preview: text("\0no letter") });
  expect(rows[0]!["time"]).toEqual(new Date(1_700_000_000_000));
  expect(rows[7]).toMatchObject({
    value_size: 2_000,
    key_preview: Buffer.alloc(512, 0xfe),
    preview: Buffer.alloc(512, 0xff),
  });
  expect(await count("foreign")).toBe(8);

  await bench.broker.deleteRecords(bench.deadLetters, 0, 5n);
  await reconcile(NOW, NEVER);
  const left = await bench.db.pool.query<{ offset: string }>(
    'select "offset" from consumer.foreign_letter order by 1',
  );
  expect(left.rows.map(({ offset }) => offset)).toEqual(["5", "6", "7", "8"]);
});

test("what an open transaction holds back is read once that has ended", async () => {
  await using bench = await openBench();
  const transaction = await bench.broker.openTransaction(bench.deadLetters, "no letter");
  await letters(bench, 3);
  await bench.db.pool.query("delete from consumer.dead_letter");
  const { reconcile, count } = reconciling(bench);
  await reconcile(NOW, NEVER);
  expect(await index(bench)).toHaveLength(0);
  await transaction.commit();
  await reconcile(NOW, NEVER);
  expect(await index(bench)).toHaveLength(3);
  expect(await count("foreign")).toBe(1);
});

test("of two copies the row names the later, never an earlier one", async () => {
  await using bench = await openBench();
  await letters(bench, 3);
  const { reconcile, count } = reconciling(bench);
  const at = { topic: bench.deadLetters, partition: 0 };
  const second = (await bench.broker.admin.readAt(at, 1n))!;
  // What has its name and not its record is nobody's copy, later though it is.
  await publish(bench, [second, letterOf(bench, 1n)]);
  await reconcile(NOW, NEVER);
  const places = async (): Promise<unknown[]> => (await index(bench)).map((row) => row["letter_offset"]);
  expect(await places()).toEqual(["0", "3", "2"]);
  expect(await count("moved")).toBe(1);
  expect(await count("foreign")).toBe(1);
  // The rest of the row is that of the first letter.
  expect((await index(bench))[1]).toMatchObject({ reason: "UNPERSISTABLE" });
  // Nor while it has not come to the later one again.
  const upToOne: Pick<Admin, "logRanges" | "readFrom"> = {
    logRanges: (topic) => bench.broker.admin.logRanges(topic),
    async readFrom(partition, offset, maxBytes) {
      if (offset > 1n) throw new Error("away");
      const fetched = await bench.broker.admin.readFrom(partition, offset, maxBytes);
      return { records: fetched!.records.filter((record) => record.offset === offset), next: offset + 1n };
    },
  };
  const halfway = reconciling(bench, upToOne);
  await expect(halfway.reconcile(new Date(NOW.getTime() + 48 * 3_600_000), NEVER)).rejects.toThrow("away");
  expect(await places()).toEqual(["0", "3", "2"]);
  expect(await halfway.count("moved")).toBe(0);
  await reconcile(new Date(NOW.getTime() + 48 * 3_600_000), NEVER);
  await bench.db.pool.query("update consumer.dead_letter set letter_partition = null, letter_offset = null");
  await reconcile(new Date(NOW.getTime() + 96 * 3_600_000), NEVER);
  expect(await places()).toEqual(["0", "3", "2"]);
});

test("a letter whose record the group has not passed is the worker's to account for", async () => {
  await using bench = await openBench();
  await bench.db.pool.query(
    `insert into consumer.checkpoint (group_id, topic, partition, owner, epoch, next_offset, high_water)
     values ($1, $2, 0, 'test', 1, 5, 5)`,
    [bench.group, bench.events],
  );
  await publish(bench, [letterOf(bench, 4n), letterOf(bench, 5n)]);
  const { reconcile } = reconciling(bench);
  await reconcile(NOW, NEVER);
  expect((await index(bench)).map(({ offset }) => offset)).toEqual(["4"]);
  await bench.db.pool.query("update consumer.checkpoint set next_offset = 6, high_water = 6");
  await reconcile(new Date(NOW.getTime() + 25 * 3_600_000), NEVER);
  expect((await index(bench)).map(({ offset }) => offset)).toEqual(["4", "5"]);
});

test("letters of other groups, topics and partitions are listed as foreign, and not as this installation's", async () => {
  await using bench = await openBench();
  const of = (position: Partial<LogPosition>, group = bench.group): OutgoingRecord => {
    const letter = encodeDeadLetter({
      reason: "MALFORMED",
      detail: "forged",
      group,
      position: { topic: bench.events, partition: 0, offset: 1n, ...position },
      timestamp: 5,
      attempt: 0,
      key: null,
      headers: [],
      value: null,
      time: timestampFrom(1_700_000_000, 0),
    });
    return { topic: bench.deadLetters, partition: 0, ...letter, timestamp: 1 };
  };
  await publish(bench, [of({}, "evil"), of({ topic: "payments" }), of({ partition: 9_999 }), of({})]);
  const { reconcile } = reconciling(bench);
  await reconcile(NOW, NEVER);
  expect((await index(bench)).map(({ letter_offset: at }) => at)).toEqual(["3"]);
  const { rows } = await bench.db.pool.query<{ why: string }>(
    'select why from consumer.foreign_letter order by "offset"',
  );
  expect(rows.map(({ why }) => why.split(";")[0])).toEqual([
    `It is a dead letter of group evil for ${bench.events} partition 0`,
    `It is a dead letter of group ${bench.group} for payments partition 0`,
    `It is a dead letter of group ${bench.group} for ${bench.events} partition 9999`,
  ]);
});

test("reads a bounded portion each round, and goes on where it was after a failure", async () => {
  await using bench = await openBench();
  await letters(bench, 40);
  await bench.db.pool.query("delete from consumer.dead_letter");
  const { admin } = bench.broker;
  let fetches = 0;
  // Each fetch brings the least there is, and the fourth fails.
  const slow: Pick<Admin, "logRanges" | "readFrom"> = {
    logRanges: (topic) => admin.logRanges(topic),
    async readFrom(partition, offset) {
      fetches += 1;
      if (fetches === 4) throw new Error("away");
      const fetched = await admin.readFrom(partition, offset, 1);
      const next = offset + 3n;
      return { records: fetched!.records.filter((record) => record.offset < next), next };
    },
  };
  const { reconcile } = reconciling(bench, slow);
  await expect(reconcile(NOW, NEVER)).rejects.toThrow("away");
  expect(await index(bench)).toHaveLength(9);
  fetches = 100;
  await reconcile(NOW, NEVER);
  expect(await index(bench)).toHaveLength(39);
  expect(fetches).toBe(110);
  await reconcile(NOW, NEVER);
  expect(await index(bench)).toHaveLength(40);
});

test("of two at once each portion is one's", async () => {
  await using bench = await openBench();
  await letters(bench, 40);
  await bench.db.pool.query("delete from consumer.dead_letter");
  const workers = [reconciling(bench), reconciling(bench)];
  await Promise.all(workers.map(({ reconcile }) => reconcile(NOW, NEVER)));
  expect(await index(bench)).toHaveLength(40);
  const counts = await Promise.all(workers.map(({ count }) => count("restored")));
  expect(counts.toSorted((a, b) => a - b)).toEqual([0, 40]);
});
