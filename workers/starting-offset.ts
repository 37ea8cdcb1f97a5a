import { type LogRange } from "#kafka/ports.ts";
import { type Claim, REFUSED_LOG } from "#postgres/claims.ts";

/** Where a partition is to be read from. */
export type StartingOffset =
  /**
   * `gap`: how many records before the offset this database knows nothing of. They left the log before they were read; or,
   * where there is no checkpoint and Kafka's committed offset decides, they lie on the log still.
   */
  | { readonly outcome: "start"; readonly offset: bigint; readonly gap: bigint }
  /** The log ends below `offset`, for the first time: to be looked at once more. */
  | { readonly outcome: "suspect"; readonly offset: bigint }
  /**
   * It is not the log that was read up to `offset`. Reading on would skip what it holds below. BEYOND_END: it ends, or
   * ended, below `offset`; ANOTHER_TOPIC: its topic was made anew since.
   */
  | { readonly outcome: "failed"; readonly offset: bigint; readonly why: "BEYOND_END" | "ANOTHER_TOPIC" };

/** Decides where partitions are to be read from; it remembers those that are suspect. */
export type FindStart = (claim: Claim, log: LogRange) => StartingOffset;

/**
 * Where a partition is to be read from (design § 2.5): where the checkpoint says, else where Kafka's committed offset
 * says, else at the log's start. Below the log's start it is the start, with a gap. A committed offset without a checkpoint
 * is one too: Weir commits after its checkpoint, so it is another database that knows what became of those records.
 *
 * The partition fails where the topic is not the one that the claim was read from, unless nothing of it was read yet, or where the claim says that its log
 * was refused before: a log that has grown past the checkpoint in the meantime is still another log. Beyond the log's end
 * it fails, too; that takes two sightings in a row, since a leader that was just elected may for a moment not know how far
 * its log is replicated.
 */
export function createFindStart(): FindStart {
  const beyondEnd = new Map<string, string>();
  return (claim, log) => {
    const offset = claim.nextOffset ?? log.committed ?? log.start;
    const key = `${claim.topic}/${claim.partition}`;
    const mark = `${claim.generation}/${offset}`;
    if (claim.logId === REFUSED_LOG) return { outcome: "failed", offset, why: "BEYOND_END" };
    // Of a log of which nothing was read, nothing can be missed.
    const isUnread = offset === 0n && (claim.highWater ?? 0n) === 0n;
    if (!isUnread && claim.logId !== undefined && log.topicId !== undefined && claim.logId !== log.topicId)
      return { outcome: "failed", offset, why: "ANOTHER_TOPIC" };
    if (offset > log.end) {
      if (beyondEnd.get(key) === mark) return { outcome: "failed", offset, why: "BEYOND_END" };
      beyondEnd.set(key, mark);
      return { outcome: "suspect", offset };
    }
    beyondEnd.delete(key);
    if (offset < log.start) return { outcome: "start", offset: log.start, gap: log.start - offset };
    return { outcome: "start", offset, gap: claim.nextOffset === undefined ? offset - log.start : 0n };
  };
}
