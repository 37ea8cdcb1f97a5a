import { Code, type ConnectError } from "@connectrpc/connect";
import { toConnectError } from "../errors.ts";

const RETRY_AFTER_MS = 1_000;

/** The error of a tail that would begin where retention has been. */
export function cursorExpired(oldestCursor: string): ConnectError {
  return toConnectError({
    code: Code.OutOfRange,
    reason: "CURSOR_EXPIRED",
    message:
      "Events from there on have been removed by retention, so they cannot all be shown. oldest_cursor is the oldest one that works; with ON_LAG_SKIP the stream goes on from there by itself.",
    metadata: { oldest_cursor: oldestCursor },
  });
}

/** The error of a tail beyond as many as may be open, or one whose beginning as many look for as may. */
export function tailCapacityReached(
  limit: number,
  setting: "WEIR_TAIL_STREAMS" | "WEIR_TAIL_READS",
): ConnectError {
  return toConnectError({
    code: Code.Unavailable,
    reason: "TAIL_CAPACITY",
    message:
      setting === "WEIR_TAIL_STREAMS"
        ? `All ${String(limit)} tails that this server may have are open. Try again, or close one.`
        : `All ${String(limit)} reads of the store that tails may have on this server are in use. Try again.`,
    metadata: { limit: String(limit), setting },
    retryAfterMs: RETRY_AFTER_MS,
  });
}

/** The error of a tail where it is not known how far the store has come. */
export function progressUnknown(): ConnectError {
  return toConnectError({
    code: Code.Unavailable,
    reason: "DATABASE_UNAVAILABLE",
    message:
      "PostgreSQL cannot be reached at the moment, so nothing can be shown. Events are still taken in. Try again.",
    retryAfterMs: RETRY_AFTER_MS,
  });
}
