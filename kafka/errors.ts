/** The error that an error of a client library was made of, through all its wrappers. */
export function rootCause(error: unknown): unknown {
  let cause = error;
  while (cause instanceof Error && cause.cause instanceof Error) cause = cause.cause;
  return cause;
}

/**
 * What went wrong, as one line for a log, a `fault` or a result. The same for the same fault, though the brokers are tried
 * in any order.
 */
export function errorText(error: unknown): string {
  // Every try of the same fails the same.
  return [...new Set(messagesOf(error))].join(": ");
}

function messagesOf(error: unknown): readonly string[] {
  const cause = rootCause(error);
  if (!(cause instanceof Error)) return [String(cause)];
  const parts = "errors" in cause && Array.isArray(cause.errors) ? cause.errors.map(messagesOf) : [];
  const inOrder = parts.toSorted((a, b) => a.join().localeCompare(b.join()));
  return [cause.message.replace(/\.$/, ""), ...inOrder.flat()];
}
