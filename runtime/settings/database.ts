import { duration, integer, url } from "./forms.ts";
import { type Group } from "./setting.ts";

/** The database that is written to. Times in milliseconds. */
export interface DatabaseConfig {
  readonly url: string;
  readonly poolSize: number;
  readonly connectTimeoutMs: number;
  readonly statementTimeoutMs: number;
}

/** The settings behind {@link DatabaseConfig}. */
export const DATABASE: Group<DatabaseConfig> = {
  title: "PostgreSQL",
  settings: {
    url: {
      name: "WEIR_DATABASE_URL",
      form: url("postgres:", "postgresql:"),
      required: true,
      unit: "URL",
      secret: true,
      meaning: "The database, postgres://user:password@host:5432/weir; TLS by ?sslmode=verify-full.",
    },
    poolSize: {
      name: "WEIR_DATABASE_POOL",
      form: integer(1, 1_000),
      default: "8",
      unit: "connections",
      meaning: "The most connections that a process holds for writing.",
    },
    connectTimeoutMs: {
      name: "WEIR_DATABASE_CONNECT_TIMEOUT",
      form: duration("100ms", "5m"),
      default: "5s",
      unit: "duration",
      meaning: "How long to wait for a connection, a free one or a new one.",
    },
    statementTimeoutMs: {
      name: "WEIR_DATABASE_STATEMENT_TIMEOUT",
      form: duration("100ms", "1h"),
      default: "30s",
      unit: "duration",
      meaning: "How long one statement that writes may run.",
    },
  },
  join: (values) => values,
};
