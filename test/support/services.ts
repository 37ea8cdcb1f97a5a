import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type TestProject } from "vitest/node";

import { identify, isAlive, type ProcessIdentity } from "../../dev/identity.ts";
import { createServiceFolder, startLocalKafka, startLocalPostgres } from "./local-services.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** A real Kafka for the whole run: `host:port`, several with commas. */
    kafkaBrokers: string;
    /** A real PostgreSQL 18 for the whole run: its database `postgres`, as a superuser. */
    databaseUrl: string;
  }
}

/** The name of a run's folder begins so; the process that it belongs to stands in this file in it. */
const PREFIX = "weir-test-";
const OWNER = "owner.json";

interface Service {
  readonly address: string;
  stop(): Promise<void>;
}

/**
 * Starts Kafka and PostgreSQL once for the run, beside each other, and hands out their addresses by `provide`. Each may
 * be one that runs already (`WEIR_TEST_KAFKA_BROKERS`, `WEIR_TEST_DATABASE_URL`); `WEIR_TEST_SERVICES=containers` takes
 * containers instead of local processes. Suites keep apart by the names of their topics and databases.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = createRunFolder();
  const removeFolder = (): void => rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  process.once("exit", removeFolder);
  // Whatever suites put into temporary folders goes with the run.
  const { TMPDIR } = process.env;
  process.env["TMPDIR"] = folder;

  const useContainers = process.env["WEIR_TEST_SERVICES"] === "containers";
  const starting = [
    provided("WEIR_TEST_KAFKA_BROKERS") ??
      (useContainers ? (await import("./containers.ts")).startKafkaContainer() : startLocalKafka(folder)),
    provided("WEIR_TEST_DATABASE_URL") ??
      (useContainers ? (await import("./containers.ts")).startPostgresContainer() : localPostgres(folder)),
  ] as const;
  const stop = async (): Promise<void> => {
    for (const outcome of await Promise.allSettled(starting))
      if (outcome.status === "fulfilled") await outcome.value.stop();
    process.off("exit", removeFolder);
    removeFolder();
    if (TMPDIR === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = TMPDIR;
  };
  try {
    const [kafka, database] = await Promise.all(starting);
    project.provide("kafkaBrokers", kafka.address);
    project.provide("databaseUrl", database.address);
  } catch (error) {
    await stop();
    throw error;
  }
  return stop;
}

function provided(variable: string): Promise<Service> | undefined {
  const address = process.env[variable];
  return address === undefined ? undefined : Promise.resolve({ address, stop: async () => {} });
}

async function localPostgres(folder: string): Promise<Service> {
  const { urlOf, stop } = await startLocalPostgres(folder, { max_connections: "200" });
  return { address: urlOf("postgres"), stop };
}

/** A fresh folder that PostgreSQL's user can reach, whatever TMPDIR says. */
function createRunFolder(): string {
  const { folder } = createServiceFolder(PREFIX);
  writeFileSync(join(folder, OWNER), JSON.stringify(identify(process.pid)));
  removeAbandoned(dirname(folder));
  return folder;
}

/** Removes the folders of runs that were killed; their processes went with them. */
function removeAbandoned(parent: string): void {
  for (const name of readdirSync(parent).filter((each) => each.startsWith(PREFIX))) {
    const folder = join(parent, name);
    try {
      const owner = JSON.parse(readFileSync(join(folder, OWNER), "utf8")) as ProcessIdentity;
      if (!isAlive(owner)) rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    } catch {
      // Somebody else's, or not yet complete.
    }
  }
}
