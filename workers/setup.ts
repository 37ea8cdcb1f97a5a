import { loadKafkaClient } from "#kafka/client.ts";
import { ConfigError, loadConfig } from "#runtime/config.ts";
import { createLogger } from "#runtime/log.ts";

import { prepare } from "./prepare.ts";

/** How long `npm run migrate` waits for services that are still starting, in milliseconds. */
const WAIT_MS = 60_000;

/** Prepares the database and the topics; answers why that did not succeed, a line for each reason. */
async function setup(): Promise<readonly string[]> {
  try {
    const config = loadConfig(["process", "database", "kafka", "topics"]);
    const { logLevel: level, logFormat: format } = config.process;
    const log = await createLogger({ name: "setup", level, format });
    const client = await loadKafkaClient(config.kafka.client);
    await using admin = client.createAdmin({ connection: config.kafka, log });
    return await prepare({
      databaseUrl: config.database.url,
      admin,
      topics: config.topics,
      waitMs: WAIT_MS,
      log,
    });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return [error.message];
  }
}

// `npm run migrate`
const faults = await setup();
for (const fault of faults) process.stderr.write(`${fault}\n`);
// Explicitly, since a timer or socket that a library forgot would keep the process.
process.exit(faults.length === 0 ? 0 : 1);
