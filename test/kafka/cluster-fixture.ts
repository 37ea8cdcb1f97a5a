import { setTimeout as sleep } from "node:timers/promises";

import { Admin, type ClusterPartitionMetadata } from "@platformatic/kafka";

import { type OwnBroker } from "./own-broker.ts";
import { type Publisher } from "./publishers.ts";

/** What a suite asks of a cluster of its own, and does to it. */
export interface Cluster extends AsyncDisposable {
  /** The brokers, by their ids less one. */
  readonly nodes: readonly OwnBroker[];
  /** Makes a topic whose partitions are on these brokers by id, the leader first, and the next leader second. */
  topic(name: string, replicas: readonly (readonly number[])[]): Promise<void>;
  /** The partition's leader. */
  leader(topic: string, partition: number): Promise<OwnBroker>;
  /** Resolves when a partition's log has come to an offset; asks its leader alone. */
  untilEnd(topic: string, partition: number, offset: bigint): Promise<void>;
  /** Resolves when every partition of the topic has a leader and all its copies are in step. */
  untilInStep(topic: string): Promise<void>;
}

const POLL_MS = 100;

/** The cluster of these brokers; asked past the proxies that faults happen to. */
export function openCluster(nodes: readonly OwnBroker[]): Cluster {
  const admin = new Admin({
    clientId: "test",
    bootstrapBrokers: nodes.map(({ port }) => `127.0.0.1:${port}`),
    retries: 20,
    retryDelay: POLL_MS,
  });

  async function partitions(topic: string): Promise<ClusterPartitionMetadata[]> {
    const { topics } = await admin.metadata({ topics: [topic], forceUpdate: true });
    return topics.get(topic)!.partitions;
  }

  return {
    nodes,
    async topic(topic, replicas) {
      const assignments = replicas.map((brokers, partition) => ({ partition, brokers: [...brokers] }));
      await admin.createTopics({ topics: [topic], assignments });
      await this.untilInStep(topic);
    },
    async leader(topic, partition) {
      const { leader } = (await partitions(topic))[partition]!;
      return nodes[leader - 1]!;
    },
    async untilEnd(topic, partition, offset) {
      const asked = [{ name: topic, partitions: [{ partitionIndex: partition, timestamp: -1n }] }];
      for (;;) {
        const [listed] = await admin.listOffsets({ topics: asked });
        if (listed!.partitions[0]!.offset >= offset) return;
        await sleep(POLL_MS);
      }
    },
    async untilInStep(topic) {
      for (;;) {
        const all = await partitions(topic).catch(() => []);
        if (all.length > 0 && all.every(({ leader, isr }) => leader > 0 && isr.length === nodes.length))
          return;
        await sleep(POLL_MS);
      }
    },
    [Symbol.asyncDispose]: () => admin.close(),
  };
}

interface Load {
  /** How many have been acknowledged so far. */
  readonly acknowledged: number;
  stop(): Promise<void>;
}

/** Keeps some records of each partition under way until it is stopped, which waits for their outcomes. */
function createLoad(publisher: Publisher, partitions: number, atOnce = 8): Load {
  let isStopped = false;
  let acknowledged = 0;
  async function client(partition: number, lane: number): Promise<void> {
    for (let index = 0; !isStopped; index += 1) {
      const before = publisher.tried.length;
      await publisher.publish([[partition, `${partition}.${lane}.${index}`]]);
      if (publisher.tried[before]?.outcome === "acknowledged") acknowledged += 1;
      // A refusal comes at once.
      else await sleep(POLL_MS);
    }
  }
  const clients = Array.from({ length: partitions * atOnce }, (_, index) =>
    client(index % partitions, Math.floor(index / partitions)),
  );
  return {
    get acknowledged() {
      return acknowledged;
    },
    async stop(): Promise<void> {
      isStopped = true;
      await Promise.all(clients);
    },
  };
}

/** Kills one leader after another under load, with an answer to each target under way, and starts it again. */
export async function killLeaders({
  cluster,
  targets,
  partitions,
  rounds,
}: {
  readonly cluster: Cluster;
  /** Each with a topic of its own, whose partitions have the same leaders. */
  readonly targets: readonly { readonly publisher: Publisher; readonly topic: string }[];
  readonly partitions: number;
  readonly rounds: number;
}): Promise<void> {
  const loads = targets.map(({ publisher }) => createLoad(publisher, partitions));
  for (let round = 0; round < rounds; round += 1) {
    const victim = await cluster.leader(targets[0]!.topic, round % partitions);
    const withheld = victim.proxy.withheld(targets.length);
    victim.proxy.mode = "swallow";
    await withheld;
    await victim.kill();
    victim.proxy.mode = "pass";
    // The others take over before it is back.
    const goals = loads.map((load) => [load, load.acknowledged + 100] as const);
    while (goals.some(([load, goal]) => load.acknowledged < goal)) {
      await sleep(POLL_MS);
    }
    await victim.start();
    for (const { topic } of targets) await cluster.untilInStep(topic);
  }
  await Promise.all(loads.map((load) => load.stop()));
}
