import { duration, integer, kafkaName, listOf, oneOf, port } from "./forms.ts";
import { type Group } from "./setting.ts";

/** The roles that a worker process may have. */
export type WorkerRole = "persist" | "index" | "redrive" | "maintain";

/** What a worker process does. Times in milliseconds. */
export interface WorkersConfig {
  readonly roles: readonly WorkerRole[];
  readonly port: number | undefined;
  readonly persistGroup: string;
  readonly persistBatchRecords: number;
  readonly persistBatchWaitMs: number;
  readonly consumerStuckMs: number;
}

/** The settings behind {@link WorkersConfig}. */
export const WORKERS: Group<WorkersConfig> = {
  title: "Workers",
  settings: {
    roles: {
      name: "WEIR_WORKER_ROLES",
      form: listOf(oneOf("persist", "index", "redrive", "maintain")).refine(
        (roles) => roles.length > 0,
        "must name at least one role",
      ),
      default: "persist,index,redrive,maintain",
      unit: "list of roles",
      meaning:
        "What this process does: persist (the log into PostgreSQL), index (merges what searches find events by), redrive (bulk replays of dead letters), maintain (partitions made ahead, retention, sums of events by hour, the index of the dead letters put right).",
    },
    port: {
      name: "WEIR_WORKERS_PORT",
      form: port,
      unit: "port",
      meaning: "A port for the workers' /healthz, /readyz and /metrics, on WEIR_HOST. Unset: none.",
    },
    persistGroup: {
      name: "WEIR_PERSIST_GROUP",
      form: kafkaName,
      default: "weir.persist.v1",
      unit: "consumer group",
      meaning: "The consumer group of the persist role.",
    },
    persistBatchRecords: {
      name: "WEIR_PERSIST_BATCH",
      form: integer(1, 10_000),
      default: "500",
      unit: "records",
      meaning: "The most records that are stored in one transaction.",
    },
    persistBatchWaitMs: {
      name: "WEIR_PERSIST_BATCH_WAIT",
      form: duration("0ms", "10s"),
      default: "250ms",
      unit: "duration",
      meaning: "How long records are gathered while a partition brings more; at once when it is drained.",
    },
    consumerStuckMs: {
      name: "WEIR_CONSUMER_STUCK",
      form: duration("40s", "1h"),
      default: "60s",
      unit: "duration",
      meaning:
        "How long the consumer may show no sign of life, or wait in vain for records that the log has, before a fresh one takes its place.",
    },
  },
  join: (values) => values,
};
