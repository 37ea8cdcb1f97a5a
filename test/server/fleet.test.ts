import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import * as net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, expect, it, vi } from "vitest";
import { freePort } from "../../dev/ports.ts";
import { createCertificate } from "../support/certificate.ts";
import { startWeir, type Weir, type WeirOptions } from "../support/weir.ts";
import { createClients, type Protocol } from "./clients.ts";
import { sketch, toMessage, toStructured } from "./events.ts";

const ROOT = join(import.meta.dirname, "../..");

/** Three processes start or stop at once, beside a broker and a database: what comes, comes late on a busy machine. */
const soon = { timeout: 30_000 };
// More than the waits of a test together: the one that is not over says what it waited for.
vi.setConfig({ testTimeout: 150_000 });

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

interface Fleet {
  readonly weir: Weir;
  /** The metrics ports. */
  readonly ports: readonly [number, number];
}

async function startFleet(options: WeirOptions = {}): Promise<Fleet> {
  const port = await freePortPair();
  const env = { WEIR_SERVER_PROCESSES: "2", WEIR_METRICS_PORT: String(port), ...options.env };
  const weir = stack.use(await startWeir({ ...options, env }));
  const ports = [port, port + 1] as const;
  // The harness waits for the first process alone.
  for (const each of ports) await expect.poll(() => readiness(each), soon).toBe("ready");
  return { weir, ports };
}

async function freePortPair(): Promise<number> {
  for (;;) {
    const port = await freePort();
    const next = net.createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      next.once("error", () => resolve(false)).listen(port + 1, "127.0.0.1", () => resolve(true));
    });
    await new Promise((resolve) => next.close(resolve));
    if (isFree) return port;
  }
}

async function readiness(port: number): Promise<unknown> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/readyz`);
    return ((await response.json()) as { status: string }).status;
  } catch {
    return "away";
  }
}

/** How many events each process has taken. */
async function taken({ ports }: Fleet): Promise<number[]> {
  return await Promise.all(
    ports.map(async (port) => {
      const page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
      return Number(/^weir_ingest_events_total\{.*outcome="accepted".*\} (\d+)/m.exec(page)?.[1] ?? 0);
    }),
  );
}

/** The processes that serve now, in the order of their metrics ports. */
function pids({ weir, ports }: Fleet): number[] {
  const started = weir.log().filter(({ message }) => message === "A server process was started");
  return ports.map((port) => Number(started.findLast(({ metricsPort }) => metricsPort === port)?.["pid"]));
}

/** The log of a server that must have ended by itself, and badly. */
async function endedLog(weir: Weir): Promise<string> {
  expect(await weir.server.exited).toEqual({ code: 1, signal: null });
  return JSON.stringify(weir.log());
}

/** Sends events on connections of their own. */
async function send({ weir }: Fleet, count: number, protocol: Protocol = "Connect binary"): Promise<void> {
  const token = await weir.token();
  const headers = protocol === "gRPC" ? {} : { connection: "close" };
  for (let index = 0; index < count; index++) {
    const { ingest } = createClients(weir.baseUrl, token, protocol, headers);
    await ingest.createEvent({ event: toMessage(sketch()) });
  }
}

it("serves one port by every process, over HTTP/1.1 and HTTP/2", async () => {
  const fleet = await startFleet();
  await send(fleet, 6);
  await send(fleet, 6, "gRPC");
  const counts = await taken(fleet);
  expect(counts[0]! + counts[1]!).toBe(12);
  expect(Math.min(...counts)).toBeGreaterThan(0);
});

it("replaces a process that was killed, while the other goes on, and stops in order", async () => {
  const fleet = await startFleet();
  const [victim, other] = pids(fleet);
  process.kill(victim!, "SIGKILL");
  const { weir } = fleet;
  const replaced = { message: "A server process ended and is replaced", pid: victim, signal: "SIGKILL" };
  await expect.poll(() => weir.log(), soon).toContainEqual(expect.objectContaining(replaced));
  await send(fleet, 4);
  await expect.poll(() => readiness(fleet.ports[0]), soon).toBe("ready");
  await send(fleet, 4);
  const [successor, same] = pids(fleet);
  expect(successor).not.toBe(victim);
  expect(same).toBe(other);
  expect((await taken(fleet))[0]).toBeGreaterThan(0);

  await weir.server.stop();
  expect(weir.server.exit()).toEqual({ code: 0, signal: null });
  // The two that served, and the one that had them.
  expect(weir.log().filter(({ message, well }) => message === "Stopped" && well === true)).toHaveLength(3);
});

it("lets a request in flight finish at its stop", async () => {
  const { weir } = await startFleet();
  const socket = net.connect({ host: "127.0.0.1", port: Number(new URL(weir.baseUrl).port) });
  stack.defer(() => void socket.destroy());
  let answer = "";
  socket.on("data", (chunk: Buffer) => (answer += chunk.toString()));
  const closed = new Promise((resolve) => socket.once("close", resolve));
  const { headers, body } = toStructured(sketch());
  const lines = [
    "POST /v1/events HTTP/1.1",
    "Host: x",
    "Expect: 100-continue",
    `Authorization: Bearer ${await weir.token()}`,
    `Content-Type: ${String(headers["content-type"])}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  socket.write(`${lines.join("\r\n")}\r\n\r\n`);
  await expect.poll(() => answer, soon).toContain("100 Continue");
  process.kill(weir.server.pid, "SIGTERM");
  await expect.poll(() => weir.log(), soon).toContainEqual(expect.objectContaining({ message: "Stopping" }));
  socket.write(body);
  await closed;
  expect(answer).toContain('"stage":"STAGE_ACCEPTED"');
  expect(await weir.server.exited).toEqual({ code: 0, signal: null });
});

it("ends where its processes die again and again", async () => {
  const fleet = await startFleet();
  const { weir } = fleet;
  const listening = (): number =>
    weir.log().filter(({ message, on }) => message === "Listening" && on === "port").length;
  const killed: number[] = [];
  for (const victims of [2, 2, 1]) {
    // Whoever was killed has served, and so has its successor.
    await expect.poll(listening, soon).toBe(2 + killed.length);
    const chosen = pids(fleet).slice(0, victims);
    for (const pid of chosen) process.kill(pid, "SIGKILL");
    killed.push(...chosen);
  }
  expect(new Set(killed).size).toBe(5);
  expect(await weir.server.exited).toEqual({ code: 1, signal: null });
  expect(JSON.stringify(weir.log())).toContain("5 server processes have died within 60 s");
});

it("ends at once where a port is taken, and says so", async () => {
  const port = await freePortPair();
  const taken = net.createServer().listen(port + 1, "127.0.0.1");
  await new Promise((resolve) => taken.once("listening", resolve));
  stack.defer(() => void taken.close());
  const env = { WEIR_SERVER_PROCESSES: "2", WEIR_METRICS_PORT: String(port) };
  // The first process may have served already.
  const weir = await startWeir({ env, until: "listening" }).catch((error: unknown) => String(error));
  const log = typeof weir === "string" ? weir : await endedLog(stack.use(weir));
  expect(log).toContain(`Cannot listen on 127.0.0.1:${port + 1}: another process does`);
});

it("speaks TLS", async () => {
  const folder = mkdtempSync(join(tmpdir(), "weir-fleet-"));
  stack.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  const { certificate, key } = createCertificate();
  const [certificateFile, keyFile] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  writeFileSync(certificateFile, certificate);
  writeFileSync(keyFile, key);
  const env = { WEIR_TLS_CERT_FILE: certificateFile, WEIR_TLS_KEY_FILE: keyFile };
  const { weir } = await startFleet({ env, until: "listening" });
  const url = weir.baseUrl.replace("http:", "https:");
  for (const flags of [[], ["--protocol", "grpc"]]) {
    const args = ["curl", "--cacert", certificateFile, ...flags, `${url}/grpc.health.v1.Health/Check`];
    const { stdout } = await promisify(execFile)(join(ROOT, "node_modules/.bin/buf"), args);
    expect(JSON.parse(stdout)).toEqual({ status: "SERVING" });
  }
});
