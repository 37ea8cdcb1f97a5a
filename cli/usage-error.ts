/** What the user asked for cannot be done; the message says what to change. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}
