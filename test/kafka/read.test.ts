import { randomBytes } from "node:crypto";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { KafkaError, type OutgoingRecord, type Producer } from "#kafka/ports.ts";

import { type Broker, CLIENTS, openBroker, textRecord } from "./broker.ts";

// Reading single records, for nobody's group: every client keeps the same contract.

describe.each(CLIENTS)("by %s", (clientName) => {
  let broker: Broker;
  beforeAll(async () => {
    broker = await openBroker(undefined, clientName);
  });
  afterAll(() => broker[Symbol.asyncDispose]());

  async function publish(topic: string, ...records: readonly OutgoingRecord[]): Promise<void> {
    const { connection, client, log, telemetry } = broker;
    const topics = [{ name: topic, maxMessageBytes: 4_194_304 }];
    await using producer: Producer = client.createProducer({ connection, topics, log, telemetry });
    const results = await Promise.all(records.map((record) => producer.publish(record)));
    expect(results.map(({ outcome }) => outcome)).toEqual(records.map(() => "acknowledged"));
  }

  test("a record is read at its offset, whole, whatever stands beside it in its batch", async () => {
    const topic = await broker.topic(2, { "max.message.bytes": "4194304" });
    const whole: OutgoingRecord = {
      topic,
      partition: 1,
      key: new Uint8Array([0xff, 0]),
      value: randomBytes(3_000_000),
      headers: [
        ["twice", randomBytes(3)],
        ["twice", null],
      ],
      timestamp: 1_700_000_000_123,
    };
    const before = Array.from({ length: 20 }, (_, at) => textRecord(topic, 1, `before ${at}`));
    await publish(topic, ...before, whole, textRecord(topic, 1, "after"));
    const at = { topic, partition: 1 };
    const { key, value, headers, timestamp } = whole;
    expect(await broker.admin.readAt(at, 20n)).toEqual({
      ...at,
      offset: 20n,
      timestamp,
      key: Buffer.from(key!),
      value,
      headers: headers.map(([name, content]) => [name, content && Buffer.from(content)]),
    });
    expect(String((await broker.admin.readAt(at, 7n))?.value)).toBe("before 7");
    expect(String((await broker.admin.readAt(at, 21n))?.value)).toBe("after");
  });

  test("where there is no record there is none: beyond the end, below the start, of an aborted transaction", async () => {
    const topic = await broker.topic(1);
    const at = { topic, partition: 0 };
    expect(await broker.admin.readAt(at, 0n)).toBeUndefined();
    await publish(topic, textRecord(topic, 0, "0"), textRecord(topic, 0, "1"), textRecord(topic, 0, "2"));
    await broker.transactions(topic, [
      ["abort", "3"],
      ["commit", "5"],
    ]);
    await broker.deleteRecords(topic, 0, 2n);
    expect(await broker.admin.readAt(at, 1n)).toBeUndefined();
    expect(String((await broker.admin.readAt(at, 2n))?.value)).toBe("2");
    expect(await broker.admin.readAt(at, 3n)).toBeUndefined();
    expect(await broker.admin.readAt(at, 4n)).toBeUndefined();
    expect(String((await broker.admin.readAt(at, 5n))?.value)).toBe("5");
    expect(await broker.admin.readAt(at, 7n)).toBeUndefined();
    expect(await broker.admin.readAt(at, 1_000_000n)).toBeUndefined();
  });

  test("what an open transaction holds back is an error until it ends, and not gone", async () => {
    const topic = await broker.topic(1);
    await publish(topic, textRecord(topic, 0, "before"));
    const transaction = await broker.openTransaction(topic, "within");
    await publish(topic, { ...textRecord(topic, 0, "after"), key: Buffer.from("k"), timestamp: Date.now() });
    const at = { topic, partition: 0 };
    expect(await broker.admin.readAt(at, 0n)).toMatchObject({ value: Buffer.from("before") });
    await expect(broker.admin.readAt(at, 2n)).rejects.toThrow("a transaction is open at or before offset 2");
    const search = () => broker.admin.findByKey(at, Buffer.from("k"), { since: 0, maxRecords: 100 });
    await expect(search()).rejects.toThrow("a transaction is open");
    await transaction.commit();
    expect(await broker.admin.readAt(at, 2n)).toMatchObject({ value: Buffer.from("after") });
    expect(await search()).toMatchObject({ offset: 2n });
    expect(await broker.admin.readAt(at, 4n)).toBeUndefined();
  });

  test("a topic or partition that is not there is an error, and the next question is answered all the same", async () => {
    const topic = await broker.topic(1);
    await publish(topic, textRecord(topic, 0, "here"));
    const missing = broker.admin.readAt({ topic: broker.name("missing"), partition: 0 }, 0n);
    await expect(missing).rejects.toThrow(KafkaError);
    await expect(broker.admin.readAt({ topic, partition: 1 }, 0n)).rejects.toThrow(KafkaError);
    expect(String((await broker.admin.readAt({ topic, partition: 0 }, 0n))?.value)).toBe("here");
  });

  test("a key is searched for from a time on, among so many records", async () => {
    const topic = await broker.topic(1);
    const at = { topic, partition: 0 };
    const records = Array.from({ length: 3_000 }, (_, n) => ({
      ...textRecord(topic, 0, `${n} ${"x".repeat(600)}`),
      key: Buffer.from(`key ${n % 2_000}`),
      timestamp: 1_700_000_000_000 + n * 10,
    }));
    await publish(topic, ...records);
    const find = async (key: string, since: number, maxRecords = 10_000): Promise<bigint | undefined> =>
      (await broker.admin.findByKey(at, Buffer.from(key), { since, maxRecords }))?.offset;
    expect(await find("key 500", 0)).toBe(500n);
    expect(await find("key 1999", 1_700_000_000_000)).toBe(1_999n);
    // After the first of that key: the second.
    expect(await find("key 500", 1_700_000_005_001)).toBe(2_500n);
    expect(await find("key 1500", 1_700_000_015_001)).toBeUndefined();
    expect(await find("no key", 0)).toBeUndefined();
    expect(await find("key 0", 1_800_000_000_000)).toBeUndefined();
    // The log is read a mebibyte at a time, and not for long.
    expect(await find("key 1999", 0, 10)).toBeUndefined();
  });
});
