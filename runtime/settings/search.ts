import { attributeName, duration, integer, listOf, url } from "./forms.ts";
import { type Group } from "./setting.ts";

/** What reads are given. Times in milliseconds. */
export interface SearchConfig {
  readonly databaseUrl: string | undefined;
  readonly poolSize: number;
  readonly statementTimeoutMs: number;
  readonly concurrency: number;
  readonly queue: number;
  readonly queueWaitMs: number;
  /** Names of extension attributes, each once. */
  readonly facetExtensions: readonly string[];
  readonly exports: number;
  readonly exportStatementTimeoutMs: number;
}

const MAX_FACET_EXTENSIONS = 8;

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
      meaning:
        "How many reads run at once: a page, an event, and each of facets, histogram and total of a first page. No more than WEIR_READ_DATABASE_POOL has connections.",
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
    facetExtensions: {
      name: "WEIR_SEARCH_FACET_EXTENSIONS",
      form: listOf(attributeName)
        .transform((names) => [...new Set(names)])
        .refine(
          ({ length }) => length <= MAX_FACET_EXTENSIONS,
          `must be ${MAX_FACET_EXTENSIONS} names at most`,
        ),
      default: "",
      unit: "list of names",
      meaning: `The extension attributes that searches have a facet for, such as tenant,region. At most ${MAX_FACET_EXTENSIONS}.`,
    },
    exports: {
      name: "WEIR_SEARCH_EXPORTS",
      form: integer(1, 1_000),
      default: "4",
      unit: "exports",
      meaning:
        "How many exports run at once, each with a connection of its own beside WEIR_READ_DATABASE_POOL; a further one is UNAVAILABLE.",
    },
    exportStatementTimeoutMs: {
      name: "WEIR_SEARCH_EXPORT_STATEMENT_TIMEOUT",
      form: duration("100ms", "1h"),
      default: "1m",
      unit: "duration",
      meaning: "How long one statement of an export may run, which brings the next some hundred events.",
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
