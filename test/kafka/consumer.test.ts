import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { type ConsumerHandler, type OutgoingRecord, type RecordHeader } from "#kafka/ports.ts";

import { type Broker, brokerConnection, CLIENTS, openBroker, textRecord } from "./broker.ts";
import { consume } from "./consuming.ts";

describe.each(CLIENTS)("%s", (name) => {
  let broker: Broker;
  beforeAll(async () => {
    broker = await openBroker(brokerConnection(), name);
  });
  afterAll(() => broker[Symbol.asyncDispose]());

  /** A store with a fence, as the persist role has one: what it holds of each partition, and where it is to go on. */
  function createStore(partitions: number): {
    readonly values: readonly (readonly string[])[];
    member(): Pick<ConsumerHandler, "assigned" | "records">;
  } {
    const epochs = Array<number>(partitions).fill(0);
    const next = Array<bigint>(partitions).fill(0n);
    const values = Array.from({ length: partitions }, (): string[] => []);
    return {
      values,
      member() {
        const claims = new Map<number, number>();
        return {
          async assigned({ partition }) {
            epochs[partition]! += 1;
            claims.set(partition, epochs[partition]!);
            return next[partition]!;
          },
          async records({ partition }, records) {
            await new Promise(setImmediate);
            if (claims.get(partition) !== epochs[partition]) throw new Error("fenced");
            if (records[0]!.offset !== next[partition]) throw new Error("not the next record");
            values[partition]!.push(...records.map(({ value }) => String(value)));
            next[partition] = records.at(-1)!.offset + 1n;
          },
        };
      },
    };
  }

  /** Publishes `count` numbered records, round the partitions, and answers their values. */
  async function publish(topic: string, partitions: number, from: number, count: number): Promise<string[]> {
    const values = Array.from({ length: count }, (_, index) => `${from + index}`);
    await publishAll(values.map((value, index) => textRecord(topic, index % partitions, value)));
    return values;
  }

  async function publishAll(records: readonly OutgoingRecord[]): Promise<void> {
    const topic = { name: records[0]!.topic, maxMessageBytes: 1_048_576 };
    const { connection, log, telemetry } = broker;
    await using producer = broker.client.createProducer({
      connection,
      topics: [topic],
      log,
      telemetry,
      queueRecords: 100_000,
    });
    const results = await Promise.all(records.map((record) => producer.publish(record)));
    expect(results.filter(({ outcome }) => outcome !== "acknowledged")).toEqual([]);
  }

  const seconds = { timeout: 20_000 };

  describe("a consumer", () => {
    test("hands over every record in order, in groups, without overlap", async () => {
      const topic = await broker.topic(3);
      const values = await publish(topic, 3, 0, 3_000);
      await using consuming = consume(broker, topic, {}, { batchRecords: 200 });
      await expect.poll(() => consuming.values().length, seconds).toBe(3_000);
      for (const partition of [0, 1, 2]) {
        expect(consuming.values(partition)).toEqual(values.filter((_, index) => index % 3 === partition));
      }
      const offsets = consuming.batches.flat().filter(({ partition }) => partition === 1);
      expect(offsets.map(({ offset }) => offset)).toEqual(
        Array.from({ length: 1_000 }, (_, index) => BigInt(index)),
      );
      expect(Math.max(...consuming.batches.map(({ length }) => length))).toBe(200);
      expect(consuming.consumer.fault).toBeUndefined();
      expect(consuming.consumer.assignment).toHaveLength(3);

      await publish(topic, 3, 3_000, 3);
      await expect.poll(() => consuming.values().length, seconds).toBe(3_003);
    });

    test("hands over bytes, the order of repeated headers, null headers, an empty value and a tombstone", async () => {
      const topic = await broker.topic(1);
      const bytes = Uint8Array.from({ length: 256 }, (_, index) => index);
      const headers: RecordHeader[] = [
        ["a", bytes],
        ["b", null],
        ["a", new Uint8Array()],
        ["constructor", Uint8Array.of(1)],
        ["a", null],
        ["7", Uint8Array.of(2)],
      ];
      const records: OutgoingRecord[] = [
        {
          topic,
          partition: 0,
          key: bytes.subarray(10, 20),
          value: bytes,
          headers,
          timestamp: 1_700_000_000_123,
        },
        { topic, partition: 0, key: null, value: new Uint8Array(), headers: [], timestamp: 5 },
        {
          topic,
          partition: 0,
          key: new Uint8Array(),
          value: null,
          headers: [],
          timestamp: 1_700_000_000_000,
        },
      ];
      await publishAll(records);
      await using consuming = consume(broker, topic);
      await expect.poll(() => consuming.batches.flat().length, seconds).toBe(3);
      const plain = (value: Uint8Array | null): number[] | null => value && [...value];
      const flat = ({ key, value, headers: list, ...rest }: OutgoingRecord): unknown => ({
        ...rest,
        key: plain(key),
        value: plain(value),
        headers: list.map(([name, content]) => [name, plain(content)]),
      });
      expect(consuming.batches.flat().map(flat)).toEqual(
        records.map((record, index) => flat({ ...record, offset: BigInt(index) } as OutgoingRecord)),
      );
    });

    test("is told the log's range and starts where it is told to", async () => {
      const topic = await broker.topic(1);
      await publish(topic, 1, 0, 100);
      await broker.deleteRecords(topic, 0, 10n);
      const group = broker.name("group");
      const topicId = (await broker.admin.logRanges(topic)).get(0)?.topicId;
      {
        await using first = consume(broker, topic, { assigned: async () => 40n }, { group });
        await expect.poll(() => first.values().length, seconds).toBe(60);
        expect(first.values()[0]).toBe("40");
        expect(first.assigned).toEqual([
          [0, { start: 10n, end: 100n, committed: undefined, stable: 100n, topicId }],
        ]);
      }
      await using second = consume(broker, topic, { assigned: async () => 95n }, { group });
      await expect.poll(() => second.values(), seconds).toEqual(["95", "96", "97", "98", "99"]);
      expect(second.assigned).toEqual([
        [0, { start: 10n, end: 100n, committed: 100n, stable: 100n, topicId }],
      ]);
    });

    test("gives the same records again after a throw, while other partitions go on", async () => {
      const topic = await broker.topic(2);
      await publish(topic, 2, 0, 20);
      const offered: string[] = [];
      const healed = Promise.withResolvers<void>();
      let isBroken = true;
      await using consuming = consume(broker, topic, {
        async records({ partition }, records) {
          if (partition === 0) offered.push(records.map(({ value }) => String(value)).join());
          if (partition === 0 && isBroken) throw new Error("the database is away");
        },
      });
      await expect.poll(() => consuming.values(1).length, seconds).toBe(10);
      await expect.poll(() => consuming.consumer.fault, seconds).toMatch(/partition 0: the database is away/);
      await publish(topic, 2, 20, 20);
      await expect.poll(() => consuming.values(1).length, seconds).toBe(20);
      await expect.poll(() => offered.length, seconds).toBe(2);
      isBroken = false;
      healed.resolve();

      await expect.poll(() => consuming.values(0).length, seconds).toBe(20);
      expect(consuming.values(0)).toEqual(Array.from({ length: 20 }, (_, index) => `${index * 2}`));
      for (const again of offered.slice(1, 3)) expect(again.startsWith(offered[0]!)).toBe(true);
      expect(consuming.assigned.filter(([partition]) => partition === 0).length).toBeGreaterThanOrEqual(3);
      expect(consuming.assigned.filter(([partition]) => partition === 1)).toHaveLength(1);
      expect(consuming.consumer.fault).toBeUndefined();
    });

    test("leaves a partition unread while it cannot be taken over or is told to start outside the log", async () => {
      const topic = await broker.topic(2);
      await publish(topic, 2, 0, 10);
      const answers: (() => bigint)[] = [
        () => {
          throw new Error("no claim");
        },
        () => 99n,
        () => 2n,
      ];
      await using consuming = consume(broker, topic, {
        assigned: async ({ partition }, log) => (partition === 0 ? answers.shift()!() : log.start),
      });
      await expect.poll(() => consuming.consumer.fault, seconds).toMatch(/partition 0: no claim/);
      await expect.poll(() => consuming.values(1).length, seconds).toBe(5);
      await expect.poll(() => consuming.consumer.fault, seconds).toMatch(/offset 99 .* the log holds 0 to 5/);
      expect(consuming.values(0)).toEqual([]);
      await expect.poll(() => consuming.values(0), seconds).toEqual(["4", "6", "8"]);
      expect(consuming.consumer.fault).toBeUndefined();
    });

    test("finishes and commits what is in flight when it stops, and takes nothing more", async () => {
      const topic = await broker.topic(1);
      await publish(topic, 1, 0, 100);
      const started = Promise.withResolvers<void>();
      const finish = Promise.withResolvers<void>();
      const consuming = consume(
        broker,
        topic,
        {
          async records() {
            started.resolve();
            await finish.promise;
          },
        },
        { batchRecords: 30 },
      );
      await started.promise;
      const stopped = consuming.stop();
      finish.resolve();
      await stopped;
      expect(consuming.values()).toHaveLength(30);
      expect(consuming.revoked).toEqual([0]);
      expect(consuming.consumer.assignment).toEqual([]);
      expect(await broker.admin.committedOffsets(consuming.group, topic)).toEqual(new Map([[0, 30n]]));
      expect(await broker.members(consuming.group)).toBe(0);
    });

    test("tells a handler to let go when the drain takes too long", async () => {
      const topic = await broker.topic(1);
      await publish(topic, 1, 0, 1);
      const started = Promise.withResolvers<void>();
      const consuming = consume(
        broker,
        topic,
        {
          async records(_partition, _records, signal) {
            started.resolve();
            await new Promise((_, reject) =>
              signal.addEventListener("abort", () => reject(new Error("let go"))),
            );
          },
        },
        { drainMs: 100 },
      );
      await started.promise;
      await consuming.stop();
      expect(consuming.values()).toEqual([]);
      expect(await broker.admin.committedOffsets(consuming.group, topic)).toEqual(new Map());
    });

    test("keeps its membership and its other partitions while a handler works longer than the session", async () => {
      const topic = await broker.topic(2);
      await publish(topic, 2, 0, 2);
      const finish = Promise.withResolvers<void>();
      await using consuming = consume(broker, topic, {
        records: ({ partition }) => (partition === 0 ? finish.promise : Promise.resolve()),
      });
      await expect.poll(() => consuming.values(1).length, seconds).toBe(1);
      const until = performance.now() + 12_000;
      let published = 0;
      while (performance.now() < until) {
        published += 1;
        await publish(topic, 2, published * 2, 2);
        await expect.poll(() => consuming.values(1).length, seconds).toBe(1 + published);
      }
      finish.resolve();
      await expect.poll(() => consuming.values(0).length, seconds).toBe(1 + published);
      expect(consuming.assigned).toHaveLength(2);
      expect(consuming.revoked).toEqual([]);
    });

    test("asks anew where to read when what it is to read next has left the log", async () => {
      const topic = await broker.topic(1);
      await publish(topic, 1, 0, 10);
      const blocked = Promise.withResolvers<void>();
      await using consuming = consume(
        broker,
        topic,
        {
          assigned: async (_partition, log) => (log.start > 0n ? log.start : 0n),
          records: (_partition, records) => (records[0]!.offset === 0n ? blocked.promise : Promise.resolve()),
        },
        { batchRecords: 5, topic: { name: topic, maxMessageBytes: 1_000 } },
      );
      await expect.poll(() => consuming.assigned.length, seconds).toBe(1);
      await publish(topic, 1, 10, 500);
      await broker.deleteRecords(topic, 0, 400n);
      blocked.resolve();
      await expect.poll(() => consuming.values().at(-1), seconds).toBe("509");
      expect(consuming.assigned.at(-1)).toEqual([0, expect.objectContaining({ start: 400n, end: 510n })]);
      const offsets = consuming.values().map(Number);
      const first = offsets.indexOf(400);
      expect(offsets.slice(first)).toEqual(Array.from({ length: 110 }, (_, index) => 400 + index));
      expect(offsets.slice(0, first)).toEqual(Array.from({ length: first }, (_, index) => index));
      await expect
        .poll(() => broker.admin.committedOffsets(consuming.group, topic), seconds)
        .toEqual(new Map([[0, 510n]]));
    });

    test("passes over control records and aborted transactions", async () => {
      const topic = await broker.topic(1);
      const aborted = ["b", "c", "d", "e"].map((letter) => ["abort", letter.repeat(900)] as const);
      await broker.transactions(topic, [["commit", "a"], ...aborted, ["commit", "f"]]);
      // So little a fetch that some bring aborted records alone.
      await using consuming = consume(broker, topic, {}, { topic: { name: topic, maxMessageBytes: 1_000 } });
      await expect.poll(() => consuming.values(), seconds).toEqual(["a", "f"]);
      await publish(topic, 1, 1, 1);
      await expect.poll(() => consuming.values(), seconds).toEqual(["a", "f", "1"]);
      expect(consuming.assigned).toHaveLength(1);
    });

    test("reads what others have compressed with gzip", async () => {
      const topic = await broker.topic(1);
      await broker.gzip(topic, ["x", "y"]);
      await using consuming = consume(broker, topic);
      await expect.poll(() => consuming.values(), seconds).toEqual(["x", "y"]);
    });

    test("waits for a topic that does not exist yet and says so", async () => {
      const topic = broker.name("late");
      await using consuming = consume(broker, topic);
      await expect.poll(() => consuming.consumer.fault, seconds).toMatch(/not host/);
      await broker.topic(1, {}, topic);
      await publish(topic, 1, 0, 1);
      await expect.poll(() => consuming.values(), seconds).toEqual(["0"]);
      expect(consuming.consumer.fault).toBeUndefined();
    });

    test("shares partitions with members that come and go, and nothing is lost, doubled or moved", async () => {
      const topic = await broker.topic(4);
      const group = broker.name("group");
      const store = createStore(4);
      const stored = (): number => store.values.flat().length;
      const expected: string[] = [];
      const load = async (): Promise<void> => {
        expected.push(...(await publish(topic, 4, expected.length, 400)));
      };
      await using first = consume(broker, topic, store.member(), { group, batchRecords: 20 });
      await expect.poll(() => first.consumer.assignment.length, seconds).toBe(4);
      await load();
      {
        await using second = consume(broker, topic, store.member(), { group, batchRecords: 20 });
        const loading = load();
        await expect.poll(() => second.consumer.assignment.length, seconds).toBe(2);
        await loading;
        await load();
        await expect.poll(stored, seconds).toBe(expected.length);
        expect(first.consumer.assignment).toHaveLength(2);
        await load();
      }
      await expect.poll(() => first.consumer.assignment.length, seconds).toBe(4);
      await expect.poll(stored, seconds).toBe(expected.length);
      for (const [partition, values] of store.values.entries()) {
        expect(values).toEqual(expected.filter((_, index) => index % 4 === partition));
      }
    });
  });
});
