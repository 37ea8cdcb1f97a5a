import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";

import { kafkaJarsFolder } from "./kafka-jars.ts";

const OLDEST_JAVA = 17;

/** What a broker runs on: jars on this machine's Java, or the image on Docker. */
export type KafkaRuntime = "java" | "docker";

/** What can be asked of this machine. */
export interface Machine {
  /** The major version of `java`; undefined where there is none. */
  readonly java: () => number | undefined;
  readonly hasMaven: () => boolean;
  readonly hasDocker: () => boolean;
  /** The jars were fetched before. */
  readonly hasJars: () => boolean;
}

/**
 * What to run Kafka on: Java 17 or later with jars from the cache or Maven to fetch them, else Docker.
 *
 * @throws Error of one line that says what is missing and what to do.
 */
export function chooseKafkaRuntime(machine: Machine): KafkaRuntime {
  const java = machine.java();
  const isJavaGood = java !== undefined && java >= OLDEST_JAVA;
  if (isJavaGood && (machine.hasJars() || machine.hasMaven())) return "java";
  if (machine.hasDocker()) return "docker";
  const found =
    java === undefined
      ? "there is no Java"
      : isJavaGood
        ? `there is Java ${java} but no Maven (mvn)`
        : `there is only Java ${java}`;
  throw new Error(
    `Kafka needs Java ${OLDEST_JAVA} with Maven, or Docker; ${found}, and no Docker that answers. Install either ` +
      "(Debian: apt-get install openjdk-17-jre-headless maven), or set WEIR_KAFKA_BROKERS to brokers of your own.",
  );
}

/** This machine, with Kafka's jars in this cache. */
export function thisMachine(cache: string): Machine {
  return {
    java() {
      const { status, stderr } = spawnSync("java", ["-version"], { encoding: "utf8" });
      return status === 0 ? javaMajor(stderr) : undefined;
    },
    hasMaven: () => spawnSync("mvn", ["--version"], { stdio: "ignore" }).status === 0,
    hasDocker: () => spawnSync("docker", ["info"], { stdio: "ignore", timeout: 10_000 }).status === 0,
    hasJars: () => existsSync(kafkaJarsFolder(cache)),
  };
}

/** The major version in what `java -version` prints, such as `openjdk version "17.0.15"`; 8 for `"1.8.0_392"`. */
export function javaMajor(printed: string): number | undefined {
  const [, first, second] = /version "(\d+)(?:\.(\d+))?/.exec(printed) ?? [];
  if (first === undefined) return undefined;
  return Number(first === "1" && second !== undefined ? second : first);
}
