import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

import { startChild, untilReady, type Child } from "./child.ts";
import { answersMetadata } from "./kafka-probe.ts";

/** What it takes to start a {@link Child} that is a Kafka broker. */
export interface KafkaOptions {
  /** The folder of Kafka's jars. */
  readonly jars: string;
  /** The broker's own folder: configuration and log segments. Absolute; made when missing. */
  readonly dataDir: string;
  /** Where `kafka.log`, kept by the broker itself, and `kafka.out` go. Absolute. */
  readonly logDir: string;
  /** Where clients connect, on 127.0.0.1. */
  readonly port: number;
  /** Where the broker's controller half listens, on 127.0.0.1. May change between two starts of the same data. */
  readonly controllerPort: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Starts a real Apache Kafka of one node, formatted the first time, and resolves once it serves requests. Its data
 * survive a stop and a kill. Topics are not made on first use.
 */
export async function startKafka(options: KafkaOptions): Promise<Child> {
  const { jars, dataDir, logDir, signal } = options;
  mkdirSync(dataDir, { recursive: true });
  mkdirSync(logDir, { recursive: true });
  const config = join(dataDir, "server.properties");
  writeFileSync(config, serverProperties(options));
  const log4j = join(dataDir, "log4j2.properties");
  writeFileSync(log4j, log4jProperties(join(logDir, "kafka.log")));
  const jvm = [
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.awt.headless=true",
    `-Dlog4j2.configurationFile=${log4j}`,
  ];
  const classPath = ["-cp", join(jars, "*")];
  const archive = join(jars, "classes.jsa");
  const sharing = existsSync(archive) ? [`-XX:SharedArchiveFile=${archive}`, "-Xlog:cds=off"] : [];

  if (!existsSync(join(dataDir, "log", "meta.properties"))) {
    rmSync(join(dataDir, "log"), { recursive: true, force: true });
    const clusterId = randomBytes(16).toString("base64url");
    const format = ["kafka.tools.StorageTool", "format", "-t", clusterId, "-c", config];
    await promisify(execFile)("java", [...jvm, ...sharing, ...classPath, ...format], {
      ...(signal && { signal }),
    });
  }

  // Without an archive of loaded classes this run leaves one, and every later start takes half the time.
  const training = `${archive}.${process.pid}`;
  const recording =
    sharing.length > 0 ? sharing : [`-XX:ArchiveClassesAtExit=${training}`, "-Xlog:cds=off"];
  const child = await startChild({
    name: "Kafka",
    command: "java",
    args: [...jvm, ...recording, ...classPath, "kafka.Kafka", config],
    cwd: dataDir,
    logFile: join(logDir, "kafka.out"),
  });
  void child.exited.then(() => {
    if (existsSync(training)) renameSync(training, archive);
  });
  try {
    await untilReady(child, () => answersMetadata(options.port), { timeoutMs: 60_000, signal });
  } catch (error) {
    await child.stop();
    throw error;
  }
  return child;
}

function serverProperties({ port, controllerPort, dataDir }: KafkaOptions): string {
  return Object.entries({
    "process.roles": "broker,controller",
    "node.id": 1,
    listeners: `PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controllerPort}`,
    "advertised.listeners": `PLAINTEXT://127.0.0.1:${port}`,
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    // A static quorum keeps the controller's port out of the data, so that another may be chosen later.
    "controller.quorum.voters": `1@127.0.0.1:${controllerPort}`,
    "log.dirs": join(dataDir, "log"),
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 4,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "auto.create.topics.enable": false,
    // After a kill the next start waits until the former session has expired.
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
  })
    .map(([key, value]) => `${key}=${value}\n`)
    .join("");
}

function log4jProperties(file: string): string {
  return `status = error
appender.file.type = RollingFile
appender.file.name = FILE
appender.file.fileName = ${file}
appender.file.filePattern = ${file}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{ISO8601} %-5p %c{1} %m%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 20MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
rootLogger.level = info
rootLogger.appenderRef.file.ref = FILE
`;
}
