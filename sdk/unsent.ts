/** What was thrown before its request could go out. */
const unsent = new WeakSet<object>();

/** Codes of Node.js for a connection that was not made: nothing went over it. */
const NOT_CONNECTED: readonly unknown[] = [
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
  "UND_ERR_CONNECT_TIMEOUT",
];

/** Notes that nothing was sent, as this was thrown before. Gives what is to be thrown on. */
export function markUnsent(error: unknown): unknown {
  const marked = typeof error === "object" && error !== null ? error : new Error(String(error));
  unsent.add(marked);
  return marked;
}

/** Whether a call failed before anything of it was sent; false where that cannot be told, as in browsers. */
export function isUnsent(error: unknown): boolean {
  for (let at = error; typeof at === "object" && at !== null; at = (at as Error).cause) {
    if (unsent.has(at) || ("code" in at && NOT_CONNECTED.includes(at.code))) return true;
  }
  return false;
}
