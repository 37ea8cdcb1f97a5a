import { type Database } from "./pool.ts";

/** One call of an admin method that writes. */
export interface AuditEntry {
  readonly id: bigint;
  /** When it began, in microseconds since 1970. */
  readonly time: bigint;
  /** The subject of the caller's token. */
  readonly principal: string;
  /** The method's full name. */
  readonly method: string;
  /** The name of what it was about; "" where that is not one thing. */
  readonly resource: string;
  readonly dryRun: boolean;
  /** "STARTED", "OK" or a reason. */
  readonly result: string;
  readonly detail: Readonly<Record<string, unknown>>;
}

/** What is known when a call begins. */
export type StartedEntry = Pick<AuditEntry, "principal" | "method" | "resource" | "dryRun" | "detail">;

/** The result of an entry whose call has not ended, or was cut off. */
const STARTED = "STARTED";

/** Writes the entry of a call that begins, and answers its id once it is durable. */
export async function startEntry(db: Database, entry: StartedEntry): Promise<bigint> {
  const { rows } = await db.pool.query<{ id: string }>({
    text: `insert into admin.audit_entry (principal, method, resource, dry_run, result, detail)
      values ($1, $2, $3, $4, $5, $6) returning id`,
    values: [
      entry.principal,
      entry.method,
      storable(entry.resource),
      entry.dryRun,
      STARTED,
      toJsonb(entry.detail),
    ],
  });
  return BigInt(rows[0]!.id);
}

/** Writes what became of the call; `detail` is added to what its entry has. */
export async function endEntry(
  db: Database,
  id: bigint,
  result: string,
  detail: Readonly<Record<string, unknown>>,
): Promise<void> {
  await db.pool.query({
    text: "update admin.audit_entry set result = $2, detail = detail || $3::jsonb where id = $1",
    values: [id, result, toJsonb(detail)],
  });
}

/** Entries, newest first, at most `limit`, below the id `before` where it is given. */
export async function listEntries(
  db: Database,
  { before, limit }: { readonly before: bigint | undefined; readonly limit: number },
): Promise<readonly AuditEntry[]> {
  const { rows } = await db.pool.query<EntryRow>({
    text: `select id, (extract(epoch from time) * 1000000)::bigint as time, principal, method, resource, dry_run, result, detail
      from admin.audit_entry where ($1::bigint is null or id < $1) order by id desc limit $2`,
    values: [before ?? null, limit],
  });
  return rows.map(({ id, time, dry_run: dryRun, ...row }) => ({
    ...row,
    id: BigInt(id),
    time: BigInt(time),
    dryRun,
  }));
}

interface EntryRow extends Pick<AuditEntry, "principal" | "method" | "resource" | "result" | "detail"> {
  readonly id: string;
  readonly time: string;
  readonly dry_run: boolean;
}

/** What callers write may have what PostgreSQL has in no text: NUL, lone surrogates. */
function storable(text: string): string {
  return text.toWellFormed().replaceAll("\0", "\ufffd");
}

function toJsonb(detail: Readonly<Record<string, unknown>>): string {
  return JSON.stringify(detail, (_, value: unknown) => (typeof value === "string" ? storable(value) : value));
}
