import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { ensureTopics, type TopicSettings } from "#kafka/topics.ts";

import { type Broker, brokerConnection, CLIENTS, openBroker } from "./broker.ts";

describe.each(CLIENTS)("%s", (name) => {
  let broker: Broker;
  beforeAll(async () => {
    broker = await openBroker(brokerConnection(), name);
  });
  afterAll(() => broker[Symbol.asyncDispose]());

  function settings(): TopicSettings {
    const name = broker.name("topics");
    return {
      replication: undefined,
      events: name,
      eventsPartitions: 4,
      eventsRetentionMs: 7 * 86_400_000,
      deadLetters: `${name}.dlq`,
      deadLettersPartitions: 2,
      deadLettersRetentionMs: 30 * 86_400_000,
    };
  }

  describe("the topics", () => {
    test("are made as the table says, and a second time nothing changes", async () => {
      const wanted = settings();
      await using _topics = broker.owning(wanted.events, wanted.deadLetters);
      const made = await ensureTopics(broker.admin, wanted);
      expect(made).toMatchObject([
        { name: wanted.events, partitions: 4, replication: 1, created: true, repaired: [] },
        { name: wanted.deadLetters, partitions: 2, replication: 1, created: true, repaired: [] },
      ]);
      const found = await broker.admin.describeTopics([wanted.events, wanted.deadLetters]);
      expect(Object.fromEntries(found.get(wanted.events)!.config)).toMatchObject({
        "cleanup.policy": "delete",
        "retention.ms": "604800000",
        "max.message.bytes": "2097152",
        "message.timestamp.type": "CreateTime",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "unclean.leader.election.enable": "false",
      });
      expect(Object.fromEntries(found.get(wanted.deadLetters)!.config)).toMatchObject({
        "cleanup.policy": "compact,delete",
        "retention.ms": "2592000000",
        "max.message.bytes": "16777216",
      });

      expect(await ensureTopics(broker.admin, wanted)).toEqual(
        made.map((topic) => ({ ...topic, created: false })),
      );
    });

    test("may be made by several processes at once", async () => {
      const wanted = settings();
      await using _topics = broker.owning(wanted.events, wanted.deadLetters);
      const answers = await Promise.all([1, 2, 3].map(() => ensureTopics(broker.admin, wanted)));
      for (const answer of answers) expect(answer.map(({ partitions }) => partitions)).toEqual([4, 2]);
    });

    test("have their drifted settings put right, and keep those of the operator", async () => {
      const wanted = settings();
      await using _topics = broker.owning(wanted.events, wanted.deadLetters);
      await ensureTopics(broker.admin, wanted);
      await broker.admin.changeTopic(wanted.events, { "retention.ms": "1000", "segment.ms": "3600000" });

      const [events, deadLetters] = await ensureTopics(broker.admin, wanted);
      expect(events?.repaired).toEqual(["retention.ms"]);
      expect(deadLetters?.repaired).toEqual([]);
      const config = (await broker.admin.describeTopics([wanted.events])).get(wanted.events)?.config;
      expect(config?.get("retention.ms")).toBe("604800000");
      expect(config?.get("segment.ms")).toBe("3600000");
      expect((await ensureTopics(broker.admin, wanted))[0]?.repaired).toEqual([]);
    });

    test("refuse every mismatch at once where it cannot be repaired, and change nothing", async () => {
      const wanted = settings();
      await broker.topic(3, { "retention.ms": "1000" }, wanted.events);
      await broker.topic(5, {}, wanted.deadLetters);
      const error = await ensureTopics(broker.admin, wanted).catch((reason: unknown) => reason);
      expect(String(error)).toMatch(`${wanted.events} has 3 partitions and 4 are configured`);
      expect(String(error)).toMatch(`${wanted.deadLetters} has 5 partitions and 2 are configured`);
      const found = await broker.admin.describeTopics([wanted.events]);
      expect(found.get(wanted.events)?.config.get("retention.ms")).toBe("1000");
    });

    test("cannot have more copies than there are brokers, and the error says so", async () => {
      await expect(ensureTopics(broker.admin, { ...settings(), replication: 3 })).rejects.toThrow(
        /replication/i,
      );
    });
  });

  describe("the probe", () => {
    test("says nothing where all is well, and why where it is not", async () => {
      const topic = await broker.topic(1);
      expect(await broker.admin.probe([topic])).toBeUndefined();
      expect(await broker.admin.probe([topic, broker.name("missing")])).toMatch(/not host/);
      expect(await broker.admin.probe([topic])).toBeUndefined();
      await using away = broker.client.createAdmin({
        connection: brokerConnection("127.0.0.1:1"),
        log: broker.log,
      });
      expect(await away.probe([topic])).toMatch(/127\.0\.0\.1:1/);
    });
  });
});
