import { type Database } from "./pool.ts";
import { transaction } from "./tx.ts";

/** What merging the pending lists of the term index came to. */
export interface Merged {
  /** Bytes of pending list that were merged; a search reads all of what is pending. */
  readonly bytes: number;
}

const PAGE_BYTES = 8_192;

// The indexes of the partitions; one that is detached or dropped meanwhile is looked for again in the next round.
const INDEXES = `
select inhrelid::regclass::text as name from pg_inherits where inhparent = 'events.event_terms_idx'::regclass`;

/**
 * Moves what inserts have left in the pending lists of the term index into the index itself, partition by partition, in their
 * order on disk; what comes in meanwhile waits for the next call. undefined where another process is at it. Needs the owner's
 * rights. One that is broken off by the statement timeout has not worked in vain: what was merged stays merged.
 */
export async function mergeTerms(db: Database): Promise<Merged | undefined> {
  return transaction(db, async (tx) => {
    const lock = await tx.query<{ held: boolean }>({
      text: "select pg_try_advisory_xact_lock(hashtext('weir.terms')) as held",
    });
    if (!lock.rows[0]!.held) return undefined;
    const indexes = await tx.query<{ name: string }>({ text: INDEXES });
    let bytes = 0;
    for (const { name } of indexes.rows) {
      const { rows } = await tx.query<{ pages: string }>({
        name: "terms.merge",
        text: "select gin_clean_pending_list($1::regclass) as pages",
        values: [name],
      });
      bytes += Number(rows[0]!.pages) * PAGE_BYTES;
    }
    return { bytes };
  });
}
