import { type StoredEvent } from "#core/event.ts";

import { insertEvents } from "./events.ts";
import { classify } from "./failures.ts";
import { type Database } from "./pool.ts";
import { transaction, type Tx } from "./tx.ts";

/**
 * Which events PostgreSQL refuses for their own sake, each with its error: those of which an insert alone fails as "data".
 * Tries them in one transaction that leaves nothing behind, all together and then by halves of what is refused, so that it
 * makes no difference in time where they are. The signal ends it between two statements.
 *
 * @throws what PostgreSQL or the connection said otherwise.
 */
export async function findRefused(
  db: Database,
  events: readonly StoredEvent[],
  signal: AbortSignal,
): Promise<ReadonlyMap<StoredEvent, Error>> {
  const refused = new Map<StoredEvent, Error>();

  async function tryAll(tx: Tx, part: readonly StoredEvent[]): Promise<void> {
    signal.throwIfAborted();
    await tx.query({ text: "savepoint tried" });
    try {
      await insertEvents(tx, part);
      await tx.query({ text: "release savepoint tried" });
    } catch (error) {
      if (classify(error) !== "data" || !(error instanceof Error)) throw error;
      // Of the outer savepoints of this name the innermost counts.
      await tx.query({ text: "rollback to savepoint tried; release savepoint tried" });
      if (part.length === 1) {
        refused.set(part[0]!, error);
        return;
      }
      const middle = part.length >> 1;
      await tryAll(tx, part.slice(0, middle));
      await tryAll(tx, part.slice(middle));
    }
  }

  await transaction(db, async (tx) => {
    await tx.query({ text: "savepoint nothing" });
    await tryAll(tx, events);
    await tx.query({ text: "rollback to savepoint nothing" });
  });
  return refused;
}
