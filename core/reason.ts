/**
 * Why something was refused or failed: the closed list shared by errors (google.rpc.ErrorInfo.reason), metrics and
 * dead letters (design § 4 and § 9).
 */
export const REASONS = [
  // The request's sender
  "TOKEN_MISSING",
  "TOKEN_INVALID",
  "TOKEN_EXPIRED",
  "SCOPE_MISSING",
  "KEYS_UNAVAILABLE",
  // The event
  "UNKNOWN_MODE",
  "MALFORMED",
  "INVALID_ATTRIBUTES",
  "INVALID_DATA",
  "TOO_LARGE",
  "TIME_OUT_OF_WINDOW",
  "DECODER_FAULT",
  "UNPERSISTABLE",
  // Publishing
  "PRODUCER_UNAVAILABLE",
  "PUBLISH_OUTCOME_UNKNOWN",
  // Reading
  "INVALID_NAME",
  "INVALID_PAGE_SIZE",
  "INVALID_PAGE_TOKEN",
  "INVALID_ORDER_BY",
  "INVALID_FILTER",
  "EVENT_NOT_FOUND",
  "DATABASE_UNAVAILABLE",
  "QUERY_TIMEOUT",
  "SEARCH_CAPACITY",
  "INVALID_CURSOR",
  "CURSOR_EXPIRED",
  "TAIL_CAPACITY",
  "DEAD_LETTER_NOT_FOUND",
  "KAFKA_UNAVAILABLE",
  // Administration
  "REPLAY_SET_UNSATISFIABLE",
  "REDRIVE_NOT_FOUND",
  "REDRIVE_OPEN",
  "REDRIVE_ENDED",
  "ADMIN_CAPACITY",
  // Any request
  "INVALID_REQUEST",
  "UNIMPLEMENTED",
  "STAGE_UNSUPPORTED",
  "MESSAGE_TOO_LARGE",
  "UNSUPPORTED_MEDIA_TYPE",
  "METHOD_NOT_ALLOWED",
  "NOT_FOUND",
  "DEADLINE_EXCEEDED",
  "STREAM_CAPACITY",
  "BODY_CAPACITY",
  "CREDIT_EXCEEDED",
  "INVALID_SEQUENCE",
  "SHUTTING_DOWN",
  "CANCELLED",
  "INTERNAL",
] as const;

/** One of REASONS. */
export type Reason = (typeof REASONS)[number];

/** One fault of one input. All faults of an input are reported together. */
export interface Fault {
  /** What is at fault: an attribute's name ("time"), "data", or "" for the input as a whole. Each edge puts its own path before it. */
  readonly field: string;
  readonly reason: Reason;
  /** What was wrong and what to do, a sentence for the reader. Never holds a payload. */
  readonly description: string;
  /** What varies, for programs: limit, actual, unit. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** A value, or every fault that was found. */
export type Result<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly faults: readonly [Fault, ...Fault[]] };
