import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { startChild, untilReady, type Child } from "./child.ts";
import { type Journal } from "./journal.ts";
import { answersMetadata } from "./kafka-probe.ts";
import { brokerProperties, propertiesFile } from "./kafka-properties.ts";
import { runTool } from "./tool.ts";

/** What it takes to start a {@link Child} that is a Kafka broker. */
export interface KafkaOptions {
  /** The folder of Kafka's jars. */
  readonly jars: string;
  /** The broker's own folder: configuration and log segments. Absolute; made when missing. */
  readonly dataDir: string;
  /** Where `kafka.log` goes. Absolute. */
  readonly logDir: string;
  /** Where clients connect, on 127.0.0.1. */
  readonly port: number;
  /** Where the broker's controller half listens, on 127.0.0.1. May change between two starts of the same data. */
  readonly controllerPort: number;
  readonly journal?: Journal | undefined;
  readonly signal?: AbortSignal | undefined;
}

const READY_TIMEOUT_MS = 60_000;

/**
 * Starts a real Apache Kafka of one node, formatted the first time, and resolves once it serves requests. Its data
 * survive a stop and a kill. Topics are not made on first use.
 */
export async function startKafka(options: KafkaOptions): Promise<Child> {
  const { jars, dataDir, port, controllerPort, signal } = options;
  const logFile = join(options.logDir, "kafka.log");
  const logDirs = join(dataDir, "log");
  const config = join(dataDir, "server.properties");
  const log4j = join(dataDir, "log4j2.properties");
  mkdirSync(dataDir, { recursive: true });
  const properties = brokerProperties({
    host: "127.0.0.1",
    port,
    advertised: `127.0.0.1:${port}`,
    controllerPort,
    logDirs,
  });
  writeFileSync(config, propertiesFile(properties));
  writeFileSync(log4j, propertiesFile(log4jProperties(logFile)));

  // Java takes the encoding of file names from the locale, and from nothing else.
  const env = { ...process.env, LANG: "C.UTF-8", LC_ALL: "C.UTF-8" };
  const archive = join(jars, "classes.jsa");
  const isRecorded = existsSync(archive);
  const jvm = [
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.awt.headless=true",
    "-Dfile.encoding=UTF-8",
    `-Dlog4j2.configurationFile=${pathToFileURL(log4j).href}`,
    "-Xlog:cds=off",
    "-cp",
    join(jars, "*"),
  ];
  const useArchive = isRecorded ? [`-XX:SharedArchiveFile=${archive}`] : [];
  if (!existsSync(join(logDirs, "meta.properties"))) {
    // A format that was cut short leaves no partition of a topic.
    if (
      existsSync(logDirs) &&
      readdirSync(logDirs).some((name) => /^(?!__cluster_metadata-).+-\d+$/.test(name))
    )
      throw new Error(`${logDirs} holds topics, but no meta.properties: move it away to begin anew.`);
    rmSync(logDirs, { recursive: true, force: true });
    const clusterId = randomBytes(16).toString("base64url");
    // In one argument: an id may begin with a dash, and would be taken for an option.
    const format = ["kafka.tools.StorageTool", "format", `--cluster-id=${clusterId}`, "-c", config];
    await runTool("java", [...useArchive, ...jvm, ...format], {
      failure: "Kafka's data folder could not be formatted",
      env,
      journal: options.journal,
      signal,
    });
  }

  // The first run leaves an archive of its loaded classes when it ends; every later start then takes half the time.
  const recording = `${archive}.${process.pid}`;
  const child = await startChild({
    name: "Kafka",
    command: "java",
    args: [
      ...(isRecorded ? useArchive : [`-XX:ArchiveClassesAtExit=${recording}`]),
      ...jvm,
      "kafka.Kafka",
      config,
    ],
    cwd: dataDir,
    env,
    logFile,
    journal: options.journal,
  });
  void child.exited.then(({ signal: endedBy }) => {
    if (!existsSync(recording)) return;
    // Cut short, it would be worse than none.
    if (endedBy === "SIGKILL") rmSync(recording);
    else renameSync(recording, archive);
  });
  await untilReady(child, () => answersMetadata(port), { timeoutMs: READY_TIMEOUT_MS, signal });
  return isRecorded ? child : { ...child, stopRemark: "wrote its class archive, once" };
}

/** The broker keeps its own log short; what the JVM itself has to say is appended to the same file. */
function log4jProperties(file: string): Record<string, string> {
  return {
    status: "error",
    "appender.file.type": "RollingFile",
    "appender.file.name": "FILE",
    "appender.file.fileName": file,
    "appender.file.filePattern": `${file}.%i`,
    "appender.file.layout.type": "PatternLayout",
    "appender.file.layout.pattern": "%d{ISO8601} %-5p %c{1} %m%n",
    "appender.file.policies.type": "Policies",
    "appender.file.policies.size.type": "SizeBasedTriggeringPolicy",
    "appender.file.policies.size.size": "20MB",
    "appender.file.strategy.type": "DefaultRolloverStrategy",
    "appender.file.strategy.max": "2",
    "rootLogger.level": "info",
    "rootLogger.appenderRef.file.ref": "FILE",
  };
}
