import { type Limits } from "#core/admission.ts";
import { duration, integer, size } from "./forms.ts";
import { type Group } from "./setting.ts";

/** What Weir takes in: the limits of an event, and those of a batch of events. */
export interface LimitsConfig extends Limits {
  readonly batchEvents: number;
  readonly batchBytes: number;
}

/** The settings behind {@link LimitsConfig}. */
export const LIMITS: Group<LimitsConfig> = {
  title: "Server: what an event and a batch may be",
  settings: {
    eventBytes: {
      name: "WEIR_MAX_EVENT_SIZE",
      // The events topic takes messages of 2 MiB.
      form: size("1KiB", "1536KiB"),
      default: "1MiB",
      unit: "size",
      meaning: "The largest event, encoded as a protobuf CloudEvent.",
    },
    sourceBytes: {
      name: "WEIR_MAX_SOURCE_SIZE",
      form: size("1B", "1024B"),
      default: "1024B",
      unit: "size",
      meaning: "The longest source, in UTF-8.",
    },
    subjectBytes: {
      name: "WEIR_MAX_SUBJECT_SIZE",
      form: size("1B", "1024B"),
      default: "1024B",
      unit: "size",
      meaning: "The longest subject, in UTF-8.",
    },
    idBytes: {
      name: "WEIR_MAX_ID_SIZE",
      form: size("1B", "512B"),
      default: "512B",
      unit: "size",
      meaning: "The longest id, in UTF-8.",
    },
    typeBytes: {
      name: "WEIR_MAX_TYPE_SIZE",
      form: size("1B", "256B"),
      default: "256B",
      unit: "size",
      meaning: "The longest type, in UTF-8.",
    },
    attributeNameBytes: {
      name: "WEIR_MAX_ATTRIBUTE_NAME_SIZE",
      form: size("1B", "256B"),
      default: "40B",
      unit: "size",
      meaning: "The longest name of an extension attribute.",
    },
    attributeValueBytes: {
      name: "WEIR_MAX_ATTRIBUTE_SIZE",
      form: size("1B", "64KiB"),
      default: "4KiB",
      unit: "size",
      meaning: "The longest value of any other attribute, in UTF-8.",
    },
    extensions: {
      name: "WEIR_MAX_EXTENSIONS",
      form: integer(0, 256),
      default: "64",
      unit: "attributes",
      meaning: "How many extension attributes an event may have.",
    },
    timeAheadMs: {
      name: "WEIR_TIME_AHEAD",
      form: duration("0s", "90d"),
      default: "24h",
      unit: "duration",
      meaning: "How far ahead of the server's clock an event's time may be.",
    },
    timeBehindMs: {
      name: "WEIR_TIME_BEHIND",
      // The store keeps partitions from four months back; an older row would fall into the default partition.
      form: duration("1s", "120d"),
      default: "90d",
      unit: "duration",
      meaning: "How far behind the server's clock an event's time may be.",
    },
    batchEvents: {
      name: "WEIR_MAX_BATCH_EVENTS",
      form: integer(1, 1_000),
      default: "256",
      unit: "events",
      meaning: "How many events a batch may have.",
    },
    batchBytes: {
      name: "WEIR_MAX_BATCH_SIZE",
      form: size("1KiB", "128MiB"),
      default: "8MiB",
      unit: "size",
      meaning:
        "The largest batch: its events in protobuf by RPC, the inflated body by HTTP. WEIR_READ_LIMIT should be above it.",
    },
  },
  join: (values) => values,
};
