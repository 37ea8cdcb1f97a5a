import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { type Broker, CLIENTS, openBroker, textRecord } from "./broker.ts";
import { consume } from "./consuming.ts";

// What tells a topic from one that was made anew by its name: every client keeps the same contract.

const soon = { timeout: 20_000, interval: 50 };
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

describe.each(CLIENTS)("by %s", (clientName) => {
  let broker: Broker;
  beforeAll(async () => {
    broker = await openBroker(undefined, clientName);
  });
  afterAll(() => broker[Symbol.asyncDispose]());

  async function publish(topic: string, count: number): Promise<void> {
    const { connection, client, log, telemetry } = broker;
    const topics = [{ name: topic, maxMessageBytes: 1_048_576 }];
    await using producer = client.createProducer({ connection, topics, log, telemetry });
    for (let index = 0; index < count; index += 1)
      expect(await producer.publish(textRecord(topic, 0, String(index)))).toMatchObject({
        outcome: "acknowledged",
      });
  }

  const idOf = async (topic: string, of: Broker = broker): Promise<string | undefined> =>
    (await of.admin.logRanges(topic)).get(0)?.topicId;

  test("a topic has an id, the same by every client, and one made anew has another", async () => {
    const topic = await broker.topic(2);
    const id = await idOf(topic);
    expect(id).toMatch(UUID);
    expect((await broker.admin.logRanges(topic)).get(1)?.topicId).toBe(id);
    for (const other of CLIENTS) {
      await using another = await openBroker(undefined, other);
      expect(await idOf(topic, another)).toBe(id);
    }
    await broker.remake(topic, 2);
    expect(await idOf(topic)).toMatch(UUID);
    expect(await idOf(topic)).not.toBe(id);
  });

  test("a topic that does not exist has none: the question fails", async () => {
    await expect(broker.admin.logRanges(broker.name("missing"))).rejects.toThrow(/missing/);
  });

  test("a topic made anew while it is consumed, with a log that is longer already, is opened anew", async () => {
    const topic = await broker.topic(1);
    await publish(topic, 5);
    await using consuming = consume(broker, topic, {}, { stuckMs: 2_000 });
    await expect.poll(() => consuming.values(), soon).toHaveLength(5);
    const first = consuming.assigned[0]![1].topicId;
    await broker.remake(topic, 1);
    await publish(topic, 20);
    await expect.poll(() => consuming.assigned.at(-1)?.[1].topicId, soon).not.toBe(first);
    expect(first).toMatch(UUID);
  });
});
