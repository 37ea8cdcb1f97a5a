import { type Admin, KafkaError } from "./ports.ts";

/** What is configurable of the topics. Durations are milliseconds. */
export interface TopicSettings {
  /** The copies of a topic that is made; undefined: three, or as many as there are brokers. */
  readonly replication: number | undefined;
  readonly events: string;
  readonly eventsPartitions: number;
  readonly eventsRetentionMs: number;
  readonly deadLetters: string;
  readonly deadLettersPartitions: number;
  readonly deadLettersRetentionMs: number;
}

/** One topic of Weir's. */
export interface Topic {
  readonly name: string;
  readonly partitions: number;
  /** What a record's key is. */
  readonly key: "partition key" | "dead letter id";
  /** The CloudEvents content mode of its records. */
  readonly format: "binary" | "structured JSON";
  readonly cleanup: "delete" | "compact,delete";
  readonly retentionMs: number;
  /** The largest record batch that the broker takes. A record of its own is a batch, too. */
  readonly maxMessageBytes: number;
}

/** A topic as it was found or made. */
export interface FoundTopic extends Topic {
  /** The copies that it has: 1 means that a lost disk is a lost log. */
  readonly replication: number;
  readonly created: boolean;
  /** The settings that had drifted from the table and were put right. */
  readonly repaired: readonly string[];
}

/** A topic differs from the configuration in what cannot be repaired: the process must not start. */
export class TopicMismatchError extends KafkaError {}

/** Every topic there is (design § 3). */
export function topicTable(settings: TopicSettings): readonly [events: Topic, deadLetters: Topic] {
  return [
    {
      name: settings.events,
      partitions: settings.eventsPartitions,
      key: "partition key",
      format: "binary",
      cleanup: "delete",
      retentionMs: settings.eventsRetentionMs,
      maxMessageBytes: 2 * 1024 * 1024,
    },
    {
      name: settings.deadLetters,
      partitions: settings.deadLettersPartitions,
      key: "dead letter id",
      format: "structured JSON",
      cleanup: "compact,delete",
      retentionMs: settings.deadLettersRetentionMs,
      // A dead letter holds a record of the events topic whole. As JSON that grows, sixfold at the worst: a header's name
      // of control characters, or headers of two bytes each. Too small a limit would stop the partition for good.
      maxMessageBytes: 16 * 1024 * 1024,
    },
  ];
}

/**
 * Makes the topics that are missing, puts right what has drifted in the settings of those that exist, and answers what
 * there is now. Safe to run from several processes at once, and again.
 *
 * @throws TopicMismatchError that names every mismatch which cannot be repaired: a partition count that differs (keys
 *   would move to other partitions, and order would be lost). No setting is changed then.
 * @throws KafkaError where the brokers do not answer, or refuse.
 */
export async function ensureTopics(admin: Admin, settings: TopicSettings): Promise<readonly FoundTopic[]> {
  const topics = topicTable(settings);
  const brokers = await admin.brokerCount();
  const before = await admin.describeTopics(topics.map(({ name }) => name));
  const missing = topics.filter(({ name }) => !before.has(name));
  const replication = settings.replication ?? Math.min(3, brokers);
  for (const topic of missing) {
    await admin.createTopic({
      name: topic.name,
      partitions: topic.partitions,
      replication,
      config: topicConfig(topic, replication),
    });
  }

  const found = missing.length === 0 ? before : await admin.describeTopics(topics.map(({ name }) => name));
  const mismatches: string[] = [];
  const answers: FoundTopic[] = [];
  for (const topic of topics) {
    const actual = found.get(topic.name);
    if (actual === undefined) {
      throw new KafkaError(`topic ${topic.name} was made, and the brokers do not all know it yet`);
    } else if (actual.partitions !== topic.partitions) {
      mismatches.push(
        `${topic.name} has ${actual.partitions} partitions and ${topic.partitions} are configured: ` +
          "configure what it has, or name another topic",
      );
    } else {
      const wanted = topicConfig(topic, actual.replication);
      const drifted = Object.entries(wanted).filter(([name, value]) => actual.config.get(name) !== value);
      answers.push({
        ...topic,
        replication: actual.replication,
        created: missing.includes(topic),
        repaired: drifted.map(([name]) => name),
      });
    }
  }
  if (mismatches.length > 0) {
    throw new TopicMismatchError(`The topics do not fit the configuration:\n  ${mismatches.join("\n  ")}`);
  }
  for (const { name, repaired, replication: copies, ...topic } of answers) {
    if (repaired.length > 0) await admin.changeTopic(name, topicConfig({ name, ...topic }, copies));
  }
  return answers;
}

/** A topic's settings at the broker, for as many copies as it has. */
function topicConfig(topic: Topic, replication: number): Readonly<Record<string, string>> {
  return {
    "cleanup.policy": topic.cleanup,
    "retention.ms": String(topic.retentionMs),
    "max.message.bytes": String(topic.maxMessageBytes),
    // The accept time, which must survive a replay, and not the time of the append.
    "message.timestamp.type": "CreateTime",
    // The broker unpacks what producers compress, so that a fetch holds no more than its bytes, whatever is in them.
    "compression.type": "uncompressed",
    "min.insync.replicas": replication >= 3 ? "2" : "1",
    "unclean.leader.election.enable": "false",
  };
}
