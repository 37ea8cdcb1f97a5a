import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import * as http from "node:http";
import * as net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterEach, describe, expect, it } from "vitest";
import { untilReady } from "../../dev/child.ts";
import { cacheFolder, fetchKafkaJars } from "../../dev/kafka-jars.ts";
import { startKafka } from "../../dev/kafka.ts";
import { freePort } from "../../dev/ports.ts";
import { createCertificate } from "../support/certificate.ts";
import { startWeir, type Weir, type WeirOptions } from "../support/weir.ts";
import { createClients } from "./clients.ts";
import { sketch, toMessage, toStructured } from "./events.ts";

const ROOT = join(import.meta.dirname, "../..");

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

async function start(options?: WeirOptions): Promise<Weir> {
  return stack.use(await startWeir(options));
}

function createFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "weir-main-"));
  stack.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}

async function readyz(weir: Weir): Promise<{ status: number; report: Record<string, unknown> }> {
  const response = await fetch(`${weir.baseUrl}/readyz`);
  return { status: response.status, report: (await response.json()) as Record<string, unknown> };
}

describe("the boot", () => {
  const ed448 = generateKeyPairSync("ed448").publicKey.export({ type: "spki", format: "pem" }) as string;

  it.each<[name: string, env: Record<string, string>, line: string]>([
    [
      "a secret of 31 bytes",
      { WEIR_JWT_SECRET: "x".repeat(31) },
      "WEIR_JWT_SECRET must have at least 32 bytes",
    ],
    [
      "a key that does not go with the algorithm",
      { WEIR_JWT_SECRET: "", WEIR_JWT_ALGORITHM: "EdDSA", WEIR_JWT_PUBLIC_KEY: ed448 },
      "The token key does not go with EdDSA, which needs an Ed25519 key",
    ],
    ["no such address", { WEIR_HOST: "192.0.2.1" }, "this machine has no such address (WEIR_HOST)"],
  ])("stops for %s, with a line that says so", async (_, env, line) => {
    const refused = await startWeir({ env, until: "listening" }).then(
      () => expect.fail("started"),
      (error: unknown) => String(error),
    );
    expect(refused).toContain(line);
    expect(refused).toContain("ended with exit code 1");
  });

  it("stops for a port that is taken, and says which", async () => {
    const taken = net.createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => taken.once("listening", resolve));
    stack.defer(() => void taken.close());
    const { port } = taken.address() as net.AddressInfo;
    const refused = await startWeir({ env: { WEIR_METRICS_PORT: String(port) }, until: "listening" }).then(
      () => expect.fail("started"),
      (error: unknown) => String(error),
    );
    // Once, and with no stack.
    expect(refused.split(`Cannot listen on 127.0.0.1:${port}: another process does`)).toHaveLength(2);
    expect(refused).not.toContain(".ts:");
  });

  it("stops for a topic that does not fit", async () => {
    const weir = await start();
    const env = { WEIR_TOPIC_EVENTS: weir.topic, WEIR_TOPIC_EVENTS_PARTITIONS: "4" };
    const refused = startWeir({ env, databaseUrl: weir.databaseUrl, until: "listening" });
    await expect(refused).rejects.toThrow(`${weir.topic} has 3 partitions and 4 are configured`);
  });

  it("does not wait for PostgreSQL, and takes events in without it", async () => {
    const databaseUrl = `postgres://weir:weir@127.0.0.1:${await freePort()}/weir`;
    const weir = await start({ databaseUrl, until: "listening" });
    await untilReady(weir.server, async () => (await readyz(weir)).report["status"] === "partial", {
      timeoutMs: 20_000,
    });
    const { status, report } = await readyz(weir);
    expect(status).toBe(200);
    expect(report["services"]).toMatchObject({
      "weir.v1.IngestService": { ready: true },
      "weir.v1.SearchService": {
        ready: false,
        reasons: [expect.stringMatching(/^postgresql: .*ECONNREFUSED/)],
      },
    });
    const { ingest } = createClients(weir.baseUrl, await weir.token());
    expect((await ingest.createEvent({ event: toMessage(sketch()) })).receipt?.position?.offset).toBe(0n);
  });

  it("does not wait for Kafka, which is found when it comes", async () => {
    const [port, controllerPort] = [await freePort(), await freePort()];
    const weir = await start({ brokers: `127.0.0.1:${port}`, until: "listening" });
    await expect.poll(async () => (await readyz(weir)).report["status"]).toBe("partial");
    const { report } = await readyz(weir);
    expect(report["services"]).toMatchObject({
      "weir.v1.IngestService": {
        ready: false,
        reasons: [expect.stringMatching(/^kafka: (?!.*looked at yet).+/)],
      },
      "weir.v1.SearchService": { ready: true },
    });
    const one = await fetch(`${weir.baseUrl}/readyz?service=weir.v1.IngestService`);
    expect(one.status).toBe(503);

    const folder = createFolder();
    const jars = await fetchKafkaJars(cacheFolder(), { say: () => {} });
    const broker = await startKafka({
      jars,
      dataDir: join(folder, "kafka"),
      logDir: folder,
      port,
      controllerPort,
    });
    stack.defer(() => broker.stop());
    await untilReady(weir.server, async () => (await readyz(weir)).report["status"] === "ready", {
      timeoutMs: 20_000,
    });
    expect((await readyz(weir)).report["dependencies"]).toMatchObject({
      kafka: { ready: true, note: expect.stringContaining("one copy") as string },
    });
    const { ingest } = createClients(weir.baseUrl, await weir.token());
    expect((await ingest.createEvent({ event: toMessage(sketch()) })).receipt?.position?.offset).toBe(0n);
  });
});

describe("an issuer of keys that cannot be reached", () => {
  it("is seen before the first call, and found when it comes", async () => {
    const port = await freePort();
    const env = {
      WEIR_JWT_SECRET: "",
      WEIR_JWT_ALGORITHM: "ES256",
      WEIR_JWKS_URL: `http://127.0.0.1:${String(port)}/keys`,
    };
    const weir = await start({ env, until: "listening" });
    const { status, report } = await readyz(weir);
    expect(status).toBe(503);
    const reasons = expect.arrayContaining([
      expect.stringMatching(/^issuer: no token can be verified, .*ECONNREFUSED/),
    ]) as string[];
    expect(report["services"]).toMatchObject({
      "weir.v1.IngestService": { ready: false, reasons },
      "weir.v1.SearchService": { ready: false, reasons },
    });
    const issuer = http.createServer((_, response) => response.end('{"keys": []}')).listen(port, "127.0.0.1");
    stack.defer(() => void issuer.close());
    await untilReady(weir.server, async () => (await readyz(weir)).report["status"] === "ready", {
      timeoutMs: 20_000,
    });
    const lines = weir.log().filter(({ message }) => String(message).startsWith("The issuer's keys"));
    expect(lines.map(({ level }) => level)).toEqual(["warn", "info"]);
  });
});

describe("the stop", () => {
  it("fails readiness first, lets a request in flight finish, and ends with status 0", async () => {
    const weir = await start({ env: { WEIR_STOP_DELAY: "2s" } });
    const { headers, body } = toStructured(sketch());
    const port = Number(new URL(weir.baseUrl).port);
    const socket = net.connect({ host: "127.0.0.1", port });
    stack.defer(() => void socket.destroy());
    let answer = "";
    socket.on("data", (chunk: Buffer) => (answer += chunk.toString()));
    const closed = new Promise((resolve) => socket.once("close", resolve));
    const token = await weir.token();
    const lines = [
      "POST /v1/events HTTP/1.1",
      "Host: x",
      `Authorization: Bearer ${token}`,
      `Content-Type: ${String(new Headers(headers).get("content-type"))}`,
      `Content-Length: ${Buffer.byteLength(body)}`,
    ];
    socket.write(`${lines.join("\r\n")}\r\n\r\n${String(body).slice(0, 10)}`);
    // Another request tells that the first one has arrived.
    await fetch(`${weir.baseUrl}/healthz`);

    process.kill(weir.server.pid, "SIGTERM");
    await expect
      .poll(() => readyz(weir), { interval: 20 })
      .toMatchObject({ status: 503, report: { status: "stopping" } });
    await expect
      .poll(
        () =>
          fetch(`${weir.baseUrl}/healthz`).then(
            () => "open",
            () => "closed",
          ),
        { timeout: 10_000 },
      )
      .toBe("closed");
    expect(weir.server.exit()).toBeUndefined();
    expect(answer).toBe("");

    socket.write(String(body).slice(10));
    await closed;
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
    expect(answer).toMatch(/connection: close/i);
    expect(answer).toContain('"stage":"STAGE_ACCEPTED"');
    expect(await weir.server.exited).toEqual({ code: 0, signal: null });
    expect(weir.log().at(-1)).toMatchObject({ message: "Stopped", well: true });
  });

  it("does not wait longer than the drain for a request that never ends", async () => {
    const weir = await start({ env: { WEIR_DRAIN_TIMEOUT: "1s" } });
    const socket = net.connect({ host: "127.0.0.1", port: Number(new URL(weir.baseUrl).port) });
    stack.defer(() => void socket.destroy());
    let answer = "";
    socket.on("data", (chunk: Buffer) => (answer += chunk.toString()));
    const token = await weir.token();
    socket.write(
      `POST /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nContent-Length: 9\r\n\r\n`,
    );
    await fetch(`${weir.baseUrl}/healthz`);
    const startedAt = performance.now();
    await weir.server.stop();
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    expect(answer).toMatch(/^HTTP\/1\.1 503 /);
    expect(answer).toContain("SHUTTING_DOWN");
    expect(weir.server.exit()).toEqual({ code: 0, signal: null });
  });
});

describe("a port", () => {
  it("of their own keeps the metrics off the main one", async () => {
    const port = await freePort();
    const weir = await start({ env: { WEIR_METRICS_PORT: String(port) } });
    expect((await fetch(`${weir.baseUrl}/metrics`)).status).toBe(404);
    const page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    expect(page).toMatch(/^weir_connections_active\w*\{protocol="http\/1\.1"\} \d/m);
    expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200);
    expect((await fetch(`http://127.0.0.1:${port}/v1/events`, { method: "POST" })).status).toBe(404);
  });

  it("speaks TLS where a certificate is configured", async () => {
    const folder = createFolder();
    const { certificate, key } = createCertificate();
    const [certificateFile, keyFile] = [join(folder, "cert.pem"), join(folder, "key.pem")];
    writeFileSync(certificateFile, certificate);
    writeFileSync(keyFile, key);
    const env = { WEIR_TLS_CERT_FILE: certificateFile, WEIR_TLS_KEY_FILE: keyFile };
    const weir = await start({ env, until: "listening" });
    const url = weir.baseUrl.replace("http:", "https:");
    for (const flags of [[], ["--protocol", "grpc"]]) {
      const args = ["curl", "--cacert", certificateFile, ...flags, `${url}/grpc.health.v1.Health/Check`];
      const { stdout } = await promisify(execFile)(join(ROOT, "node_modules/.bin/buf"), args);
      expect(JSON.parse(stdout)).toEqual({ status: "SERVING" });
    }
  });
});

describe("the log", () => {
  it("never holds a token, a secret or a payload, at the most talkative level", async () => {
    const weir = await start({ env: { WEIR_LOG_LEVEL: "debug" } });
    const good = await weir.token();
    const bad = `${(await weir.token()).slice(0, -4)}AAAA`;
    const poor = await weir.token({ scope: "nothing" });
    const event = sketch({}, "a payload that is nobody's business");
    for (const token of [good, bad, poor]) {
      const { headers, body } = toStructured(event);
      const authorized = { ...headers, authorization: `Bearer ${token}` };
      await fetch(`${weir.baseUrl}/v1/events`, { method: "POST", headers: authorized, body });
      await createClients(weir.baseUrl, token, "gRPC")
        .search.searchEvents({})
        .catch(() => undefined);
    }
    await weir.server.stop();
    const log = readFileSync(weir.server.logFile, "utf8");
    expect(log).toContain('"message":"Stopped"');
    for (const token of [good, bad, poor]) {
      for (const part of token.split(".").slice(1)) expect(log).not.toContain(part);
    }
    expect(log).not.toContain("nobody's business");
    expect(log).not.toMatch(/"level":"(warn|error)"/);
  });
});
