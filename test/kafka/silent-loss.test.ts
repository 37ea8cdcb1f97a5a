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

const PUBLISHERS: readonly PublisherName[] = ["plain kafkajs", ...CLIENTS];

/** Everybody publishes while something happens to the acknowledgements of their first batches, and is judged. */
async function experiment(fault: () => Promise<void>): Promise<ReadonlyMap<PublisherName, Verdict>> {
  await using stack = new AsyncDisposableStack();
  const all = await Promise.all(
    PUBLISHERS.map(async (name) => {
      const broker = brokers.get(name)!;
      const topic = await broker.topic(1);
      const publisher: Publisher = stack.use(await openPublisher(name, broker, topic));
      await publisher.publish([[0, "first"]]);
      return { name, broker, topic, publisher };
    }),
  );
  const happening = fault();
  // Two at once, so that for plain kafkajs the second one waits for the first.
  const early = all.flatMap(({ publisher }) => [
    publisher.publish([[0, "a"]]),
    publisher.publish([[0, "b"]]),
  ]);
  await happening;
  await Promise.all([...early, ...all.map(({ publisher }) => publisher.publish([[0, "c"]]))]);
  await Promise.all(all.map(({ publisher }) => publisher.publish([[0, "last"]])));
  const verdicts = all.map(
    async ({ name, broker, topic, publisher }) => [name, await judge(broker, topic, publisher)] as const,
  );
  return new Map(await Promise.all(verdicts));
}

const FAULTS: Readonly<Record<string, () => Promise<void>>> = {
  async "an acknowledgement is lost"() {
    own.proxy.mode = "swallow";
    await own.proxy.withheld(PUBLISHERS.length);
    own.proxy.mode = "pass";
    own.proxy.cut();
  },
  async "the connection is cut behind a request"() {
    own.proxy.mode = "sever";
    await own.proxy.withheld(PUBLISHERS.length);
    own.proxy.mode = "pass";
  },
  async "the broker is killed before its acknowledgement arrives"() {
    own.proxy.mode = "swallow";
    await own.proxy.withheld(PUBLISHERS.length);
    await own.kill();
    own.proxy.mode = "pass";
    await own.start();
  },
};

describe.each(Object.entries(FAULTS))("where %s", (_what, fault) => {
  let verdicts: ReadonlyMap<PublisherName, Verdict>;
  beforeAll(async () => {
    verdicts = await experiment(fault);
  });

  test("plain kafkajs loses a record that it has acknowledged", async () => {
    let verdict = verdicts.get("plain kafkajs")!;
    // Which of two requests is in flight at the fault is chance, so it may take a second or a third one.
    for (let again = 0; again < 4 && verdict.lost.length === 0; again += 1)
      verdict = (await experiment(fault)).get("plain kafkajs")!;
    expect(verdict.acknowledged).toBeGreaterThan(0);
    expect(verdict.lost).not.toEqual([]);
  });

  test.each(CLIENTS)("Weir by %s loses none, and keeps the order", (name) => {
    const verdict = verdicts.get(name)!;
    expect(verdict).toMatchObject({ lost: [], published: [], overtaken: [] });
    // All but the last but one, which may be refused while the broker is away.
    expect(verdict.acknowledged).toBeGreaterThanOrEqual(4);
  });
});
