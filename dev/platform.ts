import { join } from "node:path";

import { describeEnd, startChild, untilReady, type Child } from "./child.ts";
import { root } from "./data-folder.ts";
import { isServing } from "./http-probe.ts";
import { type Journal } from "./journal.ts";
import { startKafkaInDocker } from "./kafka-docker.ts";
import { fetchKafkaJars } from "./kafka-jars.ts";
import { type KafkaRuntime } from "./kafka-runtime.ts";
import { startKafka } from "./kafka.ts";
import { rememberedPorts } from "./ports.ts";
import { choosePostgresPlace } from "./postgres-place.ts";
import { POSTGRES_DATABASE, postgresUrl, startPostgres } from "./postgres.ts";
import { type Progress } from "./progress.ts";
import { type OwnService, untilReached } from "./reach.ts";
import { type Supervisor } from "./supervisor.ts";
import { hasLine } from "./tail.ts";
import { workersStatus } from "./workers-status.ts";

const READY_TIMEOUT_MS = 60_000;

/** How long the roles of workers that serve are waited for. One that takes longer need not keep the rest from running. */
const ROLES_TIMEOUT_MS = 20_000;

/** How the log of either says, in any format, that all of it runs: its ports are its own. */
const STARTED = /\bStarted\b/;

/** What it takes to start a whole Weir on this machine. */
export interface PlatformOptions {
  readonly dataFolder: string;
  /** Where Kafka's jars are kept. */
  readonly cache: string;
  /** What Kafka runs on; undefined where the brokers are the operator's own. */
  readonly kafka: KafkaRuntime | undefined;
  /** PostgreSQL and Kafka that are the operator's own. */
  readonly own: readonly OwnService[];
  /** The settings of server and workers, without those of the parts that are started here. */
  readonly env: NodeJS.ProcessEnv;
  /** Where the server will serve. */
  readonly url: string;
  /** Where the workers will answer. */
  readonly workersUrl: string;
  /** Of 127.0.0.1, as {@link choosePorts} gave them. */
  readonly ports: PlatformPorts;
  /** Server and workers say in their logs that they have started. */
  readonly logsInfo: boolean;
  readonly supervisor: Supervisor;
  readonly progress: Progress;
  readonly journal: Journal;
}

const PORTS = ["postgres", "kafka", "kafkaController", "workers"] as const;
type PlatformPorts = Readonly<Record<(typeof PORTS)[number], number>>;

/** Free ports for what is not to be reached from elsewhere, none of which is one of those that settings name. */
export function choosePorts(dataFolder: string, named: readonly number[]): Promise<PlatformPorts> {
  return rememberedPorts(join(dataFolder, "ports.json"), PORTS, named);
}

/** A Weir that runs. */
export interface Platform {
  /** The settings that server and workers were started with. */
  readonly env: NodeJS.ProcessEnv;
  /** Why roles of the workers do not do all of their work, a text each: the rest works all the same. */
  readonly faults: readonly string[];
}

/**
 * Starts Kafka and PostgreSQL, migrates, makes the topics, starts server and workers; resolves once the server is ready
 * and the workers' roles have started, or say why they cannot.
 */
export async function startPlatform(options: PlatformOptions): Promise<Platform> {
  const { supervisor, progress, ports, own } = options;
  const env = { ...options.env };
  for (const service of own) await untilReached(service, { say: progress.say, signal: supervisor.signal });

  const services: ((signal: AbortSignal) => Promise<Child>)[] = [];
  if (!own.some(({ name }) => name === "PostgreSQL")) {
    const place = await choosePostgresPlace(options.dataFolder);
    if (place.isElsewhere)
      progress.say(`PostgreSQL's user cannot enter ${options.dataFolder}: its data are in ${place.dataDir}`);
    if (place.isPasswordNew)
      progress.say(`PostgreSQL's password was lost: its data in ${place.dataDir} get a new one`);
    env["WEIR_DATABASE_URL"] = postgresUrl(ports.postgres, place.password, POSTGRES_DATABASE);
    const logFile = join(options.dataFolder, "log", "postgres.log");
    const postgres = { ...place, logFile, port: ports.postgres, journal: options.journal };
    services.push((signal) =>
      progress.step(
        () => startPostgres({ ...postgres, signal }),
        () => `PostgreSQL 18 at 127.0.0.1:${ports.postgres}`,
      ),
    );
  }
  if (options.kafka !== undefined) {
    env["WEIR_KAFKA_BROKERS"] = `127.0.0.1:${ports.kafka}`;
    services.push((signal) =>
      progress.step(
        () => startBroker(options, ports.kafka, ports.kafkaController, signal),
        () => `Kafka 4.4 at 127.0.0.1:${ports.kafka}`,
      ),
    );
  }
  await supervisor.start(...services);

  await progress.step(
    () => setUp(options, env),
    () => "database migrated, topics there",
  );
  const { url } = options;
  let faults: readonly string[] = [];
  let servingSince: number | undefined;
  await supervisor.start(
    (signal) =>
      progress.step(
        () => startProcess(options, "server", env, () => isServing(`${url}/readyz`), signal),
        () => `server ready at ${url}`,
      ),
    (signal) =>
      progress.step(
        () => startProcess(options, "workers", env, haveRolesStarted, signal),
        () => (faults.length === 0 ? "workers ready" : "workers started, with a fault: see below"),
      ),
  );
  return { env, faults };

  async function haveRolesStarted(): Promise<boolean> {
    const status = await workersStatus(options.workersUrl);
    if (status === undefined) return false;
    servingSince ??= performance.now();
    ({ faults } = status);
    return status.isSettled || performance.now() - servingSince > ROLES_TIMEOUT_MS;
  }
}

async function startBroker(
  options: PlatformOptions,
  port: number,
  controllerPort: number,
  signal: AbortSignal,
): Promise<Child> {
  const { dataFolder, journal, cache, progress } = options;
  const broker = { logDir: join(dataFolder, "log"), port, controllerPort, journal, signal };
  if (options.kafka === "docker")
    return startKafkaInDocker({ ...broker, dataDir: join(dataFolder, "kafka-docker") });
  const jars = await fetchKafkaJars(cache, { say: progress.say, journal, signal });
  return startKafka({ ...broker, jars, dataDir: join(dataFolder, "kafka") });
}

/** Runs the entry that migrates and makes the topics, as an operator would. */
async function setUp(options: PlatformOptions, env: NodeJS.ProcessEnv): Promise<void> {
  const { signal } = options.supervisor;
  const child = await spawnEntry(options, "setup", "workers/setup.ts", env);
  const stop = (): void => void child.stop();
  signal.addEventListener("abort", stop);
  const exit = await child.exited;
  signal.removeEventListener("abort", stop);
  signal.throwIfAborted();
  if (exit.code === 0) return;
  const hints = options.own.map(({ name, setting }) => `\n  ${name} is your own, by ${setting}.`);
  throw new Error(describeEnd(child) + hints.join(""));
}

async function startProcess(
  options: PlatformOptions,
  name: "server" | "workers",
  env: NodeJS.ProcessEnv,
  isUp: () => Promise<boolean>,
  signal: AbortSignal,
): Promise<Child> {
  const child = await spawnEntry(options, name, `${name}/main.ts`, env);
  // Somebody else may have taken the port since it was seen to be free, and answer there.
  const hasStarted = (): boolean => !options.logsInfo || hasLine(child.logFile, child.logStart, STARTED);
  const isReady = async (): Promise<boolean> => (await isUp()) && hasStarted();
  return untilReady(child, isReady, { timeoutMs: READY_TIMEOUT_MS, signal });
}

function spawnEntry(
  { dataFolder, journal }: PlatformOptions,
  name: string,
  entry: string,
  env: NodeJS.ProcessEnv,
): Promise<Child> {
  return startChild({
    name,
    command: process.execPath,
    args: ["--disable-warning=TimeoutNegativeWarning", join(root, entry)],
    cwd: root,
    env,
    logFile: join(dataFolder, "log", `${name}.log`),
    journal,
  });
}
