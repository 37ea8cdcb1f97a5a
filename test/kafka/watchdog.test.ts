import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { type Adapter } from "#kafka/adapter.ts";
import { type KafkaClient } from "#kafka/client.ts";
import { createConsumer } from "#kafka/consumer.ts";
import { adapter as kafkajs } from "#kafka/kafkajs/adapter.ts";
import { adapter as platformatic } from "#kafka/platformatic/adapter.ts";

import { type Broker, brokerConnection, openBroker, textRecord } from "./broker.ts";
import { consume } from "./consuming.ts";
import { type OwnBroker, startOwnBroker } from "./own-broker.ts";

const resources = new AsyncDisposableStack();
let own: OwnBroker;
beforeAll(async () => {
  own = resources.use(await startOwnBroker());
});
afterAll(() => resources.disposeAsync());

const soon = { timeout: 30_000, interval: 50 };

describe.each([
  ["kafkajs", kafkajs],
  ["platformatic", platformatic],
] as const)("%s: a consumer that is stuck", (name, adapter) => {
  let broker: Broker;
  beforeAll(async () => {
    broker = await openBroker(brokerConnection(own.address), name);
  });
  afterAll(() => broker[Symbol.asyncDispose]());

  async function publish(topic: string, ...values: readonly string[]): Promise<void> {
    const { connection, log, telemetry, client } = broker;
    const topics = [{ name: topic, maxMessageBytes: 1_048_576 }];
    await using producer = client.createProducer({ connection, topics, log, telemetry });
    for (const value of values)
      expect((await producer.publish(textRecord(topic, 0, value))).outcome).toBe("acknowledged");
  }

  /** How often a membership was given up for a reason. */
  const interruptions = (reason: RegExp): number =>
    broker.log.lines.filter(
      ([, message, fields]) =>
        message.startsWith("Consuming was interrupted") &&
        reason.test(String((fields as { error: Error }).error)),
    ).length;

  test("since it fetches no more, though its heartbeats go through, is replaced while the log goes on", async () => {
    const topic = await broker.topic(1);
    let members = 0;
    let stuck = 0;
    // The real client, but for the fetching of one member: it begins, and from some moment on does nothing that it is told.
    const hanging: Adapter = {
      ...adapter,
      openMember(options) {
        members += 1;
        const number = members;
        const member = adapter.openMember({
          ...options,
          onFetched: (partition, fetched) => {
            if (number !== stuck) return options.onFetched(partition, fetched);
            member.pause(partition);
            return false;
          },
        });
        return member;
      },
    };
    const client: KafkaClient = {
      ...broker.client,
      createConsumer: (options) => createConsumer(hanging, options),
    };
    await publish(topic, "before");
    const began = performance.now();
    await using consuming = consume(broker, topic, {}, { client, stuckMs: 2_000 });
    await expect.poll(() => consuming.values(), soon).toEqual(["before"]);
    // With nothing to fetch, waiting is no fault.
    stuck = members;
    await publish(topic, "then");
    await expect.poll(() => consuming.values(), soon).toEqual(["before", "then"]);
    expect(performance.now() - began).toBeGreaterThan(2_000);
    expect(members).toBe(stuck + 1);
    expect(interruptions(/no fetch has brought anything at offset 1 in \d s/)).toBe(1);
    await publish(topic, "and on");
    await expect.poll(() => consuming.values(), soon).toEqual(["before", "then", "and on"]);
    expect(await broker.members(consuming.group)).toBe(1);
  }, 60_000);

  test("is not taken for stuck while the log has nothing more", async () => {
    const topic = await broker.topic(1);
    await publish(topic, "only");
    await using consuming = consume(broker, topic, {}, { stuckMs: 1_000 });
    await expect.poll(() => consuming.values(), soon).toEqual(["only"]);
    const before = broker.log.lines.length;
    // Three times the bound.
    const until = performance.now() + 3_000;
    await expect.poll(() => performance.now(), { timeout: 10_000 }).toBeGreaterThan(until);
    const lines = broker.log.lines.slice(before).filter(([level]) => level === "warn");
    expect(lines).toEqual([]);
    expect(consuming.assigned).toHaveLength(1);
  }, 60_000);

  test("is not taken for stuck while somebody's open transaction holds the log back", async () => {
    const topic = await broker.topic(1);
    await publish(topic, "before");
    await using consuming = consume(broker, topic, {}, { stuckMs: 1_000 });
    await expect.poll(() => consuming.values(), soon).toEqual(["before"]);
    const open = await broker.openTransaction(topic, "held");
    await publish(topic, "after");
    const until = performance.now() + 3_000;
    await expect.poll(() => performance.now(), { timeout: 10_000 }).toBeGreaterThan(until);
    expect(consuming.assigned).toHaveLength(1);
    const range = (await broker.admin.logRanges(topic)).get(0);
    expect(range).toMatchObject({ stable: 1n, end: 3n });
    await open.commit();
    await expect.poll(() => consuming.values(), soon).toEqual(["before", "held", "after"]);
    expect(consuming.assigned).toHaveLength(1);
  }, 60_000);

  test("since answers are lost on their way, heartbeats' among them, is replaced and loses nothing", async () => {
    const topic = await broker.topic(1);
    await publish(topic, "before");
    await using consuming = consume(broker, topic, {}, { stuckMs: 3_000 });
    await expect.poll(() => consuming.values(), soon).toEqual(["before"]);
    own.proxy.mode = "swallow";
    await expect
      .poll(() => interruptions(/no heartbeat got through|no sign of life/), soon)
      .toBeGreaterThan(0);
    own.proxy.mode = "pass";
    own.proxy.cut();
    await publish(topic, "after");
    await expect.poll(() => consuming.values(), { ...soon, timeout: 60_000 }).toEqual(["before", "after"]);
    await expect.poll(() => broker.members(consuming.group), soon).toBe(1);
  }, 120_000);
});
