import { type Code, ConnectError } from "@connectrpc/connect";
import { type Reason } from "../core/reason.ts";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.ts";

/** What Weir says of a call that failed. */
export interface WeirError {
  /** The Connect code, such as Code.InvalidArgument. */
  readonly code: Code;
  /** What was wrong and what to do, for the reader. */
  readonly message: string;
  /**
   * The reason, for programs, from Weir's closed list (a later server may know more). undefined: the error is not
   * Weir's own, as when the server was not reached or the deadline passed.
   */
  readonly reason: Reason | (string & {}) | undefined;
  /** What varies with the reason: limit, actual, unit. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Every fault of the request, each with the path of its field; empty where the request is not at fault. */
  readonly violations: readonly Violation[];
  /** A repeat can help after this many milliseconds; undefined: the server does not say that it would. */
  readonly retryAfterMs: number | undefined;
}

/** One fault of one field of a request. */
export interface Violation {
  /** The path within the request, such as "event.attributes.time". */
  readonly field: string;
  /** What is wrong, and what to do. */
  readonly description: string;
  /** The reason, from the same list as the error's. */
  readonly reason: Reason | (string & {});
}

/**
 * Reads what a call rejected with; undefined where it is not the error of a call.
 *
 * @example
 * ```ts
 * try {
 *   await weir.ingest.createEvent({ event });
 * } catch (error) {
 *   const refusal = weirErrorOf(error);
 *   if (refusal?.reason !== "PUBLISH_OUTCOME_UNKNOWN") throw error;
 *   await weir.ingest.createEvent({ event }); // a repeat is absorbed
 * }
 * ```
 */
export function weirErrorOf(error: unknown): WeirError | undefined {
  if (!(error instanceof ConnectError)) return undefined;
  const info = error.findDetails(ErrorInfoSchema).find((detail) => detail.domain === "weir");
  const delay = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
  return {
    code: error.code,
    message: error.rawMessage,
    reason: info?.reason,
    metadata: info?.metadata ?? {},
    violations: error
      .findDetails(BadRequestSchema)
      .flatMap((detail) => detail.fieldViolations)
      .map(({ field, description, reason }) => ({ field, description, reason })),
    retryAfterMs:
      delay === undefined ? undefined : Number(delay.seconds) * 1000 + Math.ceil(delay.nanos / 1e6),
  };
}
