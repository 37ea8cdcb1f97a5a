import { parseArgs } from "node:util";

import { type KafkaClientName } from "#kafka/client.ts";

import { brokerConnection, CLIENTS, openBroker } from "./broker.ts";
import { killLeaders, openCluster } from "./cluster-fixture.ts";
import { startOwnCluster } from "./own-broker.ts";
import { judge, openPublisher } from "./publishers.ts";

// `npm run torture:kafka -- --rounds 20 --client platformatic`: the long version of cluster.test.ts. Kills one leader after
// another under load, on a cluster of three, and judges the publisher by the log.

const { values } = parseArgs({
  options: { rounds: { type: "string", default: "10" }, client: { type: "string" } },
});
const names = CLIENTS.filter((name) => values.client === undefined || values.client === name);
const say = (line: string): void => void process.stdout.write(`${line}\n`);

async function torture(name: KafkaClientName, rounds: number): Promise<boolean> {
  await using nodes = await startOwnCluster();
  await using cluster = openCluster(nodes);
  const connection = brokerConnection(nodes.map(({ address }) => address).join());
  await using broker = await openBroker(connection, name);
  const topic = broker.name("torture");
  await cluster.topic(topic, [
    [1, 2, 3],
    [2, 3, 1],
    [3, 1, 2],
  ]);
  await using publisher = await openPublisher(name, broker, topic);
  const began = performance.now();
  await killLeaders({ cluster, targets: [{ publisher, topic }], partitions: 3, rounds });
  const { lost, published, overtaken, acknowledged } = await judge(broker, topic, publisher);
  const unknown = publisher.tried.filter(({ outcome }) => outcome === "unknown").length;
  const refused = publisher.tried.filter(({ outcome }) => outcome === "refused").length;
  say(
    `${name}: ${rounds} leaders killed in ${((performance.now() - began) / 1_000).toFixed(0)} s; ` +
      `${acknowledged} acknowledged, ${refused} refused, ${unknown} unknown; ` +
      `${lost.length} lost, ${overtaken.length} overtaken, ${published.length} refused and there all the same`,
  );
  return lost.length + published.length + overtaken.length === 0;
}

for (const name of names) if (!(await torture(name, Number(values.rounds)))) process.exitCode = 1;
