import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";

import { type ProducerOptions } from "#kafka/producer.ts";
import { type Producer, type PublishResult } from "#kafka/ports.ts";

import { type Broker, brokerConnection, CLIENTS, openBroker, readAll, textRecord } from "./broker.ts";
import { consume } from "./consuming.ts";
import { type OwnBroker, startOwnBroker } from "./own-broker.ts";

/** Given back last in, first out, whatever else fails. */
const resources = new AsyncDisposableStack();
let own: OwnBroker;
beforeAll(async () => {
  own = resources.use(await startOwnBroker());
});
afterAll(() => resources.disposeAsync());

afterEach(() => {
  own.proxy.mode = "pass";
});

describe.each(CLIENTS)("%s", (name) => {
  let broker: Broker;
  beforeAll(async () => {
    broker = await openBroker(brokerConnection(own.address), name);
  });
  afterAll(() => broker[Symbol.asyncDispose]());

  /** A producer that has published a first record to each partition, so that the next request is to publish. */
  async function open(topic: string, options: Partial<ProducerOptions> = {}): Promise<Producer> {
    const { connection, log, telemetry } = broker;
    const topics = [{ name: topic, maxMessageBytes: 1_048_576 }];
    const producer = broker.client.createProducer({ connection, topics, log, telemetry, ...options });
    const { partitions } = (await broker.admin.describeTopics([topic])).get(topic)!;
    for (let partition = 0; partition < partitions; partition += 1) {
      expect((await producer.publish(textRecord(topic, partition, "first"))).outcome).toBe("acknowledged");
    }
    return producer;
  }

  const seconds = { timeout: 30_000 };

  describe("a producer whose broker fails", () => {
    test("sends a batch again whose acknowledgement was lost, and the log has it once", async () => {
      const topic = await broker.topic(2);
      await using producer = await open(topic);
      own.proxy.mode = "swallow";
      const lost = own.proxy.withheld();
      const early = Array.from({ length: 10 }, (_, index) =>
        producer.publish(textRecord(topic, index % 2, `${index}`)),
      );
      await lost;
      const late = Array.from({ length: 10 }, (_, index) =>
        producer.publish(textRecord(topic, index % 2, `${10 + index}`)),
      );
      own.proxy.mode = "refuse";
      own.proxy.cut();
      await expect.poll(() => producer.fault, seconds).toMatch(/ECONNRESET|closed/i);
      own.proxy.mode = "pass";
      const results = await Promise.all([...early, ...late]);

      expect(results.map(({ outcome }) => outcome)).toEqual(Array(20).fill("acknowledged"));
      expect(
        results.map((result) => (result.outcome === "acknowledged" ? Number(result.position.offset) : -1)),
      ).toEqual(Array.from({ length: 20 }, (_, index) => 1 + Math.floor(index / 2)));
      const log = await readAll(broker, topic);
      expect([0, 1].flatMap((partition) => log.get(partition) ?? [])).toEqual(
        [0, 1].flatMap((partition) => [
          "first",
          ...Array.from({ length: 10 }, (_, index) => `${index * 2 + partition}`),
        ]),
      );
    });

    test("calls a record unknown where its acknowledgement does not come in time, and goes on in order", async () => {
      const topic = await broker.topic(1);
      await using producer = await open(topic, { publishTimeoutMs: 1_500 });
      own.proxy.mode = "swallow";
      const lost = own.proxy.withheld();
      const began = performance.now();
      const result = producer.publish(textRecord(topic, 0, "sent"));
      await lost;
      expect(await result).toMatchObject({ outcome: "unknown" });
      expect(performance.now() - began).toBeLessThan(2_500);
      own.proxy.mode = "pass";
      await expect.poll(() => producer.fault, seconds).toBeUndefined();
      expect(await producer.publish(textRecord(topic, 0, "next"))).toMatchObject({ outcome: "acknowledged" });
      expect((await readAll(broker, topic)).get(0)).toEqual(["first", "sent", "next"]);
    });

    test("refuses records while the broker is away, publishes none of them, and recovers by itself", async () => {
      const topic = await broker.topic(1);
      await using producer = await open(topic, { publishTimeoutMs: 3_000 });
      own.proxy.mode = "refuse";
      own.proxy.cut();
      const waiting = producer.publish(textRecord(topic, 0, "waiting"));
      await expect.poll(() => producer.fault, seconds).toMatch(/Kafka at .* cannot be reached/);
      const began = performance.now();
      expect(await producer.publish(textRecord(topic, 0, "refused"))).toMatchObject({
        outcome: "refused",
        cause: "BROKER_AWAY",
      });
      expect(performance.now() - began).toBeLessThan(200);
      // It may have been written to a connection that was gone already, of which the client hears a moment later.
      expect((await waiting).outcome).toMatch(/refused|unknown/);

      own.proxy.mode = "pass";
      await expect.poll(() => producer.fault, seconds).toBeUndefined();
      expect(await producer.publish(textRecord(topic, 0, "next"))).toMatchObject({ outcome: "acknowledged" });
      expect((await readAll(broker, topic)).get(0)).toEqual(["first", "next"]);
    });

    test("keeps what it has queued over a short outage", async () => {
      const topic = await broker.topic(1);
      await using producer = await open(topic);
      own.proxy.mode = "refuse";
      own.proxy.cut();
      const results = ["a", "b", "c"].map((value) => producer.publish(textRecord(topic, 0, value)));
      await expect.poll(() => producer.fault, seconds).toBeDefined();
      own.proxy.mode = "pass";
      for (const result of await Promise.all(results)) expect(result.outcome).toBe("acknowledged");
      expect((await readAll(broker, topic)).get(0)).toEqual(["first", "a", "b", "c"]);
    });

    test("settles in time where the broker hangs, and recovers", async () => {
      const topic = await broker.topic(1);
      await using producer = await open(topic, { publishTimeoutMs: 1_500 });
      own.proxy.mode = "stall";
      const began = performance.now();
      const [first, second] = await Promise.all(
        ["a", "b"].map((value) => producer.publish(textRecord(topic, 0, value))),
      );
      expect(performance.now() - began).toBeLessThan(2_500);
      expect(first).toMatchObject({ outcome: "unknown" });
      expect(second?.outcome).toMatch(/unknown|refused/);
      own.proxy.mode = "pass";
      own.proxy.cut();
      await expect.poll(() => producer.fault, seconds).toBeUndefined();
      expect(await producer.publish(textRecord(topic, 0, "next"))).toMatchObject({ outcome: "acknowledged" });
      expect((await readAll(broker, topic)).get(0)?.at(-1)).toBe("next");
    });
  });

  describe("a broker that is killed under load", { timeout: 90_000 }, () => {
    test("loses no acknowledged record, keeps the order, and the consumer gets everything", async () => {
      const topic = await broker.topic(3);
      const next = new Map<number, bigint>();
      const seen = new Map<number, string[]>([0, 1, 2].map((partition) => [partition, []]));
      await using consuming = consume(broker, topic, {
        assigned: async ({ partition }, log) => next.get(partition) ?? log.start,
        async records({ partition }, records) {
          const expected = next.get(partition) ?? 0n;
          if (records[0]!.offset !== expected)
            throw new Error(`offset ${records[0]!.offset}, not ${expected}`);
          seen.get(partition)!.push(...records.map(({ value }) => String(value)));
          next.set(partition, records.at(-1)!.offset + 1n);
        },
      });
      await using producer = await open(topic, { publishTimeoutMs: 8_000 });
      const tries: { readonly partition: number; readonly value: string; result?: PublishResult }[] = [];
      const half = Promise.withResolvers<void>();

      async function client(partition: number): Promise<void> {
        for (let record = 0; record < 400; record += 1) {
          for (let attempt = 0; ; attempt += 1) {
            const each: (typeof tries)[number] = { partition, value: `${record}.${attempt}` };
            tries.push(each);
            each.result = await producer.publish(textRecord(topic, partition, each.value));
            if (each.result.outcome === "acknowledged") break;
            await expect.poll(() => producer.fault, seconds).toBeUndefined();
          }
          if (record === 150) half.resolve();
        }
      }

      const clients = Promise.all([0, 1, 2].map(client));
      await half.promise;
      await own.kill();
      await own.start();
      await clients;

      const log = await readAll(broker, topic);
      for (const partition of [0, 1, 2]) {
        const values = log.get(partition)!;
        const mine = tries.filter((each) => each.partition === partition);
        const acknowledged = mine.flatMap(({ value, result }) =>
          result?.outcome === "acknowledged" ? [{ value, offset: Number(result.position.offset) }] : [],
        );
        expect(acknowledged).toHaveLength(400);
        expect(values[0]).toBe("first");
        expect(acknowledged.map(({ offset }) => values[offset])).toEqual(
          acknowledged.map(({ value }) => value),
        );
        expect(acknowledged.map(({ offset }) => offset)).toEqual(
          acknowledged.map(({ offset }) => offset).toSorted((a, b) => a - b),
        );
        const refused = mine.filter(({ result }) => result?.outcome === "refused").map(({ value }) => value);
        expect(values.filter((value) => refused.includes(value))).toEqual([]);
        const unknown = mine.filter(({ result }) => result?.outcome === "unknown");
        expect(values.length).toBeLessThanOrEqual(401 + unknown.length);
        await expect.poll(() => seen.get(partition)!.length, seconds).toBe(values.length);
        expect(seen.get(partition)).toEqual(values);
      }
      await expect.poll(() => consuming.consumer.fault, seconds).toBeUndefined();
    });
  });
});
