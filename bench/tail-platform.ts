import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { type Client, createClient, type Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";

import { IngestService } from "#gen/weir/v1/ingest_pb.ts";
import { TailService } from "#gen/weir/v1/tail_pb.ts";
import { migrate } from "#postgres/migrate.ts";

import { startChild } from "../dev/child.ts";
import { freePort } from "../dev/ports.ts";
import { createServiceFolder, startLocalPostgres } from "../test/support/local-services.ts";
import { silentLogger } from "../test/support/logger.ts";
import { openBroker, startServer, untilReady } from "./weir.ts";

/** A whole Weir: Kafka, PostgreSQL, one server and one worker with its usual roles. */
export interface TailPlatform extends AsyncDisposable {
  readonly ingest: Client<typeof IngestService>;
  /** Clients of tails, each with a connection of its own, over HTTP/2. */
  tails(connections: number): readonly Client<typeof TailService>[];
  /** Of the server, by its name with labels; 0 where there is none. */
  metric(name: string): Promise<number>;
}

/** Starts one; disposing of it ends and removes all of it. */
export async function startTailPlatform(): Promise<TailPlatform> {
  await using stack = new AsyncDisposableStack();
  const broker = stack.use(await openBroker());
  const { folder, remove } = createServiceFolder("weir-bench-");
  stack.defer(remove);
  const { urlOf, stop } = await startLocalPostgres(folder);
  stack.defer(stop);
  const url = urlOf("postgres");
  await migrate({ url, logger: silentLogger });
  const env = { WEIR_DATABASE_URL: url, WEIR_PERSIST_GROUP: "bench.persist" };
  const server = stack.use(await startServer(broker, env));
  await untilReady(server.port, TailService.typeName);
  const logs = mkdtempSync(join(tmpdir(), "weir-bench-"));
  stack.defer(() => rmSync(logs, { recursive: true, force: true, maxRetries: 5 }));
  const port = await freePort();
  const worker = await startChild({
    name: "workers",
    command: process.execPath,
    args: ["--disable-warning=TimeoutNegativeWarning", "workers/main.ts"],
    cwd: join(import.meta.dirname, ".."),
    logFile: join(logs, "workers.log"),
    env: {
      ...process.env,
      ...env,
      WEIR_LOG_FORMAT: "json",
      WEIR_KAFKA_BROKERS: broker.address,
      WEIR_TOPIC_EVENTS: server.topic,
      WEIR_TOPIC_DEAD_LETTERS: server.topic.replace("events", "dlq"),
      WEIR_WORKERS_PORT: String(port),
    },
  });
  stack.defer(() => worker.stop());
  const baseUrl = `http://127.0.0.1:${server.port}`;
  const connect = (httpVersion: "1.1" | "2"): Transport =>
    createConnectTransport({
      baseUrl,
      httpVersion,
      acceptCompression: [],
      interceptors: [
        (next) => (request) => {
          request.header.set("authorization", `Bearer ${server.token}`);
          return next(request);
        },
      ],
    });
  while (!(await isReady(port))) await sleep(50);
  const owned = stack.move();
  return {
    ingest: createClient(IngestService, connect("1.1")),
    tails: (connections) =>
      Array.from({ length: connections }, () => createClient(TailService, connect("2"))),
    async metric(name) {
      const page = await (await fetch(`${baseUrl}/metrics`)).text();
      const line = page.split("\n").find((each) => each.startsWith(`${name} `));
      return line === undefined ? 0 : Number(line.slice(name.length));
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function isReady(port: number): Promise<boolean> {
  return fetch(`http://127.0.0.1:${port}/readyz`).then(
    ({ ok }) => ok,
    () => false,
  );
}
