import { setTimeout as sleep } from "node:timers/promises";

import { type Admin } from "#kafka/ports.ts";
import { ensureTopics, TopicMismatchError, type TopicSettings } from "#kafka/topics.ts";
import { classify } from "#postgres/failures.ts";
import { migrate } from "#postgres/migrate.ts";
import { type Logger } from "#runtime/log.ts";

/** What preparing needs. */
export interface PrepareOptions {
  readonly databaseUrl: string;
  readonly admin: Admin;
  readonly topics: TopicSettings;
  /** How long to wait for a service that is still starting, in milliseconds. */
  readonly waitMs: number;
  /** Hears of everything that was done. */
  readonly log: Logger;
}

const RETRY_MS = 500;

/**
 * Brings the database to the schema of this code, with the partitions of the present, and makes the topics that are
 * missing. Both at once, each waiting for its service. Safe to run again, and from several processes at once.
 *
 * Answers why it did not succeed, a line for each of the two; none where all is done.
 */
export async function prepare({
  databaseUrl,
  admin,
  topics,
  waitMs,
  log,
}: PrepareOptions): Promise<readonly string[]> {
  const faults = await Promise.all([
    retried(
      "PostgreSQL",
      { waitMs, log, mayPass: (error) => classify(error) === "unavailable" },
      async () => {
        const applied = await migrate({ url: databaseUrl, logger: log });
        log.info("Database is up to date", { applied: applied.length });
      },
    ),
    retried(
      "Kafka",
      { waitMs, log, mayPass: (error) => !(error instanceof TopicMismatchError) },
      async () => {
        for (const { name, partitions, replication, created, repaired } of await ensureTopics(
          admin,
          topics,
        )) {
          log.info(created ? "Topic made" : "Topic is there", { topic: name, partitions, replication });
          if (repaired.length > 0)
            log.warn("Settings of a topic were put right", { topic: name, settings: repaired });
          if (replication === 1) log.warn("A topic has one copy: a lost disk is a lost log", { topic: name });
        }
      },
    ),
  ]);
  return faults.filter((fault) => fault !== undefined);
}

interface Retries {
  readonly waitMs: number;
  readonly log: Logger;
  /** Whether the error is of the kind that passes by itself. */
  readonly mayPass: (error: unknown) => boolean;
}

/** Does the work, again and again while its service is away; answers why it was not done. */
async function retried(
  service: string,
  { waitMs, log, mayPass }: Retries,
  work: () => Promise<void>,
): Promise<string | undefined> {
  const deadline = performance.now() + waitMs;
  for (let waiting = false; ; waiting = true) {
    try {
      await work();
      return undefined;
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      if (!mayPass(error)) return message;
      if (performance.now() >= deadline)
        return `${service} was not there within ${waitMs / 1000} s: ${message}`;
      if (!waiting) log.info(`Waiting for ${service}`, { reason: message });
      await sleep(RETRY_MS);
    }
  }
}
