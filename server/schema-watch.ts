import { isDenied } from "#postgres/failures.ts";
import { pendingMigrations } from "#postgres/migrate.ts";
import { type Database, probe } from "#postgres/pool.ts";

/** Whether the database has the schema of this code, as it was last seen. */
export interface SchemaWatch {
  /** A `Probe`: why the database cannot be read, because it is away or because its schema is behind. */
  probe(): Promise<string | undefined>;
  /** What the schema lacked when it was last asked for; undefined where it lacked nothing, or could not be asked for. */
  readonly behind: string | undefined;
}

/** Watches the schema by the readiness probe alone: no read pays for it. */
export function createSchemaWatch(database: Database): SchemaWatch {
  let behind: string | undefined;
  return {
    async probe() {
      const away = await probe(database);
      if (away !== undefined) return away;
      const pending = await pendingMigrations(database).catch((error: unknown) => {
        // A role that may read events and not the history of the schema: whoever made it knows what it lacks.
        if (isDenied(error)) return [];
        throw error;
      });
      behind =
        pending.length === 0
          ? undefined
          : `the schema is behind: the database lacks ${pending.join(", ")}: run \`npm run migrate\``;
      return behind;
    },
    get behind() {
      return behind;
    },
  };
}
