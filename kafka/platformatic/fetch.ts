import {
  type ClusterTopicMetadata,
  type Connection,
  type fetchV17,
  ResponseError,
} from "@platformatic/kafka";

/** Kafka's Fetch, as the library calls it. */
export type FetchApi = typeof fetchV17.api;
/** What it answers. */
export type FetchResponse = fetchV17.FetchResponse;

/** Errors of a partition that pass once its leader is known again (Kafka protocol guide, Error codes). */
export const PASSING: ReadonlySet<number> = new Set([
  3, // UNKNOWN_TOPIC_OR_PARTITION
  5, // LEADER_NOT_AVAILABLE
  6, // NOT_LEADER_OR_FOLLOWER
  9, // REPLICA_NOT_AVAILABLE
  56, // KAFKA_STORAGE_ERROR
  74, // FENCED_LEADER_EPOCH
  75, // UNKNOWN_LEADER_EPOCH
  78, // OFFSET_NOT_AVAILABLE
  100, // UNKNOWN_TOPIC_ID
]);
/** The error of a partition whose log has not the offset that was asked for. */
export const OFFSET_OUT_OF_RANGE = 1;

const READ_COMMITTED = 1;
const NO_SESSION = { id: 0, epoch: -1 };
/** The first version of Fetch that names a topic by its id. */
const TOPIC_IDS = 13;

/** What to fetch from one broker. */
export interface FetchRequest {
  readonly topic: string;
  /** By partition. */
  readonly offsets: ReadonlyMap<number, bigint>;
  /** How long the broker waits where there is nothing, in milliseconds. */
  readonly maxWaitMs: number;
  readonly maxBytes: number;
  /** The first record batch comes whole, however large it is. */
  readonly partitionMaxBytes: number;
}

/** Fetches committed records of partitions from the broker that leads them; each partition has its own error code. */
export async function fetchFrom(
  api: FetchApi,
  connection: Connection,
  described: ClusterTopicMetadata,
  { topic, offsets, maxWaitMs, maxBytes, partitionMaxBytes }: FetchRequest,
): Promise<FetchResponse> {
  const partitions = Array.from(offsets, ([partition, fetchOffset]) => ({
    partition,
    fetchOffset,
    currentLeaderEpoch: described.partitions[partition]!.leaderEpoch,
    lastFetchedEpoch: -1,
    partitionMaxBytes,
  }));
  try {
    return await api.async(
      connection,
      maxWaitMs,
      1,
      maxBytes,
      READ_COMMITTED,
      NO_SESSION.id,
      NO_SESSION.epoch,
      [{ topicId: api.version >= TOPIC_IDS ? described.id : topic, partitions }],
      [],
      "",
    );
  } catch (error) {
    // An error of one partition: what the others brought is there, too.
    if (error instanceof ResponseError)
      return (error as ResponseError & { response: FetchResponse }).response;
    throw error;
  }
}
