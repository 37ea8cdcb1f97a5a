import { duration, oneOf, text } from "./forms.ts";
import { type Group } from "./setting.ts";

/** The levels of the log, the most talkative first. */
export type LogLevel = "debug" | "info" | "warn" | "error";

/** What every process reads. Times in milliseconds. */
export interface ProcessConfig {
  readonly logLevel: LogLevel;
  readonly logFormat: "auto" | "json" | "pretty";
  readonly host: string;
  readonly drainTimeoutMs: number;
  readonly stopTimeoutMs: number;
}

/** The settings behind {@link ProcessConfig}. */
export const PROCESS: Group<ProcessConfig> = {
  title: "Every process",
  settings: {
    logLevel: {
      name: "WEIR_LOG_LEVEL",
      form: oneOf("debug", "info", "warn", "error"),
      default: "info",
      unit: "level",
      meaning: "The least level that is logged: debug, info, warn or error.",
    },
    logFormat: {
      name: "WEIR_LOG_FORMAT",
      form: oneOf("auto", "json", "pretty"),
      default: "auto",
      unit: "word",
      meaning: "json: one object a line; pretty: for people; auto: pretty on a terminal, else json.",
    },
    host: {
      name: "WEIR_HOST",
      form: text,
      default: "127.0.0.1",
      unit: "address",
      meaning: "The address that a process listens on; 0.0.0.0 or :: for all.",
    },
    drainTimeoutMs: {
      name: "WEIR_DRAIN_TIMEOUT",
      form: duration("0s", "10m"),
      default: "15s",
      unit: "duration",
      meaning:
        "How long a stop waits for what is in flight: requests, records being published, a batch being stored.",
    },
    stopTimeoutMs: {
      name: "WEIR_STOP_TIMEOUT",
      form: duration("1s", "15m"),
      default: "25s",
      unit: "duration",
      meaning:
        "How long a whole stop may take; the process then ends at once with status 1. Longer than WEIR_DRAIN_TIMEOUT.",
    },
  },
  rules: [
    {
      of: ["drainTimeoutMs", "stopTimeoutMs"],
      judge({ drainTimeoutMs, stopTimeoutMs }, report) {
        if (drainTimeoutMs >= stopTimeoutMs) {
          report("WEIR_STOP_TIMEOUT", "must be longer than WEIR_DRAIN_TIMEOUT");
        }
      },
    },
  ],
  join: (values) => values,
};
