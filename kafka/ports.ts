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
  /** Certain: nothing was published. `QUEUE_FULL` and `BROKER_AWAY` pass; the others need a change. */
  | {
      readonly outcome: "refused";
      readonly cause: "QUEUE_FULL" | "BROKER_AWAY" | "TOPIC_MISSING" | "TOO_LARGE" | "CLOSED" | "CANCELLED";
      readonly detail: string;
    }
  /** It was sent and no acknowledgement was seen: it may be on the log. A repeat is absorbed by deduplication. */
  | { readonly outcome: "unknown"; readonly detail: string };

/** Publishes records with acks=all from an idempotent producer, in order per partition. */
export interface Producer extends AsyncDisposable {
  /**
   * Publishes one record; gathered with others of the moment into few produce requests. Never rejects. The signal ends
   * the wait, not the publishing: a record already sent is then "unknown", one still queued is "refused".
   */
  publish(record: OutgoingRecord, signal?: AbortSignal): Promise<PublishResult>;
  /** Why the producer cannot publish at the moment; undefined while it can. */
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
   * A partition was assigned to this member. Answers the offset to read from (it takes the partition over in the
   * database, so a former owner is fenced). A throw keeps the partition unread and is tried again with back-off.
   */
  assigned(partition: TopicPartition, log: LogRange): Promise<bigint>;
  /**
   * The next records of a partition, in order, without gaps but those of the log itself. When it resolves, the effects
   * are durable and the adapter commits the offset after the last record. A throw stops the partition: the same records
   * come again after a back-off (1–30 s, jitter), other partitions go on. The signal is raised when the member must let
   * go: finish or give up soon.
   */
  records(partition: TopicPartition, records: readonly ReceivedRecord[], signal: AbortSignal): Promise<void>;
  /** The partition is no longer this member's. */
  revoked(partition: TopicPartition): void;
}

/** What the broker says of a partition when it is assigned. */
export interface LogRange {
  /** The first offset still on the log. */
  readonly start: bigint;
  /** One past the last. */
  readonly end: bigint;
  /** The group's committed offset, where there is one. */
  readonly committed: bigint | undefined;
}

/** A member of a consumer group. */
export interface Consumer {
  /** Consumes until the signal is raised; then finishes what is in flight, commits, leaves the group and resolves. Rejects on what a restart of the process must cure. */
  run(signal: AbortSignal): Promise<void>;
  /** Why records are not consumed at the moment; undefined while they are. */
  readonly fault: string | undefined;
  /** What this member owns now. */
  readonly assignment: readonly TopicPartition[];
}
