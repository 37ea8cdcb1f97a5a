import { Code, ConnectError } from "@connectrpc/connect";
import { type WeirError, weirErrorOf } from "./error.ts";
import { type Status } from "./gen/google/rpc/status_pb.ts";

/** The first back-off, and the longest, in milliseconds. */
const FIRST_MS = 100;
const LONGEST_MS = 5_000;

/** Codes of answers that are not Weir's own for which a repeat may find things changed. */
const PASSING: readonly Code[] = [
  Code.Canceled,
  Code.Unknown,
  Code.DeadlineExceeded,
  Code.ResourceExhausted,
  Code.Aborted,
  Code.Internal,
  Code.Unavailable,
];

/** Codes with which Weir says that it took nothing. */
const NOTHING_DONE: readonly Code[] = [
  Code.InvalidArgument,
  Code.OutOfRange,
  Code.Unauthenticated,
  Code.PermissionDenied,
  Code.Unimplemented,
  Code.ResourceExhausted,
];

/** Reasons of UNAVAILABLE with which nothing was published. */
const NOTHING_PUBLISHED: readonly string[] = ["PRODUCER_UNAVAILABLE", "KEYS_UNAVAILABLE", "BODY_CAPACITY"];

/** The error in an answer, as what a call that fails with it rejects with. */
export function errorOfStatus(status: Status | undefined): WeirError {
  const error = new ConnectError(status?.message ?? "The answer has no outcome for the event.", status?.code);
  error.details = (status?.details ?? []).map(({ typeUrl, value }) => ({
    type: typeUrl.slice(typeUrl.lastIndexOf("/") + 1),
    value,
  }));
  return weirErrorOf(error)!;
}

/**
 * Whether the same event may be taken if it is sent again, where `hasFreshTokens` with another token. That is always safe:
 * an event with the same source, id and time is stored once.
 */
export function isPassing({ code, reason, retryAfterMs }: WeirError, hasFreshTokens: boolean): boolean {
  if (reason === undefined) return PASSING.includes(code);
  if (reason === "TOKEN_EXPIRED") return hasFreshTokens;
  return retryAfterMs !== undefined || reason === "DEADLINE_EXCEEDED";
}

/** Whether the error may stand for an event that is on the log all the same. */
export function isUnknown({ code, reason }: WeirError): boolean {
  if (reason === undefined) return PASSING.includes(code);
  return !NOTHING_DONE.includes(code) && !NOTHING_PUBLISHED.includes(reason);
}

/** How long to wait before the nth repeat: never less than the server asks for, and never in step with other clients. */
export function backoffMs(attempt: number, retryAfterMs = 0): number {
  return retryAfterMs + Math.random() * Math.min(LONGEST_MS, FIRST_MS * 2 ** attempt);
}
