import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";

import { type Broker, brokerConnection, CLIENTS, openBroker } from "./broker.ts";
import { type OwnBroker, startOwnBroker } from "./own-broker.ts";
import { judge, openPublisher, type Publisher, type PublisherName, type Verdict } from "./publishers.ts";

// The ways in which a Kafka client loses records without an error (docs/decisions/kafka-client.md), each on a real broker
// behind a proxy. Plain kafkajs must fall for every one of them, or the experiment shows nothing.

/** Given back last in, first out, whatever else fails. */
const resources = new AsyncDisposableStack();
let own: OwnBroker;
const brokers = new Map<PublisherName, Broker>();
beforeAll(async () => {
  own = resources.use(await startOwnBroker());
  for (const name of CLIENTS) {
    brokers.set(name, resources.use(await openBroker(brokerConnection(own.address), name)));
  }
  brokers.set("plain kafkajs", brokers.get("kafkajs")!);
});
afterAll(() => resources.disposeAsync());
afterEach(() => {
  own.proxy.mode = "pass";
});

/** Publishes while something happens to the acknowledgement of the first batch, and judges. */
async function experiment(name: PublisherName, fault: () => Promise<void>): Promise<Verdict> {
  const broker = brokers.get(name)!;
  const topic = await broker.topic(1);
  await using publisher: Publisher = await openPublisher(name, broker, topic);
  await publisher.publish([[0, "first"]]);
  // Two at once, so that for plain kafkajs the second one waits for the first.
  const [a, b] = [publisher.publish([[0, "a"]]), publisher.publish([[0, "b"]])];
  await fault();
  await Promise.all([a, b, publisher.publish([[0, "c"]])]);
  await publisher.publish([[0, "last"]]);
  return judge(broker, topic, publisher);
}

const FAULTS: Readonly<Record<string, () => Promise<void>>> = {
  async "an acknowledgement is lost"() {
    own.proxy.mode = "swallow";
    await own.proxy.withheld();
    own.proxy.mode = "pass";
    own.proxy.cut();
  },
  async "the connection is cut behind a request"() {
    own.proxy.mode = "sever";
    await own.proxy.withheld();
    own.proxy.mode = "pass";
  },
  async "the broker is killed before its acknowledgement arrives"() {
    own.proxy.mode = "swallow";
    await own.proxy.withheld();
    await own.kill();
    own.proxy.mode = "pass";
    await own.start();
  },
};

describe.each(Object.entries(FAULTS))("where %s", (_what, fault) => {
  test("plain kafkajs loses a record that it has acknowledged", async () => {
    const verdict = await experiment("plain kafkajs", fault);
    expect(verdict.acknowledged).toBeGreaterThan(0);
    expect(verdict.lost).not.toEqual([]);
  });

  test.each(CLIENTS)("Weir by %s loses none, and keeps the order", async (name) => {
    const verdict = await experiment(name, fault);
    expect(verdict).toMatchObject({ lost: [], published: [], overtaken: [] });
    // All but the last but one, which may be refused while the broker is away.
    expect(verdict.acknowledged).toBeGreaterThanOrEqual(4);
  });
});
