import { duration, integer, size } from "./forms.ts";
import { type Group } from "./setting.ts";

/** What tails are given. Times in milliseconds, sizes in bytes. */
export interface TailConfig {
  readonly streams: number;
  readonly ringBytes: number;
  readonly reads: number;
  readonly statementTimeoutMs: number;
}

/** The settings behind {@link TailConfig}. */
export const TAIL: Group<TailConfig> = {
  title: "Server: tails",
  settings: {
    streams: {
      name: "WEIR_TAIL_STREAMS",
      form: integer(1, 1_000_000),
      default: "5000",
      unit: "tails",
      meaning:
        "How many tails may be open at once; a further one is UNAVAILABLE. They are among the streams of WEIR_MAX_STREAMS.",
    },
    ringBytes: {
      name: "WEIR_TAIL_RING",
      form: size("1MiB", "16GiB"),
      default: "64MiB",
      unit: "size",
      meaning:
        "What the newest events may take that are held for all tails together; a tail that is behind them reads the store. An event counts 4 KiB and four times its payload.",
    },
    reads: {
      name: "WEIR_TAIL_READS",
      form: integer(1, 1_000),
      default: "4",
      unit: "reads",
      meaning:
        "How many tails that are behind read the store at once, each with a connection beside WEIR_READ_DATABASE_POOL; others wait.",
    },
    statementTimeoutMs: {
      name: "WEIR_TAIL_STATEMENT_TIMEOUT",
      form: duration("100ms", "5m"),
      default: "10s",
      unit: "duration",
      meaning: "How long one statement of a tail may run.",
    },
  },
  join: (values) => values,
};
