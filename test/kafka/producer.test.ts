import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { type ProducerOptions } from "#kafka/producer.ts";
import { type Producer, type PublishResult } from "#kafka/ports.ts";

import { type Broker, brokerConnection, CLIENTS, openBroker, readAll, textRecord } from "./broker.ts";

describe.each(CLIENTS)("%s", (name) => {
  let broker: Broker;
  beforeAll(async () => {
    broker = await openBroker(brokerConnection(), name);
  });
  afterAll(() => broker[Symbol.asyncDispose]());

  function open(topic: string, options: Partial<ProducerOptions> = {}): Producer {
    return broker.client.createProducer({
      connection: broker.connection,
      topics: [{ name: topic, maxMessageBytes: 1_048_576 }],
      log: broker.log,
      telemetry: broker.telemetry,
      ...options,
    });
  }

  /** The telemetry, with a look at each batch that is about to be sent. */
  function watchBatches(look: (records: number) => void): ProducerOptions["telemetry"] {
    return {
      ...broker.telemetry,
      record(name, labels, value) {
        if (name === "weir.publish.batch.size") look(value);
        broker.telemetry.record(name, labels, value);
      },
    };
  }

  function offsetOf(result: PublishResult): bigint {
    if (result.outcome !== "acknowledged") throw new Error(`${result.outcome}: ${result.detail}`);
    return result.position.offset;
  }

  describe("a producer", () => {
    test("acknowledges every record once, at its own offset, in order per partition", async () => {
      const topic = await broker.topic(4);
      await using producer = open(topic, { queueRecords: 20_000 });
      const wanted = Array.from({ length: 5_000 }, (_, index) => ({
        partition: index % 4,
        value: `value ${index}`,
      }));
      const results = await Promise.all(
        wanted.map(({ partition, value }) => producer.publish(textRecord(topic, partition, value))),
      );

      const log = await readAll(broker, topic);
      expect(
        wanted.map(({ partition }, index) => log.get(partition)?.[Number(offsetOf(results[index]!))]),
      ).toEqual(wanted.map(({ value }) => value));
      expect([...log.values()].flat()).toHaveLength(5_000);
      for (const [partition, values] of log) {
        expect(values).toEqual(
          wanted.filter((each) => each.partition === partition).map(({ value }) => value),
        );
      }
      expect(producer.queued).toEqual({ records: 0, bytes: 0 });
    });

    test("gathers records of the moment into few requests", async () => {
      const topic = await broker.topic(3);
      const sizes: number[] = [];
      await using producer = open(topic, {
        telemetry: watchBatches((size) => sizes.push(size)),
      });
      // A broker may refuse the first batch of a topic that was just made, and a batch that is sent again counts twice.
      for (const partition of [0, 1, 2]) await producer.publish(textRecord(topic, partition, "first"));
      sizes.length = 0;
      await Promise.all(
        Array.from({ length: 900 }, (_, i) => producer.publish(textRecord(topic, i % 3, `${i}`))),
      );
      expect(sizes.reduce((sum, size) => sum + size)).toBe(900);
      expect(sizes.length).toBeLessThanOrEqual(3);
    });

    test("refuses while no broker has been reached, and says which", async () => {
      await using producer = open("anything", {
        connection: brokerConnection("127.0.0.1:1"),
        publishTimeoutMs: 3_000,
      });
      expect(producer.fault).toMatch("127.0.0.1:1");
      const waited = await producer.publish(textRecord("anything", 0, "first"));
      expect(waited).toMatchObject({ outcome: "refused", cause: "BROKER_AWAY" });
      const began = performance.now();
      const result = await producer.publish(textRecord("anything", 0, "second"));
      expect(result).toMatchObject({ outcome: "refused", cause: "BROKER_AWAY" });
      expect(result).toHaveProperty("detail", expect.stringMatching(/ECONNREFUSED/));
      expect(performance.now() - began).toBeLessThan(500);
    });

    test("refuses a record for a topic that does not exist within five seconds, and takes it once it does", async () => {
      const topic = broker.name("missing");
      await using producer = open(topic);
      await producer.ready;
      const began = performance.now();
      const result = await producer.publish(textRecord(topic, 0, "early"));
      expect(result).toMatchObject({ outcome: "refused", cause: "TOPIC_MISSING" });
      expect(performance.now() - began).toBeLessThan(5_000);

      await broker.topic(1, {}, topic);
      // It looks again after a back-off of up to a second.
      await expect.poll(() => producer.fault, { timeout: 10_000 }).toBeUndefined();
      expect(offsetOf(await producer.publish(textRecord(topic, 0, "late")))).toBe(0n);
      expect(await readAll(broker, topic)).toEqual(new Map([[0, ["late"]]]));
    });

    test("refuses a partition that the topic does not have, and publishes to the others", async () => {
      const topic = await broker.topic(1);
      await using producer = open(topic);
      const [wrong, right] = await Promise.all([
        producer.publish(textRecord(topic, 1, "wrong")),
        producer.publish(textRecord(topic, 0, "right")),
      ]);
      expect(wrong).toMatchObject({ outcome: "refused", cause: "TOPIC_MISSING" });
      expect(offsetOf(right)).toBe(0n);
    });

    test("is bounded in records and in bytes", async () => {
      const topic = await broker.topic(1);
      await using few = open(topic, { queueRecords: 10 });
      await using small = open(topic, { queueBytes: 5_000 });
      for (const producer of [few, small]) {
        const results = await Promise.all(
          Array.from({ length: 30 }, (_, index) =>
            producer.publish(textRecord(topic, 0, `${index}`.padEnd(450))),
          ),
        );
        const outcomes = results.map(({ outcome }) => outcome);
        expect(outcomes).toEqual([...Array(10).fill("acknowledged"), ...Array(20).fill("refused")]);
        expect(results[29]).toMatchObject({ cause: "QUEUE_FULL" });
        expect(producer.queued).toEqual({ records: 0, bytes: 0 });
      }
    });

    test("refuses what is too large alone, by its own count and by the broker's word", async () => {
      const topic = await broker.topic(2, { "max.message.bytes": "10000" });
      await using producer = open(topic, { topics: [{ name: topic, maxMessageBytes: 20_000 }] });
      const [huge, ...results] = await Promise.all(
        [30_000, 4_000, 4_000, 15_000, 4_000, 10].map((size, index) =>
          producer.publish(textRecord(topic, 0, `${index}`.padEnd(size, "."))),
        ),
      );
      expect(huge).toMatchObject({
        outcome: "refused",
        cause: "TOO_LARGE",
        detail: expect.stringMatching("20000"),
      });
      const broken = results[2];
      expect(broken).toMatchObject({ outcome: "refused", cause: "TOO_LARGE" });
      expect(results.filter((result) => result !== broken).map(offsetOf)).toEqual([0n, 1n, 2n, 3n]);
      const log = await readAll(broker, topic);
      expect(log.get(0)?.map((value) => value[0])).toEqual(["1", "2", "4", "5"]);
    });

    test("refuses the one record that the broker rejects, and publishes those beside it", async () => {
      const topic = await broker.topic(1);
      await using producer = open(topic);
      const later = { ...textRecord(topic, 0, "later"), timestamp: Date.now() + 2 * 3_600_000 };
      const [before, rejected, after] = await Promise.all([
        producer.publish(textRecord(topic, 0, "before")),
        producer.publish(later),
        producer.publish(textRecord(topic, 0, "after")),
      ]);
      expect(rejected).toMatchObject({ outcome: "refused", cause: "REJECTED" });
      expect(rejected).toHaveProperty("detail", expect.stringMatching("INVALID_TIMESTAMP"));
      expect([before, after].map((result) => offsetOf(result))).toEqual([0n, 1n]);
      expect((await readAll(broker, topic)).get(0)).toEqual(["before", "after"]);
    });

    test("says that the broker takes no record at all, why, and that it takes them again", async () => {
      const topic = await broker.topic(1, { "message.timestamp.before.max.ms": "100" });
      await using producer = open(topic);
      const publish = (): Promise<PublishResult> =>
        producer.publish({ ...textRecord(topic, 0, "a"), timestamp: Date.now() - 5_000 });
      const linesOf = (level: string): unknown[] =>
        broker.log.lines.filter(
          ([each, , fields]) => each === level && (fields as { topic?: string })?.topic === topic,
        );
      expect(producer.fault).toMatch("is not connected yet");
      for (const _ of [1, 2]) {
        const rejected = await publish();
        expect(rejected).toMatchObject({ outcome: "refused", cause: "REJECTED" });
        expect(rejected).toHaveProperty("detail", expect.stringMatching(/INVALID_TIMESTAMP: its clock/));
        expect(producer.fault).toMatch(/INVALID_TIMESTAMP: its clock and that of this server \(.+Z\)/);
      }
      expect(linesOf("warn")).toEqual([
        ["warn", "Kafka rejects every record", { topic, reason: expect.stringMatching("clock") as string }],
      ]);
      // One whose own time is at fault says nothing of the others.
      await broker.admin.changeTopic(topic, { "message.timestamp.before.max.ms": "3600000" });
      await expect.poll(publish).toMatchObject({ outcome: "acknowledged" });
      const old = { ...textRecord(topic, 0, "old"), timestamp: Date.now() - 2 * 3_600_000 };
      expect(await producer.publish(old)).toMatchObject({ outcome: "refused", cause: "REJECTED" });
      expect(producer.fault).toBeUndefined();
      expect(linesOf("info")).toContainEqual(["info", "Kafka takes records again", { topic }]);
      expect(linesOf("warn")).toHaveLength(1);
    });

    test("gives up a record when its request is given up, and says whether it may be on the log", async () => {
      const topic = await broker.topic(1);
      await using producer = open(topic);
      await producer.ready;
      const done = new AbortController();
      done.abort();
      expect(await producer.publish(textRecord(topic, 0, "never"), done.signal)).toMatchObject({
        cause: "CANCELLED",
      });

      const queued = new AbortController();
      const result = producer.publish(textRecord(topic, 0, "queued"), queued.signal);
      queued.abort();
      expect(await result).toMatchObject({ outcome: "refused", cause: "CANCELLED" });

      const sent = new AbortController();
      await using watched = open(topic, { telemetry: watchBatches(() => sent.abort()) });
      await watched.ready;
      expect(await watched.publish(textRecord(topic, 0, "sent"), sent.signal)).toMatchObject({
        outcome: "unknown",
      });
      expect(offsetOf(await watched.publish(textRecord(topic, 0, "next")))).toBe(1n);
      expect((await readAll(broker, topic)).get(0)).toEqual(["sent", "next"]);
    });

    test("closes after what is in flight, and refuses from then on", async () => {
      const topic = await broker.topic(1);
      const producer = open(topic);
      await producer.ready;
      const results = Array.from({ length: 500 }, (_, index) =>
        producer.publish(textRecord(topic, 0, `${index}`)),
      );
      await producer.close(10_000);
      expect((await Promise.all(results)).map(offsetOf)).toEqual(
        Array.from({ length: 500 }, (_, i) => BigInt(i)),
      );
      expect(await producer.publish(textRecord(topic, 0, "late"))).toMatchObject({
        outcome: "refused",
        cause: "CLOSED",
      });
    });

    test("closes at its deadline and settles what is left", async () => {
      const producer = open("anything", { connection: brokerConnection("127.0.0.1:1") });
      const results = Array.from({ length: 3 }, (_, index) =>
        producer.publish(textRecord("anything", 0, `${index}`)),
      );
      await producer.close(50);
      for (const result of await Promise.all(results)) {
        expect(result).toMatchObject({
          outcome: "refused",
          cause: expect.stringMatching(/CLOSED|BROKER_AWAY/),
        });
      }
      expect(producer.queued).toEqual({ records: 0, bytes: 0 });
    });
  });
});
