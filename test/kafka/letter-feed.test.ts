import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { encodeDeadLetter } from "#core/dead-letter.ts";
import { timestampFrom } from "#core/timestamp.ts";
import { createLetterFeed } from "#kafka/letter-feed.ts";
import { type Admin, type OutgoingRecord } from "#kafka/ports.ts";

import { type Broker, brokerConnection, CLIENTS, openBroker } from "./broker.ts";

const GROUP = "group";

/** The letter of a record of partition 0, of so many bytes. */
function letterOf(topic: string, offset: bigint, bytes = 10): OutgoingRecord {
  const letter = encodeDeadLetter({
    reason: "MALFORMED",
    detail: "made by a test",
    group: GROUP,
    position: { topic: "events", partition: 0, offset },
    timestamp: 5,
    attempt: 0,
    key: null,
    headers: [],
    value: new Uint8Array(bytes).fill(Number(offset)),
    time: timestampFrom(1_700_000_000, 0),
  });
  return { topic, partition: 0, ...letter, timestamp: Date.now() };
}

describe.each(CLIENTS)("letters read in bulk by %s", (clientName) => {
  let broker: Broker;
  beforeAll(async () => {
    broker = await openBroker(brokerConnection(), clientName);
  });
  afterAll(() => broker[Symbol.asyncDispose]());

  async function topicWith(records: (topic: string) => readonly OutgoingRecord[]): Promise<string> {
    const topic = await broker.topic(1);
    const { client, connection, log, telemetry } = broker;
    const topics = [{ name: topic, maxMessageBytes: 1_048_576 }];
    await using producer = client.createProducer({ connection, topics, log, telemetry });
    for (const record of records(topic)) await producer.publish(record);
    return topic;
  }

  /** An admin that counts its fetches. */
  function counting(): Pick<Admin, "readFrom" | "readAt" | "findByKey"> & { readonly fetches: () => number } {
    const { admin } = broker;
    let fetches = 0;
    return {
      fetches: () => fetches,
      readFrom(...call) {
        fetches += 1;
        return admin.readFrom(...call);
      },
      readAt: (...call) => admin.readAt(...call),
      findByKey: (...call) => admin.findByKey(...call),
    };
  }

  const sought = (topic: string, offset: bigint, place: bigint | undefined) => ({
    group: GROUP,
    topic: "events",
    partition: 0,
    offset,
    letterPosition: place === undefined ? undefined : { topic, partition: 0, offset: place },
    writtenAt: Date.now() - 10_000,
  });

  test("come by few fetches, each what it is", async () => {
    const offsets = Array.from({ length: 60 }, (_, index) => BigInt(index));
    const topic = await topicWith((name) => offsets.map((offset) => letterOf(name, offset, 60_000)));
    const admin = counting();
    const feed = createLetterFeed(admin, { name: topic, partitions: 1 });
    for (const offset of offsets) {
      const letter = await feed.read(sought(topic, offset, offset));
      expect(letter).toMatchObject({ ok: true, value: { position: { offset } } });
    }
    // 80 kB each, a megabyte a fetch.
    expect(admin.fetches()).toBeLessThan(10);
  });

  test("are found by their key where they are not where they were, and where that is not known", async () => {
    const topic = await topicWith((name) => [letterOf(name, 1n), letterOf(name, 2n), letterOf(name, 3n)]);
    const feed = createLetterFeed(broker.admin, { name: topic, partitions: 1 });
    for (const place of [0n, undefined])
      expect(await feed.read(sought(topic, 2n, place))).toMatchObject({
        ok: true,
        value: { position: { offset: 2n } },
      });
  });

  test("are undefined where their topic has them no longer, and a record under their key that is none a refusal", async () => {
    const topic = await topicWith((name) => [
      letterOf(name, 1n),
      { ...letterOf(name, 2n), value: Buffer.from("{}") },
      letterOf(name, 3n),
    ]);
    await broker.deleteRecords(topic, 0, 1n);
    const feed = createLetterFeed(broker.admin, { name: topic, partitions: 1 });
    expect(await feed.read(sought(topic, 1n, 0n))).toBeUndefined();
    expect(await feed.read(sought(topic, 2n, 1n))).toMatchObject({ ok: false });
    expect(await feed.read(sought(topic, 9n, 2n))).toBeUndefined();
    expect(await feed.read(sought(topic, 3n, 2n))).toMatchObject({ ok: true });
  });
});
