import { createHash, randomBytes } from "node:crypto";

import type { Message } from "kafkajs";
import { describe, expect, test } from "vitest";

import { type AcceptedEvent, type StoredEvent } from "#core/event.ts";
import { parseTimestamp } from "#core/timestamp.ts";
import { kafkajs } from "#kafka/kafkajs/library.ts";
import { getEvent } from "#postgres/search.ts";

import { accepted, type Bench, eventRecord, eventRecords, openBench } from "./bench.ts";

/** Long enough for a member to join and a batch to be stored on a busy machine. */
const soon = { timeout: 20_000, interval: 50 };

async function stored(bench: Bench, { event }: AcceptedEvent): Promise<StoredEvent | undefined> {
  return (await getEvent(bench.db, { source: event.source, id: event.id }))?.event;
}

describe("the persist role", () => {
  test("stores every event byte for byte, then commits its offset", async () => {
    await using bench = await openBench();
    const data = (bytes: Uint8Array, protoType?: string): AcceptedEvent["event"]["data"] => ({
      bytes,
      protoType,
    });
    const events = [
      accepted(),
      accepted({ data: data(new Uint8Array()) }),
      accepted({ data: data(randomBytes(700_000)), datacontenttype: "application/octet-stream" }),
      accepted({
        data: data(Buffer.from('{"b":1,"a":12345678901234567890.10}')),
        datacontenttype: "application/json",
      }),
      accepted({ data: data(Buffer.from([0x00, 0xff, 0xc3, 0x28])), datacontenttype: "text/plain" }),
      accepted({
        data: data(randomBytes(64), "type.googleapis.com/acme.Order"),
        datacontenttype: "application/protobuf",
      }),
      accepted(
        {
          source: "/s%C3%BC%C3%9F?q=1#frag",
          id: '100% ‰ "quoted" 日本',
          subject: "order/17",
          time: parseTimestamp("2026-11-01T10:30:00.123456789+01:00"),
          dataschema: "https://acme.example/order.json",
          extensions: new Map([
            ["severitytext", "WARN"],
            ["tags", "eu, retail"],
          ]),
        },
        {
          principal: "bob",
          traceParent: `00-${"ab".repeat(16)}-${"cd".repeat(8)}-01`,
          traceState: "vendor=1",
        },
      ),
    ];
    await bench.publish(...events.map((event) => eventRecord(bench, event)));
    await using worker = bench.work();
    await expect.poll(() => bench.committed(0), soon).toBe(BigInt(events.length));
    expect(await bench.checkpoint(0)).toBe(BigInt(events.length));
    for (const [index, event] of events.entries()) {
      const expected = { ...event, position: { topic: bench.events, partition: 0, offset: BigInt(index) } };
      expect(hashed(await stored(bench, event))).toEqual(hashed(expected));
    }
    expect(await worker.metric('weir_persist_records_total{outcome="written"}')).toBe(events.length);
    expect(await worker.metric('weir_persist_records_total{outcome="duplicate"}')).toBe(0);
    expect(worker.role.fault).toBeUndefined();
    const partition = `group="${bench.group}",topic="${bench.events}",partition="0"`;
    await expect
      .poll(() => worker.metric(`weir_consumer_partitions{group="${bench.group}",state="assigned"}`))
      .toBe(1);
    expect(await worker.metric(`weir_consumer_lag{${partition}}`)).toBe(0);
  });

  test("tells what is sent again from what is read again, and stores it once", async () => {
    await using bench = await openBench();
    const records = eventRecords(bench, 50);
    await bench.publish(...records);
    {
      await using _first = bench.work();
      await expect.poll(() => bench.committed(0), soon).toBe(50n);
    }
    // Both that know how far the group has come forget it, and half of the events were sent twice, too.
    await bench.publish(...records.slice(25));
    await bench.db.pool.query("delete from consumer.checkpoint");
    await bench.forgetGroup();
    await using again = bench.work();
    await expect.poll(() => bench.committed(0), soon).toBe(75n);
    expect(await bench.rows()).toBe(50);
    // What is read again is no duplicate: it has its own row. What was sent twice is one, and has a row that says so.
    expect(await again.metric('weir_persist_records_total{outcome="redelivered"}')).toBe(50);
    expect(await again.metric('weir_persist_records_total{outcome="duplicate"}')).toBe(25);
    const { rows } = await bench.db.pool.query(
      'select "offset"::int as at, differs from events.duplicate order by 1',
    );
    expect(rows).toEqual(Array.from({ length: 25 }, (_, index) => ({ at: 50 + index, differs: false })));
    expect(await again.metric('weir_persist_records_total{outcome="written"}')).toBe(0);
  });

  test("stores thousands of events of several partitions, none lost, none doubled", async () => {
    await using bench = await openBench(3);
    const records = [0, 1, 2].flatMap((partition) => eventRecords(bench, 1_500, partition));
    await bench.publish(...records);
    await using worker = bench.work();
    await expect.poll(() => bench.rows(), soon).toBe(4_500);
    for (const partition of [0, 1, 2]) expect(await bench.checkpoint(partition)).toBe(1_500n);
    expect(await worker.metric('weir_persist_records_total{outcome="duplicate"}')).toBe(0);
  });
});

test("what the log holds without a record for us is passed, so that the lag comes to 0", async () => {
  await using bench = await openBench();
  await bench.publish(...eventRecords(bench, 3));
  const kafka = new kafkajs.Kafka({
    brokers: [...bench.broker.connection.brokers],
    logLevel: kafkajs.logLevel.NOTHING,
  });
  const foreign = kafka.producer({ transactionalId: bench.group, maxInFlightRequests: 1, idempotent: true });
  await foreign.connect();
  const record = {
    key: null,
    value: Buffer.from("given up"),
    headers: [],
    partition: 0,
  } as unknown as Message;
  const transaction = await foreign.transaction();
  await transaction.send({ topic: bench.events, messages: [record] });
  await transaction.abort();
  await foreign.disconnect();

  await using worker = bench.work();
  // Three events, the record that was given up, and the mark that it was.
  await expect.poll(() => bench.committed(0), soon).toBe(5n);
  expect(await bench.checkpoint(0)).toBe(5n);
  expect(await bench.rows()).toBe(3);
  expect(await worker.metric('weir_persist_records_total{outcome="dead_lettered"}')).toBe(0);
  expect(await worker.metric('weir_persist_skipped_total{kind="NO_RECORD"}')).toBe(2);
  const { rows } = await bench.db.pool.query(
    "select from_offset::int, to_offset::int, kind from consumer.skip",
  );
  expect(rows).toEqual([{ from_offset: 3, to_offset: 5, kind: "NO_RECORD" }]);
});

/** The payload by its hash, so that a difference is told without hundreds of kilobytes. */
function hashed(found: StoredEvent | undefined): unknown {
  if (found === undefined) return undefined;
  const { data } = found.event;
  const hash = data && {
    ...data,
    bytes: `${data.bytes.length} bytes ${createHash("sha256").update(data.bytes).digest("hex")}`,
  };
  return { ...found, event: { ...found.event, data: hash } };
}
