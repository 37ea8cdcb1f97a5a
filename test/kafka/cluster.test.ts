import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";

import { type Broker, brokerConnection, CLIENTS, openBroker } from "./broker.ts";
import { type Cluster, killLeaders, openCluster } from "./cluster-fixture.ts";
import { startOwnCluster } from "./own-broker.ts";
import { judge, openPublisher, type Publisher, type PublisherName, type Verdict } from "./publishers.ts";

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

interface Experiment {
  readonly name: PublisherName;
  readonly broker: Broker;
  readonly topic: string;
  readonly publisher: Publisher;
}

const PUBLISHERS: readonly PublisherName[] = ["plain kafkajs", ...CLIENTS];

/** Everybody publishes to a topic of their own on these brokers, while the same happens to all, and is judged. */
async function experiment(
  replicas: readonly (readonly number[])[],
  run: (all: readonly Experiment[]) => Promise<void>,
): Promise<ReadonlyMap<PublisherName, Verdict>> {
  await using stack = new AsyncDisposableStack();
  const all = await Promise.all(
    PUBLISHERS.map(async (name): Promise<Experiment> => {
      const broker = brokers.get(name)!;
      const topic = broker.name("cluster");
      await cluster.topic(topic, replicas);
      return { name, broker, topic, publisher: stack.use(await openPublisher(name, broker, topic)) };
    }),
  );
  await run(all);
  const verdicts = all.map(
    async ({ name, broker, topic, publisher }) => [name, await judge(broker, topic, publisher)] as const,
  );
  return new Map(await Promise.all(verdicts));
}

describe("where a leader moves to the broker that has acknowledged another partition", () => {
  let verdicts: ReadonlyMap<PublisherName, Verdict>;
  beforeAll(async () => {
    const replicas = [
      [1, 2, 3],
      [2, 3, 1],
    ];
    verdicts = await experiment(replicas, async (all) => {
      const publishBoth = (first: string, second: string): Promise<unknown> =>
        Promise.all(
          all.map(({ publisher }) =>
            publisher.publish([
              [0, first],
              [1, second],
            ]),
          ),
        );
      await publishBoth("first", "first");
      const [leader] = cluster.nodes;
      const withheld = leader!.proxy.withheld(all.length);
      leader!.proxy.mode = "stall";
      const both = publishBoth("moved", "stayed");
      await withheld;
      for (const { topic } of all) {
        await cluster.untilEnd(topic, 1, 2n);
      }
      await leader!.kill();
      leader!.proxy.mode = "pass";
      await both;
      await leader!.start();
      for (const { topic } of all) await cluster.untilInStep(topic);
    });
  }, 120_000);

  test("plain kafkajs leaves the record out and resolves", () => {
    expect(verdicts.get("plain kafkajs")).toMatchObject({ lost: ["moved"], acknowledged: 4 });
  });

  test.each(CLIENTS)("Weir by %s publishes both", (name) => {
    expect(verdicts.get(name)).toEqual({ lost: [], published: [], overtaken: [], acknowledged: 4 });
  });
});

describe("where a leader is killed under load", () => {
  let verdicts: ReadonlyMap<PublisherName, Verdict>;
  beforeAll(async () => {
    const replicas = [
      [1, 2, 3],
      [2, 3, 1],
      [3, 1, 2],
    ];
    verdicts = await experiment(replicas, (all) =>
      killLeaders({ cluster, targets: all, partitions: replicas.length, rounds: 1 }),
    );
  }, 120_000);

  test("plain kafkajs loses records, or lets later ones overtake", () => {
    const { lost, overtaken } = verdicts.get("plain kafkajs")!;
    expect([...lost, ...overtaken]).not.toEqual([]);
  });

  test.each(CLIENTS)("Weir by %s loses none, and keeps the order", (name) => {
    const verdict = verdicts.get(name);
    expect(verdict).toMatchObject({ lost: [], published: [], overtaken: [] });
    expect(verdict?.acknowledged).toBeGreaterThan(100);
  });
});
