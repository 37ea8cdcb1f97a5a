import { duration, integer } from "./forms.ts";
import { type Group } from "./setting.ts";

/** What the admin services are given. Times in milliseconds. */
export interface AdminConfig {
  readonly poolSize: number;
  readonly statementTimeoutMs: number;
  readonly concurrency: number;
  readonly queue: number;
  readonly queueWaitMs: number;
  readonly deadLetterScanMs: number;
}

/** The settings behind {@link AdminConfig}. */
export const ADMIN: Group<AdminConfig> = {
  title: "Server: administration",
  settings: {
    poolSize: {
      name: "WEIR_ADMIN_DATABASE_POOL",
      form: integer(1, 1_000),
      default: "4",
      unit: "connections",
      meaning: "The most connections to WEIR_DATABASE_URL that a server holds for its admin services.",
    },
    statementTimeoutMs: {
      name: "WEIR_ADMIN_STATEMENT_TIMEOUT",
      form: duration("100ms", "5m"),
      default: "5s",
      unit: "duration",
      meaning: "How long one statement of an admin service may run.",
    },
    concurrency: {
      name: "WEIR_ADMIN_CONCURRENCY",
      form: integer(1, 1_000),
      default: "8",
      unit: "calls",
      meaning: "How many calls of admin services run at once.",
    },
    queue: {
      name: "WEIR_ADMIN_QUEUE",
      form: integer(0, 100_000),
      default: "16",
      unit: "calls",
      meaning: "How many calls of admin services may wait for their turn; a further one is UNAVAILABLE.",
    },
    queueWaitMs: {
      name: "WEIR_ADMIN_QUEUE_WAIT",
      form: duration("0s", "1m"),
      default: "1s",
      unit: "duration",
      meaning: "How long a call of an admin service may wait for its turn before it is UNAVAILABLE.",
    },
    deadLetterScanMs: {
      name: "WEIR_DEAD_LETTER_SCAN_TIME",
      form: duration("10ms", "5m"),
      default: "5s",
      unit: "duration",
      meaning: "How long dead letters are looked through for one page or plan, which then ends short.",
    },
  },
  join: (values) => values,
};
