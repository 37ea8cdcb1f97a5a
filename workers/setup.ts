import { createAdmin } from "#kafka/admin.ts";
import { ConfigError, loadConfig } from "#runtime/config.ts";
import { createLogger } from "#runtime/log.ts";

import { prepare } from "./prepare.ts";

/** How long `npm run migrate` waits for services that are still starting, in milliseconds. */
const WAIT_MS = 60_000;

/** `npm run migrate`: prepares the database and the topics, then ends with status 0, or with 1 and a line that says why. */
async function setup(): Promise<readonly string[]> {
  const config = loadConfig(["process", "database", "kafka", "topics"]);
  const log = await createLogger({
    name: "setup",
    level: config.process.logLevel,
    format: config.process.logFormat,
  });
  await using admin = createAdmin({ connection: config.kafka, log });
  // Awaited here: the admin is disposed of when this function is left.
  return await prepare({ databaseUrl: config.database.url, admin, topics: config.topics, waitMs: WAIT_MS, log });
}

try {
  const faults = await setup();
  for (const fault of faults) process.stderr.write(`${fault}\n`);
  process.exitCode = faults.length === 0 ? 0 : 1;
} catch (error) {
  if (!(error instanceof ConfigError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
