import { randomBytes, randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { SignJWT } from "jose";

import { type Child, describeEnd, startChild } from "../dev/child.ts";
import { freePort } from "../dev/ports.ts";
import { createServiceFolder, startLocalKafka } from "../test/support/local-services.ts";
import { deleteTopics } from "../test/support/topic.ts";

/** The broker of a bench. */
export interface BenchBroker extends AsyncDisposable {
  /** `host:port`. */
  readonly address: string;
}

/** The broker that WEIR_KAFKA_BROKERS names, else one of the bench's own. */
export async function openBroker(): Promise<BenchBroker> {
  const given = process.env["WEIR_KAFKA_BROKERS"];
  if (given !== undefined) return { address: given, [Symbol.asyncDispose]: async () => {} };
  const { folder, remove } = createServiceFolder("weir-bench-");
  const { address, stop } = await startLocalKafka(folder);
  return {
    address,
    async [Symbol.asyncDispose]() {
      await stop();
      remove();
    },
  };
}

const INGEST = "weir.v1.IngestService";

/** A server; unless it is told otherwise there is no PostgreSQL, which it does not need for taking events in. */
export interface BenchServer extends AsyncDisposable {
  readonly port: number;
  readonly pid: number;
  readonly token: string;
  /** The topic of the events, of twelve partitions. */
  readonly topic: string;
}

/** Starts a server with a topic of its own, until a service is ready; disposing stops it and deletes the topic. */
export async function startServer(
  { address }: BenchBroker,
  env: Readonly<Record<string, string>> = {},
  service: string = INGEST,
): Promise<BenchServer> {
  await using stack = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), "weir-bench-"));
  stack.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  const run = randomUUID().slice(0, 8);
  const [topic, deadLetterTopic] = [`bench.events.${run}`, `bench.dlq.${run}`];
  if (service === INGEST) stack.defer(() => deleteTopics(address, [topic, deadLetterTopic]));
  const secret = randomBytes(32).toString("hex");
  const port = await freePort();
  const server = await startChild({
    name: "server",
    command: process.execPath,
    args: ["--disable-warning=TimeoutNegativeWarning", ...profiling(), "server/main.ts"],
    cwd: join(import.meta.dirname, ".."),
    env: {
      ...process.env,
      WEIR_PORT: String(port),
      WEIR_LOG_FORMAT: "json",
      WEIR_KAFKA_BROKERS: address,
      WEIR_DATABASE_URL: `postgres://nobody@127.0.0.1:${await freePort()}/nothing`,
      WEIR_TOPIC_EVENTS: topic,
      WEIR_TOPIC_DEAD_LETTERS: deadLetterTopic,
      WEIR_JWT_ALGORITHM: "HS256",
      WEIR_JWT_SECRET: secret,
      WEIR_STOP_DELAY: "0s",
      ...env,
    },
    logFile: join(folder, "server.log"),
  });
  stack.defer(() => server.stop());
  await Promise.race([untilReady(port, service), server.exited.then(() => failed(server))]);
  const token = await new SignJWT({ scope: "events.write events.read" })
    .setProtectedHeader({ alg: "HS256" })
    .setSubject("bench")
    .setIssuedAt()
    .setExpirationTime("2h")
    .sign(Buffer.from(secret));
  const owned = stack.move();
  return { port, pid: server.pid, token, topic, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

function failed(server: Child): never {
  throw new Error(describeEnd(server));
}

/** BENCH_PROFILE=<folder> leaves a CPU profile of every server there, to be read in a browser's developer tools. */
function profiling(): readonly string[] {
  const folder = process.env["BENCH_PROFILE"];
  return folder === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${folder}`];
}

/** Resolves once a server says, on this port, that a service is ready, by default to take events in; rejects after a minute. */
export async function untilReady(port: number, service: string = INGEST): Promise<void> {
  const url = `http://127.0.0.1:${port}/readyz?service=${service}`;
  const deadline = Date.now() + 60_000;
  while (!(await answersWell(url))) {
    if (Date.now() > deadline) throw new Error(`${url} did not answer that the service is ready.`);
    await sleep(50);
  }
}

async function answersWell(url: string): Promise<boolean> {
  return await fetch(url).then(
    ({ ok }) => ok,
    () => false,
  );
}
