import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import type { Message } from "kafkajs";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";

import { kafkajs } from "#kafka/kafkajs/library.ts";

import { createWeirAdminClient } from "../../sdk/admin.ts";
import { cloudEvent, createWeirClient, weirErrorOf } from "../../sdk/index.ts";
import { startWeir, type Weir } from "../support/weir.ts";
import { type Run, startCommand } from "./command.ts";

const soon = { timeout: 20_000, interval: 100 };

let weir: Weir;
let db: pg.Client;
beforeAll(async () => {
  weir = await startWeir({ workers: true });
  db = new pg.Client({ connectionString: weir.databaseUrl });
  await db.connect();
});
afterAll(async () => {
  await db.end();
  await weir[Symbol.asyncDispose]();
});

interface Told {
  readonly unaccounted: number;
  readonly partitions: readonly Readonly<Record<string, unknown>>[];
}

async function audit(...args: readonly string[]): Promise<Run> {
  const env = { WEIR_URL: weir.baseUrl, WEIR_TOKEN: await weir.token({ scope: "admin.read" }) };
  return startCommand(["audit", ...args], { cwd: tmpdir(), env }).ended;
}

async function auditJson(): Promise<Told & { readonly code: number | null }> {
  const { code, stdout } = await audit("--json");
  return { code, ...(JSON.parse(stdout) as Told) };
}

/** The sum of a count over all partitions. */
const sum = ({ partitions }: Told, name: string): number =>
  partitions.reduce((total, each) => total + Number(each[name]), 0);

/** Records of others on the log: no events, and a transaction that is given up (three records and the mark of it). */
async function writeForeign(partition: number): Promise<void> {
  const kafka = new kafkajs.Kafka({ brokers: [weir.brokers], logLevel: kafkajs.logLevel.NOTHING });
  const producer = kafka.producer({
    transactionalId: randomUUID(),
    maxInFlightRequests: 1,
    idempotent: true,
  });
  await producer.connect();
  const value = Buffer.from("no event");
  const message = { key: null, value, headers: [], partition } as unknown as Message;
  const given = await producer.transaction();
  await given.send({ topic: weir.topic, messages: [message, message, message] });
  await given.abort();
  const kept = await producer.transaction();
  await kept.send({ topic: weir.topic, messages: [message, message] });
  await kept.commit();
  await producer.disconnect();
}

test("an empty log is accounted for, and nothing of it was passed", async () => {
  const { code, stdout } = await audit();
  expect(stdout).toContain("Every offset is accounted for.");
  expect(code).toBe(0);
  const told = await auditJson();
  expect(
    told.partitions.map(({ partition, highWater, logEnd }) => ({ partition, highWater, logEnd })),
  ).toEqual([0, 1, 2].map((partition) => ({ partition, highWater: null, logEnd: 0 })));
});

test("every offset of the log is a row, a duplicate, a dead letter or a skip; what is none is told, with exit code 1", async () => {
  const client = createWeirClient({ baseUrl: weir.baseUrl, token: () => weir.token() });
  const events = Array.from({ length: 60 }, (_, index) =>
    cloudEvent({ id: String(index), source: `/audit/${index % 7}`, type: "t", time: new Date() }),
  );
  const repeats = events.slice(0, 10);
  const conflict = cloudEvent({
    id: "0",
    source: "/audit/0",
    type: "t",
    time: "2026-11-30T00:00:00Z",
    data: "other",
  });
  await client.ingest.batchCreateEvents({ events: [...events, ...repeats, conflict] });
  const changed = cloudEvent({
    id: "0",
    source: "/audit/0",
    type: "t",
    time: "2026-11-30T00:00:00Z",
    data: "x",
  });
  await client.ingest.createEvent({ event: changed });
  await writeForeign(1);

  const ended = (told: Told): number => sum(told, "logEnd");
  await expect.poll(async () => ended(await auditJson()), soon).toBe(60 + 10 + 2 + 3 + 1 + 2 + 1);
  await expect.poll(async () => sum(await auditJson(), "highWater"), soon).toBe(79);
  const told = await auditJson();
  expect(told).toMatchObject({ code: 0, unaccounted: 0 });
  const counts = ["stored", "duplicates", "deadLetters", "skipped"].map((name) => sum(told, name));
  expect(counts).toEqual([61, 11, 2, 5]);

  // Offsets of three kinds are forgotten.
  const { rows } = await db.query<{ partition: number; offset: number }>(
    `delete from events.event where id in ('3', '10', '17') returning partition, "offset"::int as offset`,
  );
  await db.query("delete from consumer.skip");
  await db.query("delete from consumer.dead_letter");
  const faulty = await auditJson();
  expect(faulty).toMatchObject({ code: 1, unaccounted: 3 + 5 + 2 });
  const missing = faulty.partitions.flatMap(({ partition, unaccountedRanges }) =>
    (unaccountedRanges as { from: number; to: number }[]).flatMap(({ from, to }) =>
      Array.from({ length: to - from }, (_, index) => ({ partition, offset: from + index })),
    ),
  );
  expect(missing).toEqual(expect.arrayContaining(rows));
  expect(missing).toHaveLength(10);
  const { stdout, code } = await audit();
  expect(stdout).toContain("10 offsets are unaccounted for");
  expect(stdout).toMatch(/^partition 1: offsets \d+ to \d+ are unaccounted for$/m);
  expect(code).toBe(1);
});

test("a skip over offsets that have rows is a contradiction, named, with exit code 1", async () => {
  const { partitions } = await auditJson();
  const { partition, unaccounted } = partitions[0]!;
  await db.query("update consumer.checkpoint set next_offset = high_water");
  const { rows } = await db.query<{ offset: number }>(
    `select "offset"::int as offset from events.event where partition = $1 order by 1 limit 1`,
    [partition],
  );
  const { offset } = rows[0]!;
  await db.query(
    `insert into consumer.skip (group_id, topic, partition, from_offset, to_offset, kind)
     select group_id, topic, partition, $2::bigint, $2 + 1, 'ELSEWHERE' from consumer.checkpoint where partition = $1`,
    [partition, offset],
  );
  const told = await auditJson();
  expect(told.code).toBe(1);
  expect(told.partitions[0]).toMatchObject({
    contradicted: 1,
    contradictedRanges: [{ from: offset, to: offset + 1 }],
    unaccounted,
  });
  const { stdout } = await audit();
  expect(stdout).toContain(
    `partition 0: offsets ${offset} to ${offset} are recorded as skipped, and as records as well`,
  );
  await db.query("delete from consumer.skip where partition = $1 and from_offset = $2", [partition, offset]);
});

test("a skip that says that the log has no record where it has one is found out on the log", async () => {
  const before = (await auditJson()).partitions[0]!;
  const { rows } = await db.query<{ offset: number }>(
    `delete from events.event where partition = 0 and "offset" = (select max("offset") from events.event where partition = 0)
     returning "offset"::int as offset`,
  );
  const { offset } = rows[0]!;
  await db.query(
    `insert into consumer.skip (group_id, topic, partition, from_offset, to_offset, kind)
     select group_id, topic, partition, $1::bigint, $1 + 1, 'NO_RECORD' from consumer.checkpoint where partition = 0`,
    [offset],
  );
  const { code, partitions } = await auditJson();
  expect(code).toBe(1);
  expect(partitions[0]).toMatchObject({
    unaccounted: Number(before["unaccounted"]) + 1,
    unchecked: 0,
    contradicted: 0,
  });
  expect(partitions[0]!["unaccountedRanges"]).toContainEqual({ from: offset, to: offset + 1 });
});

test("a log that is not the one that was read is not audited, and one that ends below what was passed is remarked", async () => {
  await db.query("update consumer.checkpoint set log_id = 'another' where partition = 0");
  const { stdout, code } = await audit();
  expect(stdout).toMatch(/^partition 0: not audited: this is not the log that was read/m);
  expect(code).toBe(1);
  const { partitions } = await auditJson();
  expect(partitions[0]).toMatchObject({ highWater: null, anotherLog: true, unaccounted: 0 });
  await db.query("update consumer.checkpoint set log_id = null where partition = 0");
});

test("a log of a hundred thousand offsets is walked in steps, and a gap over a step's border is one", async () => {
  await db.query(
    "update consumer.checkpoint set next_offset = next_offset + 100000, high_water = high_water + 100000 where partition = 1",
  );
  await db.query("delete from events.event where partition = 1");
  await db.query("delete from events.duplicate where partition = 1");
  const { partitions } = await auditJson();
  const { logStart, logEnd, highWater, unaccounted, unaccountedRanges } = partitions[1]!;
  // Beyond its end nothing of this log was passed.
  expect(unaccountedRanges).toEqual([{ from: logStart, to: logEnd }]);
  expect(unaccounted).toBe(logEnd);
  const { stdout } = await audit();
  expect(stdout).toContain(
    `partition 1: the log ends at ${String(logEnd)}, and offsets up to ${String(highWater)} were passed`,
  );
});

test("the audit needs its scope, and says when it did not come to its end", async () => {
  const token = await weir.token({ scope: "events.read" });
  const admin = createWeirAdminClient({ baseUrl: weir.baseUrl, token });
  const told = admin.accounting.auditLog({})[Symbol.asyncIterator]();
  await expect(told.next().catch(weirErrorOf)).resolves.toMatchObject({ reason: "SCOPE_MISSING" });
  const { code, stderr, stdout } = await audit("--token", token);
  expect([code, stdout]).toEqual([3, ""]);
  expect(stderr).toContain("lacks the scope admin.read");
  expect((await audit("--timeout", "soon")).code).toBe(2);
});

test("a partition without a checkpoint is not audited, and that is said, with exit code 1", async () => {
  await db.query("delete from consumer.checkpoint where partition = 0");
  const { code, stdout } = await audit();
  expect(stdout).toMatch(/^partition 0: not audited: the group has no checkpoint/m);
  expect(stdout).not.toContain("Every offset is accounted for.");
  expect(code).toBe(1);
});
