import { duration, integer, oneOf, size } from "./forms.ts";
import { type Group } from "./setting.ts";

type Compression = "none" | "gzip" | "zstd";

/** The bounds of publishing. Times in milliseconds, sizes in bytes. */
export interface ProducerConfig {
  readonly queueRecords: number;
  readonly queueBytes: number;
  readonly publishTimeoutMs: number;
  readonly compression: Compression;
}

/** The settings behind {@link ProducerConfig}. */
export const PRODUCER: Group<ProducerConfig> = {
  title: "Publishing",
  settings: {
    queueRecords: {
      name: "WEIR_PRODUCER_QUEUE",
      form: integer(1, 1_000_000),
      default: "8192",
      unit: "records",
      meaning: "How many records may wait or be in flight; a further one is refused with UNAVAILABLE.",
    },
    queueBytes: {
      name: "WEIR_PRODUCER_QUEUE_SIZE",
      form: size("2MiB", "16GiB"),
      default: "64MiB",
      unit: "size",
      meaning: "How much they may hold together.",
    },
    publishTimeoutMs: {
      name: "WEIR_PUBLISH_TIMEOUT",
      form: duration("100ms", "5m"),
      default: "10s",
      unit: "duration",
      meaning: "How long a record may take from the queue to its acknowledgement.",
    },
    compression: {
      name: "WEIR_PRODUCER_COMPRESSION",
      form: oneOf("none", "gzip", "zstd"),
      default: "none",
      unit: "word",
      meaning:
        "How records are compressed on their way to the brokers, which unpack them: none, gzip or zstd. It costs both sides processor time and pays where that network is what is scarce.",
    },
  },
  join: (values) => values,
};
