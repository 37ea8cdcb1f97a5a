import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { type Child, startChild, untilReady } from "../../dev/child.ts";
import { cacheFolder, fetchKafkaJars } from "../../dev/kafka-jars.ts";
import { answersMetadata } from "../../dev/kafka-probe.ts";
import { brokerProperties } from "../../dev/kafka-properties.ts";
import { freePort } from "../../dev/ports.ts";
import { runTool } from "../../dev/tool.ts";

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
export async function startOwnBroker({ properties, format = [] }: OwnBrokerOptions = {}): Promise<OwnBroker> {
  const jars = await fetchKafkaJars(cacheFolder(), { say: (line) => process.stderr.write(`${line}\n`) });
  const folder = mkdtempSync(join(tmpdir(), "weir-broker-"));
  const [port, controllerPort] = [await freePort(), await freePort()];
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
  let child: Child;
  async function start(): Promise<void> {
    child = await startChild({
      name: "Kafka",
      command: "java",
      args: [...jvm, "kafka.Kafka", config],
      logFile: join(folder, "kafka.log"),
    });
    await untilReady(child, () => answersMetadata(port), { timeoutMs: 60_000 });
  }
  await start();
  return {
    address: proxy.address,
    port,
    proxy,
    start,
    async kill() {
      child.kill();
      await child.exited;
    },
    async [Symbol.asyncDispose]() {
      await child.stop();
      await proxy[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A TCP proxy whose faults can be chosen. It begins without any. */
export interface Proxy extends AsyncDisposable {
  readonly address: string;
  /**
   * "pass": everything goes through. "swallow": answers are lost. "stall": nothing goes through, either way. "refuse": no
   * new connection. Connections that are open stay so.
   */
  mode: "pass" | "swallow" | "stall" | "refuse";
  /** Ends every connection. */
  cut(): void;
  /** Resolves when an answer is lost from now on. */
  swallowed(): Promise<void>;
}

async function startProxy(target: number): Promise<Proxy> {
  const connections = new Set<Socket>();
  let lost = Promise.withResolvers<void>();
  const server: Server = createServer((client) => {
    if (proxy.mode === "refuse") return void client.destroy();
    const broker = connect(target, "127.0.0.1");
    for (const socket of [client, broker]) {
      connections.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        connections.delete(socket);
        client.destroy();
        broker.destroy();
      });
    }
    client.on("data", (chunk: Buffer) => {
      if (proxy.mode !== "stall") broker.write(chunk);
    });
    broker.on("data", (chunk: Buffer) => {
      if (proxy.mode === "swallow") lost.resolve();
      else if (proxy.mode !== "stall") client.write(chunk);
    });
    return undefined;
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  const proxy: Proxy = {
    address: `127.0.0.1:${port}`,
    mode: "pass",
    cut() {
      for (const socket of connections) socket.destroy();
    },
    swallowed() {
      lost = Promise.withResolvers();
      return lost.promise;
    },
    async [Symbol.asyncDispose]() {
      this.cut();
      server.close();
      await once(server, "close");
    },
  };
  return proxy;
}
