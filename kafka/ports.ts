import { type LogPosition } from "#core/event.ts";

/** A record header; Kafka allows repeated names and null values, so headers are a list. */
export type RecordHeader = readonly [name: string, value: Uint8Array | null];

/** What a record holds, whichever way it goes. */
export interface RecordContent {
  readonly key: Uint8Array | null;
  /** null is a tombstone, and differs from an empty value. */
  readonly value: Uint8Array | null;
  readonly headers: readonly RecordHeader[];
  /** Milliseconds since 1970. */
  readonly timestamp: number;
}

/** A record to publish. Its partition is chosen by us (core/partition.ts), never by the client library. */
export interface OutgoingRecord extends RecordContent {
  readonly topic: string;
  readonly partition: number;
}

/** A record as read from the log. */
export interface ReceivedRecord extends RecordContent, LogPosition {}

/** What became of a record that was to be published. */
export type PublishResult =
  | { readonly outcome: "acknowledged"; readonly position: LogPosition }
  | PublishRefusal
  /** It was sent and no acknowledgement was seen: it may be on the log. A repeat is absorbed by deduplication. */
  | { readonly outcome: "unknown"; readonly detail: string };

/**
 * Certain: nothing was published. `QUEUE_FULL` and `BROKER_AWAY` pass by themselves, `CLOSED` and `CANCELLED` are this
 * process's own doing, the others (`REJECTED`: the broker does not take the record, or not from us) need a change.
 */
export interface PublishRefusal {
  readonly outcome: "refused";
  readonly cause:
    | "QUEUE_FULL"
    | "BROKER_AWAY"
    | "TOPIC_MISSING"
    | "TOO_LARGE"
    | "REJECTED"
    | "CLOSED"
    | "CANCELLED";
  /** It is for this record's own sake, whatever becomes of others: of `TOO_LARGE` always, of `REJECTED` sometimes. */
  readonly isOfRecord: boolean;
  readonly detail: string;
}

/** Publishes records with acks=all from an idempotent producer, in order per partition. */
export interface Producer extends AsyncDisposable {
  /**
   * Publishes one record; gathered with others of the moment into few produce requests. Never rejects. The signal ends
   * the wait, not the publishing: a record already sent is then "unknown", one still queued is "refused".
   */
  publish(record: OutgoingRecord, signal?: AbortSignal): Promise<PublishResult>;
  /**
   * Publishes one record as `publish` does, and says at once where it cannot even be queued: then the answer is no
   * promise, and the record is not counted. So whoever has several records of one key can hold those back that follow
   * one without a place, or wait for `room`.
   */
  offer(record: OutgoingRecord, signal?: AbortSignal): Promise<PublishResult> | PublishRefusal;
  /** Resolves when a record next leaves the queue: what was refused for QUEUE_FULL may be offered again. Never rejects. */
  room(): Promise<void>;
  /** Settles at the first connection with a producer id, however long that takes; never rejects. */
  readonly ready: Promise<void>;
  /**
   * Why the producer cannot publish at the moment, or the broker takes nothing of what it sends (since its last rejection
   * of a record for what is not the record's own fault, for 30 s at most); undefined while it can.
   */
  readonly fault: string | undefined;
  /** Records and bytes waiting or in flight. */
  readonly queued: { readonly records: number; readonly bytes: number };
  /** Stops taking records, waits for those in flight until the deadline (milliseconds), then settles the rest. */
  close(deadlineMs: number): Promise<void>;
}

/** A partition of a topic. */
export interface TopicPartition {
  readonly topic: string;
  readonly partition: number;
}

/** The effects of consuming, which the owner of a consumer gives. Calls for one partition never overlap. */
export interface ConsumerHandler {
  /**
   * A partition was assigned to this member, or it is to be read anew after a failure. Answers the offset to read from
   * (it takes the partition over in the database, so a former owner is fenced), within `log.start` to `log.end`. A throw,
   * or an offset outside the log, keeps the partition unread and is tried again with back-off; `fault` says why.
   */
  assigned(partition: TopicPartition, log: LogRange): Promise<bigint>;
  /**
   * The next records of a partition, in order, without gaps but those of the log itself. When it resolves, the effects
   * are durable and the adapter commits the offset after the last record. A throw stops the partition: after a back-off
   * (1–30 s, jitter) `assigned` is asked again and reading goes on from its answer, so the same records come again;
   * other partitions go on meanwhile. The signal is raised when the member must let go: finish or give up soon.
   */
  records(partition: TopicPartition, records: readonly ReceivedRecord[], signal: AbortSignal): Promise<void>;
  /**
   * Up to this offset the log holds nothing more to hand over: control records, aborted transactions, what compaction took.
   * As `records` in everything else: when it resolves, that is accounted for, and the adapter commits the offset.
   */
  passed(partition: TopicPartition, nextOffset: bigint): Promise<void>;
  /** The partition is no longer this member's; no call for it is under way. `assigned` follows where it comes back. */
  revoked(partition: TopicPartition): void;
}

/** What the broker says of a partition when it is assigned. */
export interface LogRange {
  /** The first offset still on the log. */
  readonly start: bigint;
  /** One past the last. */
  readonly end: bigint;
  /** Where what is committed ends: below `end` where a transaction is open, which holds back all that comes after its first record. */
  readonly stable: bigint;
  /** The group's committed offset, where there is one. */
  readonly committed: bigint | undefined;
  /**
   * The id that the brokers gave the topic when it was made: one made anew by the same name has another. undefined where
   * they give none (Kafka before 2.8).
   */
  readonly topicId: string | undefined;
}

/** A member of a consumer group. */
export interface Consumer {
  /**
   * Consumes until the signal is raised; then finishes what is in flight, commits, leaves the group and resolves. Brokers
   * that are away, a missing topic and a refused login are waited for (`fault` says so). To be called once.
   */
  run(signal: AbortSignal): Promise<void>;
  /** Why records are not consumed at the moment; undefined while they are. */
  readonly fault: string | undefined;
  /** What this member owns now. */
  readonly assignment: readonly TopicPartition[];
}

/** Questions to the brokers. Each answers within the connection's request timeout, or rejects with a KafkaError. */
export interface Admin extends AsyncDisposable {
  /** What the brokers say of every partition of a topic. */
  logRanges(topic: string): Promise<ReadonlyMap<number, Omit<LogRange, "committed">>>;
  /** The offsets that a group has committed; a partition without one is absent. */
  committedOffsets(group: string, topic: string): Promise<ReadonlyMap<number, bigint>>;
  /** Topics by name; one that does not exist is absent. */
  describeTopics(names: readonly string[]): Promise<ReadonlyMap<string, TopicDescription>>;
  /** The record at an offset, with whatever is in the record batch that it stands in read and left; undefined where the log has none there. Rejects where an open transaction holds it back. */
  readAt(partition: TopicPartition, offset: bigint): Promise<ReceivedRecord | undefined>;
  /**
   * The first record of a key among those written from a time on (milliseconds since 1970, by the records' timestamps), of
   * which it looks at `maxRecords`, or as many as it reads within the request timeout; undefined where none has it.
   */
  findByKey(
    partition: TopicPartition,
    key: Uint8Array,
    among: { readonly since: number; readonly maxRecords: number },
  ): Promise<ReceivedRecord | undefined>;
  /**
   * The records of a partition from an offset on, as many as one fetch brings: of up to `maxBytes` together, at the least one
   * record batch. undefined where the log holds nothing from there on, or the offset is not on it.
   */
  readFrom(partition: TopicPartition, offset: bigint, maxBytes: number): Promise<FetchedRecords | undefined>;
  /** How many brokers the cluster has at the moment. */
  brokerCount(): Promise<number>;
  /** Makes a topic; one that exists by now is left as it is. */
  createTopic(topic: NewTopic): Promise<void>;
  /** Sets some of a topic's own settings and keeps its others. */
  changeTopic(name: string, config: Readonly<Record<string, string>>): Promise<void>;
  /** For /readyz: undefined where the brokers answer and every topic named has a leader for each partition, else the reason. Within 2 s. */
  probe(topics: readonly string[]): Promise<string | undefined>;
}

/** What one fetch brings. */
export interface FetchedRecords {
  /** Without control records and aborted transactions: possibly none. */
  readonly records: readonly ReceivedRecord[];
  /** The offset to read from next. */
  readonly next: bigint;
}

/** A topic as it is. */
export interface TopicDescription {
  readonly name: string;
  readonly partitions: number;
  /** The copies of the partition that has the fewest. */
  readonly replication: number;
  /** Every setting by name, those left at the broker's default included. */
  readonly config: ReadonlyMap<string, string>;
}

/** A topic to be made. */
export interface NewTopic {
  readonly name: string;
  readonly partitions: number;
  readonly replication: number;
  readonly config: Readonly<Record<string, string>>;
}

/** A request to Kafka failed; the message says what was asked, of whom, and what came back. */
export class KafkaError extends Error {
  override readonly name = "KafkaError";
}
