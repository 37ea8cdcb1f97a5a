import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { type Child, startChild, untilReady } from "../../dev/child.ts";
import { cacheFolder, fetchKafkaJars } from "../../dev/kafka-jars.ts";
import { answersMetadata } from "../../dev/kafka-probe.ts";
import { brokerProperties } from "../../dev/kafka-properties.ts";
import { freePort } from "../../dev/ports.ts";
import { runTool } from "../../dev/tool.ts";
import { type Proxy, startProxy } from "./proxy.ts";

/** A broker that a suite may do anything to, behind a proxy that is the only way to it. */
export interface OwnBroker extends AsyncDisposable {
  /** Where clients connect, `host:port`: the proxy. */
  readonly address: string;
  readonly proxy: Proxy;
  /** Ends the broker by force, and resolves when it has ended. */
  kill(): Promise<void>;
  /** Starts it again, on the same data. */
  start(): Promise<void>;
  /** The broker's own port, past the proxy. */
  readonly port: number;
}

/** What differs from the plainest broker. */
export interface OwnBrokerOptions {
  /** What adds to its configuration, or takes the place of it. */
  readonly properties?: (plain: Readonly<Record<string, string>>) => Readonly<Record<string, string>>;
  /** Further arguments for the formatting of its log. */
  readonly format?: readonly string[];
}

/** Starts a broker. */
export async function startOwnBroker(options: OwnBrokerOptions = {}): Promise<OwnBroker> {
  const node = await prepareNode(await freePort(), await freePort(), options);
  await node.start();
  return node;
}

/**
 * Starts a cluster of three brokers, each behind a proxy of its own that its clients come through; the brokers reach each
 * other past the proxies. Topics have three copies, of which two must have what is acknowledged.
 */
export async function startOwnCluster(): Promise<readonly OwnBroker[] & AsyncDisposable> {
  const ids = [1, 2, 3];
  const ports = await Promise.all(
    ids.map(async () => ({
      client: await freePort(),
      controller: await freePort(),
      inner: await freePort(),
    })),
  );
  const voters = ports.map(({ controller }, index) => `${ids[index]}@127.0.0.1:${controller}`).join(",");
  const nodes: OwnBroker[] = [];
  for (const [index, { client, controller, inner }] of ports.entries()) {
    const properties: OwnBrokerOptions["properties"] = (plain) => ({
      "node.id": String(ids[index]),
      "controller.quorum.voters": voters,
      listeners: `${plain["listeners"]},INNER://127.0.0.1:${inner}`,
      "advertised.listeners": `${plain["advertised.listeners"]},INNER://127.0.0.1:${inner}`,
      "listener.security.protocol.map": `${plain["listener.security.protocol.map"]},INNER:PLAINTEXT`,
      "inter.broker.listener.name": "INNER",
      "default.replication.factor": "3",
      "min.insync.replicas": "2",
      "offsets.topic.replication.factor": "3",
      // A leader that was killed comes back as a follower; nothing moves by itself in the midst of a test.
      "auto.leader.rebalance.enable": "false",
    });
    nodes.push(await prepareNode(client, controller, { properties }));
  }
  await Promise.all(nodes.map((node) => node.start()));
  return Object.assign(nodes, {
    async [Symbol.asyncDispose]() {
      await Promise.all(nodes.map((node) => node[Symbol.asyncDispose]()));
    },
  });
}

/** A broker that is ready to be started for the first time. */
async function prepareNode(
  port: number,
  controllerPort: number,
  { properties, format = [] }: OwnBrokerOptions,
): Promise<OwnBroker> {
  const jars = await fetchKafkaJars(cacheFolder(), { say: (line) => process.stderr.write(`${line}\n`) });
  const folder = mkdtempSync(join(tmpdir(), "weir-broker-"));
  const proxy = await startProxy(port);
  const config = join(folder, "server.properties");
  const place = {
    host: "127.0.0.1",
    port,
    advertised: proxy.address,
    controllerPort,
    logDirs: join(folder, "log"),
  };
  const plain = brokerProperties(place);
  const all = { ...plain, ...properties?.(plain) };
  writeFileSync(
    config,
    Object.entries(all)
      .map(([key, value]) => `${key}=${value}\n`)
      .join(""),
  );
  const jvm = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", join(jars, "*")];
  await runTool(
    "java",
    [...jvm, "kafka.tools.StorageTool", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", config, ...format],
    { failure: "The log could not be formatted" },
  );
  let child: Child | undefined;
  let isDown = false;
  return {
    address: proxy.address,
    port,
    proxy,
    async start() {
      child = await startChild({
        name: "Kafka",
        command: "java",
        args: [...jvm, "kafka.Kafka", config],
        logFile: join(folder, "kafka.log"),
      });
      await untilReady(child, () => answersMetadata(port), { timeoutMs: 60_000 });
      if (isDown) await proxy.up();
      isDown = false;
    },
    async kill() {
      isDown = true;
      child?.kill();
      await Promise.all([child?.exited, proxy.down()]);
    },
    async [Symbol.asyncDispose]() {
      await child?.stop();
      await proxy[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
