import { Code, ConnectError } from "@connectrpc/connect";
import { classify, isUndefinedObject, QueryTimeoutError } from "#postgres/failures.ts";
import { toConnectError } from "./errors.ts";

const RETRY_AFTER_MS = 1_000;

/**
 * What a caller is told of a read of the database that failed; undefined for a fault of ours.
 *
 * @param behind what the schema is known to lack (`SchemaWatch.behind`): that a table is not there is no fault of ours then.
 * @param advice what to do where it took too long, a sentence.
 */
export function toReadError(
  error: unknown,
  behind?: string,
  advice = "Ask for a smaller page, or try again.",
): ConnectError | undefined {
  if (error instanceof ConnectError) return error;
  if (error instanceof QueryTimeoutError) {
    return toConnectError(
      {
        code: Code.DeadlineExceeded,
        reason: "QUERY_TIMEOUT",
        message: `The read took longer than a statement may. ${advice}`,
      },
      error,
    );
  }
  if (behind !== undefined && isUndefinedObject(error)) {
    return toConnectError(
      {
        code: Code.Unavailable,
        reason: "DATABASE_UNAVAILABLE",
        message: `Nothing can be read, for ${behind}. Events are still taken in. Try again once that is done.`,
        retryAfterMs: RETRY_AFTER_MS,
      },
      error,
    );
  }
  if (classify(error) !== "unavailable") return undefined;
  return toConnectError(
    {
      code: Code.Unavailable,
      reason: "DATABASE_UNAVAILABLE",
      message:
        "PostgreSQL cannot be reached at the moment, so nothing can be read. Events are still taken in. Try again.",
      retryAfterMs: RETRY_AFTER_MS,
    },
    error,
  );
}
