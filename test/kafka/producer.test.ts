import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { createProducer, type ProducerOptions } from "#kafka/producer.ts";
import { type Producer, type PublishResult } from "#kafka/ports.ts";

import { type Broker, brokerConnection, openBroker, readAll, textRecord } from "./broker.ts";

let broker: Broker;
beforeAll(async () => {
  broker = await openBroker();
});
afterAll(() => broker[Symbol.asyncDispose]());

function open(topic: string, options: Partial<ProducerOptions> = {}): Producer {
  return createProducer({
    connection: broker.connection,
    topics: [{ name: topic, maxMessageBytes: 1_048_576 }],
    log: broker.log,
    telemetry: broker.telemetry,
    ...options,
  });
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
      expect(values).toEqual(wanted.filter((each) => each.partition === partition).map(({ value }) => value));
    }
    expect(producer.queued).toEqual({ records: 0, bytes: 0 });
  });
});
