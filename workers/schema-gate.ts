import { setTimeout as sleep } from "node:timers/promises";

import { pendingMigrations } from "#postgres/migrate.ts";
import { type Database } from "#postgres/pool.ts";
import { type Logger } from "#runtime/log.ts";
import { type Service } from "#runtime/service.ts";

const RETRY_MS = 1_000;

/** The database is behind the code. */
export class SchemaBehindError extends Error {
  override readonly name = "SchemaBehindError";
}

/**
 * Holds the services after it back until the database answers and has the schema of this code. It waits for a database
 * that is away, and says so once for each reason; one that is behind ends the process, since only a person may migrate it.
 */
export function createSchemaGate(db: Database, log: Logger): Service {
  const ready = Promise.withResolvers<void>();
  return {
    name: "schema",
    ready: ready.promise,
    async run(signal) {
      let fault: string | undefined;
      while (!signal.aborted) {
        const pending = await pendingMigrations(db).catch((error: unknown) => {
          const reason = error instanceof Error ? error.message : String(error);
          if (reason !== fault) log.warn("The database cannot be asked for its schema yet", { reason });
          fault = reason;
          return undefined;
        });
        if (pending !== undefined && fault !== undefined) log.info("The database answers");
        if (pending?.length === 0) break;
        if (pending !== undefined) {
          throw new SchemaBehindError(
            `The database lacks ${pending.join(", ")}: run \`npm run migrate\`, then start again`,
          );
        }
        await sleep(RETRY_MS, undefined, { signal }).catch(() => undefined);
      }
      ready.resolve();
      if (!signal.aborted)
        await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    },
  };
}
