import { Code, ConnectError } from "@connectrpc/connect";
import { classify, QueryTimeoutError } from "#postgres/failures.ts";
import { toConnectError } from "./errors.ts";

const RETRY_AFTER_MS = 1_000;

/** What a caller is told of a read of the database that failed; undefined for a fault of ours. */
export function toReadError(error: unknown): ConnectError | undefined {
  if (error instanceof ConnectError) return error;
  if (error instanceof QueryTimeoutError) {
    return toConnectError(
      {
        code: Code.DeadlineExceeded,
        reason: "QUERY_TIMEOUT",
        message: "The read took longer than a statement may. Ask for a smaller page, or try again.",
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
