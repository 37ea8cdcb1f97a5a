/**
 * What a failure of the database means for the records that met it (design § 2.7):
 * "data": the record itself cannot be stored, and a retry cannot help;
 * "unavailable": the database is away or has no room, which says nothing about the record;
 * "operations": something that people or a retry must cure (a missing partition, a deadlock, a programming error).
 */
export type FailureClass = "data" | "unavailable" | "operations";

/** By SQLSTATE, the longest prefix first; what is not listed is "operations". */
const BY_SQLSTATE: Readonly<Record<string, FailureClass>> = {
  // A binary COPY whose framing is wrong, a value in a form that its column has not, a null where none may be: the fault of
  // our encoder, or of a column that changed, whatever the record.
  "22P04": "operations",
  "22P03": "operations",
  "22004": "operations",
  // Program limit exceeded: a value too large for an index, a statement or value too deep for a parser.
  "54000": "data",
  "54001": "data",
  "57P": "unavailable", // operator intervention: shutdown, crash, starting up
  "08": "unavailable", // connection exception
  "22": "data", // data exception
  // Integrity constraint violation: none of Weir's constraints is about what a record brings along, so it says something of
  // the schema, as one that is newer than this code, or of somebody's own constraint.
  "23": "operations",
  "53": "unavailable", // insufficient resources: memory, disk, connections
};

/** Error codes of Node for a peer that cannot be reached or went away. */
const NETWORK_CODES: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "ECONNABORTED",
  "EPIPE",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "EHOSTDOWN",
  "ENETUNREACH",
  "ENETDOWN",
  "ENOTFOUND",
  "EAI_AGAIN",
  "ENOENT", // the Unix socket of a server that is down
]);

/** pg and pg-pool have no codes for these. Tests bring each about for real, so that an upgrade cannot change one unseen. */
const CLIENT_MESSAGES: ReadonlySet<string> = new Set([
  "timeout exceeded when trying to connect",
  "timeout expired",
  "Connection terminated",
  "Connection terminated unexpectedly",
  "Connection terminated due to connection timeout",
  "Query read timeout",
  "Client has encountered a connection error and is not queryable",
  "Client was closed and is not queryable",
]);

const SQLSTATE = /^[0-9A-Z]{5}$/;

/** Classifies what a function of this folder threw. An error that wraps another is judged by its cause where it says nothing itself. */
export function classify(error: unknown): FailureClass {
  for (let at = error, depth = 0; at instanceof Error && depth < 8; at = at.cause, depth++) {
    const code = "code" in at && typeof at.code === "string" ? at.code : undefined;
    if (code !== undefined && NETWORK_CODES.has(code)) return "unavailable";
    if (code !== undefined && SQLSTATE.test(code))
      return (
        BY_SQLSTATE[code] ?? BY_SQLSTATE[code.slice(0, 3)] ?? BY_SQLSTATE[code.slice(0, 2)] ?? "operations"
      );
    if (CLIENT_MESSAGES.has(at.message)) return "unavailable";
  }
  return "operations";
}

/** A statement ran into its bound. The server has cancelled it, or has not answered a second after it should have. */
export class QueryTimeoutError extends Error {
  override readonly name = "QueryTimeoutError";
  constructor(cause: unknown) {
    super("PostgreSQL did not finish the query within its time limit.", { cause });
  }
}

/** Whether a statement ended because it ran into its bound (57014, query_canceled, or the client's own). */
export function isQueryTimeout(error: unknown): boolean {
  return (
    error instanceof Error &&
    (("code" in error && error.code === "57014") || error.message === "Query read timeout")
  );
}

/** SQLSTATEs of a statement that names what the database does not have: a schema, a table, a column, a function. */
const UNDEFINED_CODES: ReadonlySet<string> = new Set(["3F000", "42P01", "42703", "42883"]);

/** Whether a statement named something that the database does not have. */
export function isUndefinedObject(error: unknown): boolean {
  return error instanceof Error && "code" in error && UNDEFINED_CODES.has(String(error.code));
}

/** Whether the role of the connection may not do what a statement asked for (42501, insufficient_privilege). */
export function isDenied(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "42501";
}

/** Whether a key has a row already (23505, unique_violation). */
export function isUniqueViolation(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "23505";
}
