import { duration, integer, kafkaName } from "./forms.ts";
import { type Group } from "./setting.ts";

/** The topics that Weir makes. Times in milliseconds. */
export interface TopicsConfig {
  readonly replication: number | undefined;
  readonly events: string;
  readonly eventsPartitions: number;
  readonly eventsRetentionMs: number;
  readonly deadLetters: string;
  readonly deadLettersPartitions: number;
  readonly deadLettersRetentionMs: number;
}

/** The settings behind {@link TopicsConfig}. */
export const TOPICS: Group<TopicsConfig> = {
  title: "Topics",
  settings: {
    replication: {
      name: "WEIR_TOPIC_REPLICATION",
      form: integer(1, 9),
      unit: "copies",
      meaning: "The copies of each topic that Weir makes. Unset: three, or as many as there are brokers.",
    },
    events: {
      name: "WEIR_TOPIC_EVENTS",
      form: kafkaName,
      default: "weir.events.v1",
      unit: "topic",
      meaning: "The topic of the events.",
    },
    eventsPartitions: {
      name: "WEIR_TOPIC_EVENTS_PARTITIONS",
      form: integer(1, 1_000),
      default: "12",
      unit: "partitions",
      meaning:
        "Its partitions. Changing them moves keys to other partitions: order across the change is lost.",
    },
    eventsRetentionMs: {
      name: "WEIR_TOPIC_EVENTS_RETENTION",
      form: duration("1m", "3650d"),
      default: "7d",
      unit: "duration",
      meaning: "How long the log keeps an event (PostgreSQL keeps it longer).",
    },
    deadLetters: {
      name: "WEIR_TOPIC_DEAD_LETTERS",
      form: kafkaName,
      default: "weir.events.v1.dlq",
      unit: "topic",
      meaning: "The topic of the dead letters.",
    },
    deadLettersPartitions: {
      name: "WEIR_TOPIC_DEAD_LETTERS_PARTITIONS",
      form: integer(1, 1_000),
      default: "3",
      unit: "partitions",
      meaning: "Its partitions.",
    },
    deadLettersRetentionMs: {
      name: "WEIR_TOPIC_DEAD_LETTERS_RETENTION",
      form: duration("1m", "3650d"),
      default: "30d",
      unit: "duration",
      meaning: "How long a dead letter is kept.",
    },
  },
  join: (values) => values,
};
