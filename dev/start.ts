import { once } from "node:events";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { type Config, unknownVariables } from "#runtime/config.ts";
import { openDataFolder } from "./data-folder.ts";
import { writeEnvFile } from "./env-file.ts";
import { readEnvironment, urlHost } from "./environment.ts";
import { createJournal, stopLeftovers } from "./journal.ts";
import { cacheFolder } from "./kafka-jars.ts";
import { chooseKafkaRuntime, thisMachine } from "./kafka-runtime.ts";
import { acquireLock, type Lock } from "./lock.ts";
import { panel } from "./panel.ts";
import { type NamedPort, requireFree } from "./places.ts";
import { choosePorts, startPlatform } from "./platform.ts";
import { freePort } from "./ports.ts";
import { createProgress } from "./progress.ts";
import { listenForTheEnd } from "./signals.ts";
import { createSupervisor, Stopped } from "./supervisor.ts";
import { ALL_SCOPES, devSecret, signDevToken } from "./token.ts";

const TOKEN_LIFE_MS = 24 * 3_600_000;
const OTHER_STOPPING_MS = 60_000;

const write = (text: string): void => void process.stdout.write(text);
const progress = createProgress(write);
const supervisor = createSupervisor(progress);
listenForTheEnd({ end: supervisor.end, kill: supervisor.kill, say: progress.say });

await launch().catch(report);

/** From nothing to a Weir that runs, and back once somebody asks for that or a part of it fails. */
async function launch(): Promise<void> {
  const dataFolder = openDataFolder();
  const secret = devSecret(dataFolder);
  const { config, own, hasBrokers, variables } = readEnvironment(process.env, secret);
  for (const warning of unknownVariables()) progress.say(`warning: ${warning}`);
  const { http, process: listen } = config;
  const port = http.port === 0 ? await freePort() : http.port;
  const host = urlHost(listen.host);
  const url = `${http.tls === undefined ? "http" : "https"}://${host}:${port}`;
  const lock = await takeLock(join(dataFolder, "lock"), url);
  const journalFile = join(dataFolder, "run.json");
  const envFile = join(dataFolder, "env");
  try {
    for (const name of await stopLeftovers(journalFile)) progress.say(`${name} of an earlier start stopped`);
    const named = namedPorts(config, port);
    await requireFree(listen.host, named);
    const ports = await choosePorts(
      dataFolder,
      named.map(([, each]) => each),
    );
    const workersPort = config.workers.port || ports.workers;
    const workersUrl = `http://${host}:${workersPort}`;
    const cache = cacheFolder();
    const kafka = hasBrokers ? undefined : chooseKafkaRuntime(thisMachine(cache));
    const journal = createJournal(journalFile);
    try {
      const { env, faults } = await progress.step(
        () =>
          startPlatform({
            dataFolder,
            cache,
            kafka,
            own,
            env: { ...variables, WEIR_PORT: String(port), WEIR_WORKERS_PORT: String(workersPort) },
            url,
            workersUrl,
            ports,
            logsInfo: ["debug", "info"].includes(listen.logLevel),
            supervisor,
            progress,
            journal,
          }),
        () => "all of it",
      );
      const token = await signDevToken(secret, { scopes: ALL_SCOPES, subject: "dev", ttlMs: TOKEN_LIFE_MS });
      const logs = join(dataFolder, "log");
      writeEnvFile(envFile, env);
      write(
        panel({
          url,
          workersUrl,
          token,
          tokenLife: "24 hours",
          oneCopy: !hasBrokers,
          faults,
          beginAnew: own.length === 0 ? dataFolder : undefined,
          logs,
          envFile,
        }),
      );
      if (!supervisor.signal.aborted) await once(supervisor.signal, "abort");
      supervisor.signal.throwIfAborted();
    } catch (error) {
      report(error);
    } finally {
      lock.markStopping();
      rmSync(envFile, { force: true });
      await supervisor.stop();
      journal.remove();
    }
  } finally {
    lock.release();
  }
}

/** Every port that server and workers will listen on by a setting. */
function namedPorts({ http, workers }: Config, port: number): NamedPort[] {
  const { metricsPort, processes } = http;
  const metrics =
    metricsPort === undefined || metricsPort === 0
      ? []
      : Array.from({ length: processes }, (_, index) => metricsPort + index);
  return [
    ["WEIR_PORT", port],
    ...(workers.port ? [["WEIR_WORKERS_PORT", workers.port] as const] : []),
    ...metrics.map((each) => ["WEIR_METRICS_PORT", each] as const),
  ];
}

/** Says what went wrong, unless it is the end that somebody asked for. */
function report(error: unknown): void {
  if (error instanceof Stopped) return;
  process.stderr.write(`\n${error instanceof Error ? error.message : String(error)}\n\n`);
  process.exitCode = 1;
}

/** Takes the lock; waits where its holder is on its way out. */
async function takeLock(file: string, url: string): Promise<Lock> {
  const deadline = Date.now() + OTHER_STOPPING_MS;
  for (;;) {
    const lock = acquireLock(file, url);
    if ("release" in lock) return lock;
    if (!lock.stopping || Date.now() > deadline)
      throw new Error(`A Weir runs here already, at ${lock.url} (process ${lock.pid}).`);
    await sleep(100);
    supervisor.signal.throwIfAborted();
  }
}
