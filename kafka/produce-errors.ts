/** What a partition's error code in a Produce response means for its records. */
export interface ProduceError {
  /** The protocol's name, for people. */
  readonly name: string;
  /** "no": certainly not written. "maybe": it may be on the log. */
  readonly written: "no" | "maybe";
  /** The record is refused for good and for this reason; undefined: the error passes, send again. */
  readonly refusal: "TOO_LARGE" | "REJECTED" | undefined;
  /** It may be the fault of one record of the batch, and the others are fine. */
  readonly ofRecord: boolean;
  /** The topic, or the partition, is not there (yet). */
  readonly missing: boolean;
}

/**
 * The errors that a Produce response can carry (Kafka protocol guide, Error codes; what each says of the append was read
 * in Kafka's ReplicaManager and UnifiedLog). A code that is not here may mean anything.
 */
const ERRORS: ReadonlyMap<number, ProduceError> = new Map([
  [2, passing("CORRUPT_MESSAGE")],
  [3, { ...passing("UNKNOWN_TOPIC_OR_PARTITION"), missing: true }],
  [5, passing("LEADER_NOT_AVAILABLE")],
  [6, passing("NOT_LEADER_OR_FOLLOWER")],
  [7, maybeWritten("REQUEST_TIMED_OUT")],
  [10, ofRecord("MESSAGE_TOO_LARGE", "TOO_LARGE")],
  [17, refused("INVALID_TOPIC_EXCEPTION")],
  [18, ofRecord("RECORD_LIST_TOO_LARGE", "TOO_LARGE")],
  [19, passing("NOT_ENOUGH_REPLICAS")],
  [20, maybeWritten("NOT_ENOUGH_REPLICAS_AFTER_APPEND")],
  [29, refused("TOPIC_AUTHORIZATION_FAILED")],
  [31, refused("CLUSTER_AUTHORIZATION_FAILED")],
  [32, ofRecord("INVALID_TIMESTAMP", "REJECTED")],
  [44, refused("POLICY_VIOLATION")],
  [45, passing("OUT_OF_ORDER_SEQUENCE_NUMBER")],
  [47, passing("INVALID_PRODUCER_EPOCH")],
  [56, maybeWritten("KAFKA_STORAGE_ERROR")],
  [59, passing("UNKNOWN_PRODUCER_ID")],
  [87, ofRecord("INVALID_RECORD", "REJECTED")],
  [90, passing("PRODUCER_FENCED")],
]);

/** What an error code other than 0 means. */
export function produceError(code: number): ProduceError {
  return ERRORS.get(code) ?? maybeWritten(`error code ${code}`);
}

function passing(name: string): ProduceError {
  return { name, written: "no", refusal: undefined, ofRecord: false, missing: false };
}

function maybeWritten(name: string): ProduceError {
  return { ...passing(name), written: "maybe" };
}

function refused(name: string): ProduceError {
  return { ...passing(name), refusal: "REJECTED" };
}

function ofRecord(name: string, refusal: "TOO_LARGE" | "REJECTED"): ProduceError {
  return { ...passing(name), refusal, ofRecord: true };
}
