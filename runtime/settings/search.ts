import { duration, integer, url } from "./forms.ts";
import { type Group } from "./setting.ts";

/** What reads are given. Times in milliseconds. */
export interface SearchConfig {
  readonly databaseUrl: string | undefined;
  readonly poolSize: number;
  readonly statementTimeoutMs: number;
  readonly concurrency: number;
  readonly queue: number;
  readonly queueWaitMs: number;
}

/** The settings behind {@link SearchConfig}. */
export const SEARCH: Group<SearchConfig> = {
  title: "Server: reading",
  settings: {
    databaseUrl: {
      name: "WEIR_READ_DATABASE_URL",
      form: url("postgres:", "postgresql:"),
      unit: "URL",
      secret: true,
      meaning: "Where reads go, such as a replica. Unset: WEIR_DATABASE_URL.",
    },
    poolSize: {
      name: "WEIR_READ_DATABASE_POOL",
      form: integer(1, 1_000),
      default: "8",
      unit: "connections",
      meaning: "The most connections that a server holds for reading.",
    },
    statementTimeoutMs: {
      name: "WEIR_READ_DATABASE_STATEMENT_TIMEOUT",
      form: duration("100ms", "5m"),
      default: "2s",
      unit: "duration",
      meaning: "How long one statement that reads may run.",
    },
    concurrency: {
      name: "WEIR_SEARCH_CONCURRENCY",
      form: integer(1, 1_000),
      default: "8",
      unit: "searches",
      meaning: "How many reads run at once. No more than WEIR_READ_DATABASE_POOL has connections.",
    },
    queue: {
      name: "WEIR_SEARCH_QUEUE",
      form: integer(0, 100_000),
      default: "64",
      unit: "searches",
      meaning: "How many reads may wait for their turn; a further one is UNAVAILABLE.",
    },
    queueWaitMs: {
      name: "WEIR_SEARCH_QUEUE_WAIT",
      form: duration("0s", "1m"),
      default: "1s",
      unit: "duration",
      meaning: "How long a read may wait for its turn before it is UNAVAILABLE.",
    },
  },
  rules: [
    {
      of: ["concurrency", "poolSize"],
      judge({ concurrency, poolSize }, report) {
        if (concurrency > poolSize) {
          report("WEIR_SEARCH_CONCURRENCY", "must not be above WEIR_READ_DATABASE_POOL");
        }
      },
    },
  ],
  join: (values) => values,
};
