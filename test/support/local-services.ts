import { randomBytes } from "node:crypto";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { cacheFolder, fetchKafkaJars } from "../../dev/kafka-jars.ts";
import { startKafka } from "../../dev/kafka.ts";
import { freePort } from "../../dev/ports.ts";
import { postgresBinaries } from "../../dev/postgres-binaries.ts";
import { canEnter, postgresOwner } from "../../dev/postgres-owner.ts";
import { postgresUrl, startPostgres } from "../../dev/postgres.ts";

/** A service that runs as a local process. */
export interface LocalService {
  readonly stop: () => Promise<void>;
}

/** A broker with all its data in the folder, and its address: `host:port`. */
export async function startLocalKafka(folder: string): Promise<LocalService & { readonly address: string }> {
  const jars = await fetchKafkaJars(cacheFolder(), {
    say: (line) => process.stderr.write(`${line}\n`),
  });
  const [port, controllerPort] = [await freePort(), await freePort()];
  const child = await startKafka({
    jars,
    dataDir: join(folder, "kafka"),
    logDir: folder,
    port,
    controllerPort,
  });
  return { address: `127.0.0.1:${port}`, stop: () => child.stop() };
}

/**
 * A PostgreSQL with all its data in the folder, which its user must be able to enter, and the URL of any of its databases, as
 * a superuser. `settings` are its own; without them it is as it comes, fsync on.
 */
export async function startLocalPostgres(
  folder: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<LocalService & { readonly urlOf: (database: string) => string }> {
  const user = postgresOwner();
  const port = await freePort();
  const password = randomBytes(16).toString("hex");
  const child = await startPostgres({
    binaries: await postgresBinaries(user, folder),
    dataDir: join(folder, "postgres"),
    logFile: join(folder, "postgres.log"),
    port,
    password,
    user,
    settings,
  });
  return { urlOf: (database) => postgresUrl(port, password, database), stop: () => child.stop() };
}

/** A new folder that PostgreSQL's user can enter, whatever TMPDIR says, and how to remove it. */
export function createServiceFolder(prefix: string): {
  readonly folder: string;
  readonly remove: () => void;
} {
  const user = postgresOwner();
  const parent = [tmpdir(), "/var/tmp"].find((each) => user === undefined || canEnter(user, each));
  if (parent === undefined)
    throw new Error(`The user of PostgreSQL can enter neither ${tmpdir()} nor /var/tmp: set TMPDIR.`);
  const folder = mkdtempSync(join(parent, prefix));
  chmodSync(folder, 0o711);
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }) };
}
