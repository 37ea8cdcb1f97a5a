import { setTimeout as sleep } from "node:timers/promises";

import { compareSchema, type SchemaDifference } from "#postgres/migrate.ts";
import { type Database } from "#postgres/pool.ts";
import { type Logger } from "#runtime/log.ts";
import { type Service } from "#runtime/service.ts";

const RETRY_MS = 1_000;
/** How often it is looked whether the database has been migrated by a later version. */
const LOOK_MS = 30_000;

/** The database is behind the code. */
export class SchemaBehindError extends Error {
  override readonly name = "SchemaBehindError";
}

/** See {@link createSchemaGate}. */
export interface SchemaGate extends Service {
  /** That the schema is of a later version than the code, for a person; undefined where it is not. That is no fault. */
  readonly ahead: string | undefined;
}

/**
 * Holds the services after it back until the database answers and has the schema of this code. It waits for a database
 * that is away, and says so once for each reason; one that is behind ends the process, since only a person may migrate it.
 * One that is ahead is worked with, as in every upgrade, and that is said, once for each further migration.
 */
export function createSchemaGate(db: Database, log: Logger, lookMs: number = LOOK_MS): SchemaGate {
  const ready = Promise.withResolvers<void>();
  let ahead: string | undefined;

  function note({ unknown }: SchemaDifference): void {
    const found =
      unknown.length === 0
        ? undefined
        : `the schema is newer than this version of Weir, which does not know ${unknown.join(", ")}: replace it soon`;
    if (found !== undefined && found !== ahead)
      log.warn("The schema is newer than this version of Weir: replace it soon", { unknown });
    ahead = found;
  }

  return {
    name: "schema",
    ready: ready.promise,
    get ahead() {
      return ahead;
    },
    async run(signal) {
      let fault: string | undefined;
      while (!signal.aborted) {
        const difference = await compareSchema(db).catch((error: unknown) => {
          const reason = error instanceof Error ? error.message : String(error);
          if (reason !== fault) log.warn("The database cannot be asked for its schema yet", { reason });
          fault = reason;
          return undefined;
        });
        if (difference !== undefined && fault !== undefined) log.info("The database answers");
        if (difference?.pending.length === 0) {
          note(difference);
          break;
        }
        if (difference !== undefined) {
          throw new SchemaBehindError(
            `The database lacks ${difference.pending.join(", ")}: run \`npm run migrate\`, then start again`,
          );
        }
        await sleep(RETRY_MS, undefined, { signal }).catch(() => undefined);
      }
      ready.resolve();
      while (!signal.aborted) {
        await sleep(lookMs, undefined, { signal }).catch(() => undefined);
        // Whether the database answers is the concern of others by now.
        if (!signal.aborted) await compareSchema(db).then(note, () => undefined);
      }
    },
  };
}
