import { randomBytes } from "node:crypto";

import { expect, test } from "vitest";

import { type OutgoingRecord } from "#kafka/ports.ts";
import { getEvent } from "#postgres/search.ts";

import { accepted, eventRecord, eventRecords, openBench } from "./bench.ts";

const soon = { timeout: 20_000, interval: 50 };

test("a payload that PostgreSQL's text and jsonb cannot hold is stored byte for byte", async () => {
  await using bench = await openBench();
  const payloads = [
    "\0",
    '{"nul":"\\u0000"}',
    '{"nul":"\0"}',
    '{"half":"\\ud800"}',
    `{"digits":${"9".repeat(200_000)}}`,
    '{"beyond":1e999999999}',
    `${"[".repeat(20_000)}${"]".repeat(20_000)}`,
  ].map((text) => Buffer.from(text));
  payloads.push(Buffer.from([0xff, 0xfe, 0x00, 0xed, 0xa0, 0x80]));
  const events = payloads.map((bytes) =>
    accepted({ datacontenttype: "application/json", data: { bytes, protoType: undefined } }),
  );
  await bench.publish(...events.map((event) => eventRecord(bench, event)));
  await using worker = bench.work();
  await expect.poll(() => bench.committed(0), soon).toBe(BigInt(events.length));
  for (const { event } of events) {
    const found = await getEvent(bench.db, { source: event.source, id: event.id });
    expect(Buffer.compare(found!.event.event.data!.bytes, event.data!.bytes)).toBe(0);
  }
  expect(await worker.metric('weir_persist_records_total{outcome="dead_lettered"}')).toBe(0);
});

test("anything else that it cannot hold is a dead letter with its reason, and its neighbours are stored", async () => {
  await using bench = await openBench();
  const plain = (): OutgoingRecord => eventRecord(bench, accepted());
  /** A record of others, with one header more or in the place of ours. */
  const withHeader = (name: string, value: Buffer): OutgoingRecord => {
    const record = plain();
    return { ...record, headers: [...record.headers.filter(([other]) => other !== name), [name, value]] };
  };
  const records: readonly (readonly [what: string, record: OutgoingRecord])[] = [
    ["INVALID_ATTRIBUTES", withHeader("ce_subject", Buffer.from("a\0b"))],
    ["INVALID_ATTRIBUTES", withHeader("ce_ext", Buffer.from("\0"))],
    ["INVALID_ATTRIBUTES", withHeader("ce_ext", Buffer.from([0xed, 0xa0, 0x80]))],
    ["UNPERSISTABLE", withHeader("ce_id", Buffer.from(randomBytes(6_000).toString("hex")))],
    ["UNPERSISTABLE", withHeader("ce_source", Buffer.from(`/${randomBytes(6_000).toString("hex")}`))],
  ];
  const good = eventRecords(bench, records.length);
  await bench.publish(...records.flatMap(([, record], index) => [good[index]!, record]));
  await using _worker = bench.work();
  await expect.poll(() => bench.committed(0), soon).toBe(BigInt(2 * records.length));
  expect(await bench.rows()).toBe(records.length);
  const { rows } = await bench.db.pool.query<{ at: number; reason: string }>(
    `select "offset"::int as at, reason from consumer.dead_letter order by 1`,
  );
  expect(rows).toEqual(records.map(([reason], index) => ({ at: 2 * index + 1, reason })));
});
