import { spawnSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { startChild, untilReady, type Child } from "./child.ts";
import { answersMetadata } from "./kafka-probe.ts";
import { imageEnvironment, KAFKA_IMAGE } from "./kafka-properties.ts";
import { type KafkaOptions } from "./kafka.ts";

/** Fetching the image (400 MB) is part of the first start. */
const READY_TIMEOUT_MS = 600_000;
const IMAGE_DATA = "/var/lib/kafka/data";

/** The same broker as `startKafka` starts, from the `apache/kafka` image, its data in `dataDir` too. */
export async function startKafkaInDocker(options: Omit<KafkaOptions, "jars">): Promise<Child> {
  const { dataDir, port, controllerPort, signal } = options;
  mkdirSync(dataDir, { recursive: true });
  // The image's user is not ours.
  chmodSync(dataDir, 0o777);
  const name = `weir-kafka-${createHash("sha256").update(dataDir).digest("hex").slice(0, 12)}`;
  // A container outlives a docker client that was killed.
  spawnSync("docker", ["rm", "--force", name], { stdio: "ignore" });
  const environment = {
    CLUSTER_ID: clusterId(dataDir),
    ...imageEnvironment({
      host: "0.0.0.0",
      port,
      advertised: `127.0.0.1:${port}`,
      controllerPort,
      logDirs: IMAGE_DATA,
    }),
  };
  const child = await startChild({
    name: "Kafka",
    command: "docker",
    args: [
      "run",
      "--rm",
      `--name=${name}`,
      `--publish=127.0.0.1:${port}:${port}`,
      `--volume=${dataDir}:${IMAGE_DATA}`,
      ...Object.entries(environment).map(([key, value]) => `--env=${key}=${value}`),
      KAFKA_IMAGE,
    ],
    logFile: join(options.logDir, "kafka.log"),
    journal: options.journal,
  });
  return untilReady(child, () => answersMetadata(port), { timeoutMs: READY_TIMEOUT_MS, signal });
}

function clusterId(dataDir: string): string {
  const file = `${dataDir}.cluster-id`;
  // The leading zero keeps a dash from the beginning, which the image's script would take for an option.
  if (!existsSync(file))
    writeFileSync(file, Buffer.concat([Buffer.of(0), randomBytes(15)]).toString("base64url"));
  return readFileSync(file, "utf8");
}
