import { type Logger } from "#runtime/log.ts";

import { type ConnectionOptions } from "./connection.ts";
import { type Fetched } from "./partition-reader.ts";
import { type Admin, type OutgoingRecord, type TopicPartition } from "./ports.ts";
import { type Topic } from "./topics.ts";

/** What a client library has to bring; everything else is the same whichever it is. */
export interface Adapter {
  openProduceSession(options: ProduceSessionOptions): ProduceSession;
  openMember(options: MemberOptions): Member;
  openAdminSession(options: AdminSessionOptions): AdminSession;
}

/** How record batches are compressed. */
export type Compression = "none" | "gzip" | "zstd";

/** What a produce session needs. */
export interface ProduceSessionOptions {
  readonly connection: ConnectionOptions;
  readonly topic: string;
  readonly compression: Compression;
  readonly log: Logger;
}

/**
 * An idempotent producer of one topic, with an id and sequence numbers of its own. It is used for one batch at a time, and
 * a batch whose `send` rejected is sent again, exactly as it was, before any other.
 */
export interface ProduceSession {
  /** Connects and gets a producer id. To be called once, before anything is sent. */
  connect(): Promise<void>;
  /** How many Produce requests have been handed to a socket. What was not handed over was certainly not published. */
  readonly produceRequests: number;
  /**
   * Publishes records with acks=all, in their order, and answers what the broker said of each partition. Rejects where it
   * has not answered for every one; with a TopicMissing where the topic or a partition is not there.
   */
  send(records: readonly OutgoingRecord[]): Promise<ProduceAnswer>;
  /** Closes every socket, and lets none be opened: from now on nothing is sent, whatever is still under way. */
  destroy(): void;
}

/** What the brokers said of a batch. */
export interface ProduceAnswer {
  /** A partition can be missing. */
  readonly partitions: readonly PartitionAnswer[];
  /** It was sent more than once: what is said is about the last time only. */
  readonly isRepeat: boolean;
}

/** What a broker said of one partition's records. */
export interface PartitionAnswer {
  readonly partition: number;
  /** As in Kafka's protocol; 0: they were appended. */
  readonly errorCode: number;
  /** The offset of the first; negative where the broker does not know it any more. */
  readonly baseOffset: bigint;
}

/** The topic does not exist, or has fewer partitions than we count on. */
export class TopicMissing extends Error {
  override readonly name = "TopicMissing";
  /** The partition that is not there; undefined: none is. */
  readonly partition: number | undefined;

  constructor(topic: string, partition?: number) {
    super(
      partition === undefined
        ? `the brokers do not host topic ${topic}`
        : `${topic} has no partition ${partition}`,
    );
    this.partition = partition;
  }
}

/** What a membership needs. */
export interface MemberOptions {
  readonly connection: ConnectionOptions;
  readonly group: string;
  readonly topic: Pick<Topic, "name" | "maxMessageBytes">;
  readonly log: Logger;
  /** How long the client may show no sign of life before the membership has failed, in milliseconds. */
  readonly stuckMs: number;
  /** These partitions are now ours, and no others. Nothing of them is fetched before `seek` and `resume`. */
  readonly onAssigned: (partitions: readonly number[]) => void;
  /** No partition is ours for now. */
  readonly onLost: () => void;
  /** A fetch brought this; answers whether to fetch on after it. */
  readonly onFetched: (partition: number, fetched: Fetched) => boolean;
}

/** One membership of a consumer group. Disposing leaves the group. */
export interface Member extends AsyncDisposable {
  /** Joins and consumes: resolves when the signal is raised, still a member; rejects when the membership has failed. */
  consume(signal: AbortSignal): Promise<void>;
  seek(partition: number, offset: bigint): void;
  pause(partition: number): void;
  resume(partition: number): void;
  /** Commits an offset of a partition that has been fetched. */
  commit(partition: number, offset: bigint): Promise<void>;
}

/** What an admin session needs. */
export interface AdminSessionOptions {
  readonly connection: ConnectionOptions;
  readonly log: Logger;
}

/** An admin's connections; they are made at the first question. It answers in its own time, and is given up by `destroy`. */
export interface AdminSession extends Omit<
  Admin,
  "probe" | "readAt" | "findByKey" | typeof Symbol.asyncDispose
> {
  /**
   * What one fetch brings of a partition from an offset on: whole record batches of up to `maxBytes` together, at the least
   * one; undefined where the log holds nothing from there on, or the offset is not on it.
   */
  readFrom(partition: TopicPartition, offset: bigint, maxBytes: number): Promise<Fetched | undefined>;
  /** The offset of a partition's first record that is not older than a time; undefined where there is none. */
  offsetAt(partition: TopicPartition, timestamp: number): Promise<bigint | undefined>;
  /** Rejects where a topic is missing; answers the name of one that has a partition without a leader. */
  leaderless(topics: readonly string[]): Promise<string | undefined>;
  /** Whether the connection failed, before or after the request: no broker has said anything. */
  isConnectionError(error: unknown): boolean;
  destroy(): void;
}

/** How groups are joined: what all members must agree on, and when they are taken for dead. Times in milliseconds. */
export const MEMBERSHIP = {
  /**
   * The name by which a member says how partitions are shared out. It is kafkajs' own, and every adapter uses it with the
   * same encoding, so that members of a group may run different clients, as they do while a fleet is switched over.
   */
  assignor: "RoundRobinAssigner",
  /** A member that has died is noticed after this; heartbeats go on while handlers work, so it may be short. */
  sessionMs: 10_000,
  heartbeatMs: 2_000,
  /** How long a rebalance waits for members, which rejoin at their next heartbeat. */
  rebalanceMs: 30_000,
  /** How long a fetch waits for records, and at most a partition that was resumed for its first fetch. */
  maxWaitMs: 500,
  fetchBytes: 16_777_216,
  leaveMs: 5_000,
  /** How often a request is tried again, 0.1 to 1 s apart. */
  retries: 5,
} as const;

/** Why a group cannot be joined that has members of another kind. */
export function inconsistentGroup(group: string): string {
  return (
    `group ${group} has members that do not share partitions out by ${MEMBERSHIP.assignor}: they are not Weir's workers. ` +
    "Stop them, or give the workers a group of their own (WEIR_PERSIST_GROUP)"
  );
}
