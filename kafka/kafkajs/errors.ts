import { rootCause } from "../errors.ts";

/** The protocol's name of an error that a broker answered, such as "UNKNOWN_TOPIC_OR_PARTITION". */
export function protocolError(error: unknown): string | undefined {
  const cause = rootCause(error);
  return cause instanceof Error && "type" in cause && typeof cause.type === "string" ? cause.type : undefined;
}

/** Whether the connection failed, before or after the request: no broker has said anything. */
export function isConnectionError(error: unknown): boolean {
  const cause = rootCause(error);
  return cause instanceof Error && /^KafkaJSConnection(Closed)?Error$/.test(cause.name);
}
