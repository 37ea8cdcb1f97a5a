import { randomBytes } from "node:crypto";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SignJWT } from "jose";
import { describeEnd, startChild, untilReady, type Child } from "../../dev/child.ts";
import { cacheFolder, fetchKafkaJars } from "../../dev/kafka-jars.ts";
import { startKafka } from "../../dev/kafka.ts";
import { freePort } from "../../dev/ports.ts";
import { postgresBinaries } from "../../dev/postgres-binaries.ts";
import { postgresOwner } from "../../dev/postgres-owner.ts";
import { postgresUrl, startPostgres } from "../../dev/postgres.ts";

/** A part of the platform that can be killed. */
export const PARTS = ["server", "worker", "broker", "PostgreSQL"] as const;
export type Part = (typeof PARTS)[number];

/** A whole Weir of its own: broker, PostgreSQL, server and worker, each a process that can be killed and started again. */
export interface Platform extends AsyncDisposable {
  readonly baseUrl: string;
  readonly databaseUrl: string;
  /** `host:port` of the broker. */
  readonly brokers: string;
  readonly token: string;
  /** Ends a part by SIGKILL, as a machine that fails would, and starts it again. Resolves once it serves. */
  killAndRestart(part: Part): Promise<void>;
}

const root = join(import.meta.dirname, "../..");

/** Starts the platform in a new temporary folder on free ports; disposing of it stops all and removes the folder. */
export async function startPlatform(): Promise<Platform> {
  await using stack = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), "weir-faults-"));
  stack.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  const [port, workersPort, kafkaPort, controllerPort, postgresPort] = [
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
  ];
  const cache = cacheFolder();
  const user = postgresOwner();
  const password = randomBytes(16).toString("hex");
  const secret = randomBytes(32).toString("hex");
  const jars = await fetchKafkaJars(cache, { say: () => {} });
  const binaries = await postgresBinaries(user, join(tmpdir(), "weir-postgresql"));
  const databaseUrl = postgresUrl(postgresPort, password, "postgres");
  const env = {
    ...process.env,
    WEIR_PORT: String(port),
    WEIR_WORKERS_PORT: String(workersPort),
    WEIR_KAFKA_BROKERS: `127.0.0.1:${kafkaPort}`,
    WEIR_DATABASE_URL: databaseUrl,
    WEIR_JWT_ALGORITHM: "HS256",
    WEIR_JWT_SECRET: secret,
    WEIR_LOG_FORMAT: "json",
  };
  const node = (name: string, entry: string): Promise<Child> =>
    startChild({
      name,
      command: process.execPath,
      args: ["--disable-warning=TimeoutNegativeWarning", entry],
      cwd: root,
      env,
      logFile: join(folder, `${name}.log`),
    });
  const served = async (child: Child, at: number): Promise<Child> => {
    await untilReady(child, () => answers(`http://127.0.0.1:${at}/healthz`), { timeoutMs: 30_000 });
    return child;
  };
  const start: Record<Part, () => Promise<Child>> = {
    server: async () => served(await node("server", "server/main.ts"), port),
    worker: async () => served(await node("worker", "workers/main.ts"), workersPort),
    broker: () =>
      startKafka({ jars, dataDir: join(folder, "kafka"), logDir: folder, port: kafkaPort, controllerPort }),
    PostgreSQL: () =>
      startPostgres({
        binaries,
        dataDir: join(folder, "pg"),
        logFile: join(folder, "postgres.log"),
        port: postgresPort,
        password,
        user,
      }),
  };
  if (user !== undefined) chmodSync(folder, 0o711);

  const running = new Map<Part, Child>();
  const begin = async (part: Part): Promise<void> => {
    running.set(part, await start[part]());
  };
  const stopAll = async (): Promise<void> => {
    for (const part of PARTS) await running.get(part)?.stop();
  };
  stack.defer(stopAll);
  await Promise.all([begin("broker"), begin("PostgreSQL")]);
  const setup = await node("setup", "workers/setup.ts");
  const exit = await setup.exited;
  if (exit.code !== 0) throw new Error(describeEnd(setup));
  await Promise.all([begin("server"), begin("worker")]);

  const owned = stack.move();
  return {
    baseUrl: `http://127.0.0.1:${port}`,
    databaseUrl,
    brokers: env.WEIR_KAFKA_BROKERS,
    token: await new SignJWT({ scope: "events.write events.read admin.read" })
      .setProtectedHeader({ alg: "HS256" })
      .setSubject("faults")
      .setIssuedAt()
      .setExpirationTime("2h")
      .sign(Buffer.from(secret)),
    async killAndRestart(part) {
      const child = running.get(part);
      child?.kill();
      await child?.exited;
      // A killed PostgreSQL's backends hold its shared memory until they have noticed.
      for (let attempt = 1; ; attempt++) {
        try {
          return await begin(part);
        } catch (error) {
          if (attempt === 20) throw error;
          await sleep(250);
        }
      }
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function answers(url: string): Promise<boolean> {
  try {
    return (await fetch(url, { signal: AbortSignal.timeout(1_000) })).ok;
  } catch {
    return false;
  }
}
