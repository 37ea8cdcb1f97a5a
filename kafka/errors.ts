/** The error that an error of a client library was made of, through all its wrappers. */
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
  // Every try of the same fails the same.
  return [...new Set([cause.message, ...parts])].join(": ");
}
