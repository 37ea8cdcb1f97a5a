import { randomUUID } from "node:crypto";
import { Code, ConnectError } from "@connectrpc/connect";
import { type Logger } from "#runtime/log.ts";
import { addDetails, type Failure, reasonOf, toConnectError } from "./errors.ts";

/**
 * Turns whatever ended a request into the error to answer with, which always says its reason. An expected one passes
 * unchanged. One that the RPC library raised (a message too large, not parsed, late) gets its details in place. Anything
 * else is a fault of ours: it is logged once under a correlation id, and the answer has that id and nothing else.
 */
export type ErrorFunnel = (error: unknown, method: string) => ConnectError;

/** The funnel of a server. `readLimitBytes` is what the RPC library refuses messages over. */
export function createErrorFunnel(log: Logger, readLimitBytes: number): ErrorFunnel {
  /** The library's words name options of its own, and the size of the message where that is known. */
  const tooLarge = (error: ConnectError): ConnectError => {
    const actual = /size (\d+) is larger/.exec(error.rawMessage)?.[1];
    addDetails(error, {
      reason: "MESSAGE_TOO_LARGE",
      metadata: { limit: String(readLimitBytes), unit: "bytes", ...(actual !== undefined && { actual }) },
    });
    const has = actual === undefined ? "is larger than the" : `has ${actual} bytes, more than the`;
    const { rawMessage, message } = new ConnectError(
      `The message ${has} ${String(readLimitBytes)} bytes that are read.`,
      error.code,
    );
    return Object.assign(error, { rawMessage, message });
  };
  const unexpected = (error: unknown, method: string): ConnectError => {
    const correlationId = randomUUID();
    log.error("Unexpected error in a request", { correlationId, method, error });
    return toConnectError({
      code: Code.Internal,
      reason: "INTERNAL",
      message: `Unexpected error. The server's log has more under ${correlationId}.`,
      metadata: { correlationId },
    });
  };
  return (error, method) => {
    if (!(error instanceof ConnectError)) return unexpected(error, method);
    if (reasonOf(error) !== undefined) return error;
    if (error.code === Code.ResourceExhausted) return tooLarge(error);
    const details = LIBRARY_ERRORS[error.code];
    if (details !== undefined) {
      addDetails(error, details);
      return error;
    }
    const { code, rawMessage, message, details: ours } = unexpected(error, method);
    // In place: the library may be about to write this very error.
    return Object.assign(error, { code, rawMessage, message, details: ours });
  };
}

const LIBRARY_ERRORS: Partial<Record<Code, Pick<Failure, "reason" | "metadata">>> = {
  [Code.InvalidArgument]: { reason: "INVALID_REQUEST" },
  [Code.Unimplemented]: { reason: "UNIMPLEMENTED" },
  [Code.DeadlineExceeded]: { reason: "DEADLINE_EXCEEDED" },
  [Code.Canceled]: { reason: "CANCELLED" },
  [Code.Aborted]: { reason: "CANCELLED" },
};

/**
 * An error of reading a request. The RPC library calls it internal that bytes are no protobuf message, or that they do
 * not inflate; but those are the client's. Changed in place, since the library may be about to write this very error.
 */
export function asInputFault(error: unknown): unknown {
  if (!(error instanceof ConnectError) || error.code !== Code.Internal || reasonOf(error) !== undefined)
    return error;
  addDetails(error, { reason: "INVALID_REQUEST" });
  return Object.assign(error, { code: Code.InvalidArgument });
}
