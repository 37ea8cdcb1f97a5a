import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";

import { type Broker, brokerConnection, CLIENTS, openBroker } from "./broker.ts";
import { type Cluster, killLeaders, openCluster } from "./cluster-fixture.ts";
import { startOwnCluster } from "./own-broker.ts";
import { judge, openPublisher, type PublisherName, type Verdict } from "./publishers.ts";

// As silent-loss.test.ts, on a cluster whose leaders move.

/** Given back last in, first out, whatever else fails. */
const resources = new AsyncDisposableStack();
let cluster: Cluster;
const brokers = new Map<PublisherName, Broker>();
beforeAll(async () => {
  const nodes = resources.use(await startOwnCluster());
  cluster = resources.use(openCluster(nodes));
  const connection = brokerConnection(nodes.map(({ address }) => address).join());
  for (const name of CLIENTS) brokers.set(name, resources.use(await openBroker(connection, name)));
  brokers.set("plain kafkajs", brokers.get("kafkajs")!);
}, 120_000);
afterAll(() => resources.disposeAsync());
afterEach(() => {
  for (const { proxy } of cluster.nodes) proxy.mode = "pass";
});

describe("where a leader moves to the broker that has acknowledged another partition", () => {
  /** Publishes to two partitions at once; the leader of the first one dies and leaves it to that of the other. */
  async function experiment(name: PublisherName): Promise<Verdict> {
    const broker = brokers.get(name)!;
    const topic = broker.name("moved");
    await cluster.topic(topic, [
      [1, 2, 3],
      [2, 3, 1],
    ]);
    await using publisher = await openPublisher(name, broker, topic);
    await publisher.publish([
      [0, "first"],
      [1, "first"],
    ]);
    const leader = await cluster.leader(topic, 0);
    const withheld = leader.proxy.withheld();
    leader.proxy.mode = "stall";
    const both = publisher.publish([
      [0, "moved"],
      [1, "stayed"],
    ]);
    await withheld;
    await expect.poll(() => cluster.end(topic, 1), { timeout: 20_000 }).toBe(2n);
    await leader.kill();
    leader.proxy.cut();
    leader.proxy.mode = "pass";
    await both;
    await leader.start();
    await cluster.untilInStep(topic);
    return judge(broker, topic, publisher);
  }

  test("plain kafkajs leaves the record out and resolves", { timeout: 90_000 }, async () => {
    expect(await experiment("plain kafkajs")).toMatchObject({ lost: ["moved"], acknowledged: 4 });
  });

  test.each(CLIENTS)("Weir by %s publishes both", { timeout: 90_000 }, async (name) => {
    expect(await experiment(name)).toEqual({ lost: [], published: [], overtaken: [], acknowledged: 4 });
  });
});

describe("where leaders are killed under load", () => {
  async function experiment(name: PublisherName): Promise<Verdict> {
    const broker = brokers.get(name)!;
    const topic = broker.name("killed");
    await cluster.topic(topic, [
      [1, 2, 3],
      [2, 3, 1],
      [3, 1, 2],
    ]);
    await using publisher = await openPublisher(name, broker, topic);
    await killLeaders({ cluster, publisher, topic, partitions: 3, rounds: 1 });
    return judge(broker, topic, publisher);
  }

  test("plain kafkajs loses records, or lets later ones overtake", { timeout: 90_000 }, async () => {
    const { lost, overtaken } = await experiment("plain kafkajs");
    expect([...lost, ...overtaken]).not.toEqual([]);
  });

  test.each(CLIENTS)("Weir by %s loses none, and keeps the order", { timeout: 90_000 }, async (name) => {
    const verdict = await experiment(name);
    expect(verdict).toMatchObject({ lost: [], published: [], overtaken: [] });
    expect(verdict.acknowledged).toBeGreaterThan(100);
  });
});
