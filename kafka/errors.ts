/** The error that an error of kafkajs was made of, through all its wrappers. */
export function rootCause(error: unknown): unknown {
  let cause = error;
  while (cause instanceof Error && cause.cause instanceof Error) cause = cause.cause;
  return cause;
}

/** What went wrong, as text for a log, a `fault` or a result. */
export function errorText(error: unknown): string {
  const cause = rootCause(error);
  if (!(cause instanceof Error)) return String(cause);
  const parts = "errors" in cause && Array.isArray(cause.errors) ? cause.errors.map(errorText) : [];
  return [cause.message, ...parts].join(": ");
}

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
