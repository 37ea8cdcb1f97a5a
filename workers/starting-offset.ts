import { type LogRange } from "#kafka/ports.ts";
import { type Claim } from "#postgres/claims.ts";

/** Where a partition is to be read from. */
export type StartingOffset =
  /**
   * `gap`: how many records before the offset this database knows nothing of. They left the log before they were read; or,
   * where there is no checkpoint and Kafka's committed offset decides, they lie on the log still.
   */
  | { readonly outcome: "start"; readonly offset: bigint; readonly gap: bigint }
  /** The log ends below `offset`, for the first time: to be looked at once more. */
  | { readonly outcome: "suspect"; readonly offset: bigint }
  /** It is not the log that was read up to `offset`. Reading on would skip what it holds below. */
  | { readonly outcome: "failed"; readonly offset: bigint };

/** Decides where partitions are to be read from; it remembers those that failed. */
export type FindStart = (claim: Claim, log: LogRange) => StartingOffset;

/**
 * Where a partition is to be read from (design § 2.5): where the checkpoint says, else where Kafka's committed offset
 * says, else at the log's start. Below the log's start it is the start, with a gap. A committed offset without a checkpoint
 * is one too: Weir commits after its checkpoint, so it is another database that knows what became of those records.
 *
 * Beyond the log's end the partition fails, and stays so while the checkpoint is the same: a log that has grown past it
 * in the meantime is still another log. It takes two sightings in a row, since a leader that was just elected may for a
 * moment not know how far its log is replicated.
 */
export function createFindStart(): FindStart {
  const beyondEnd = new Map<string, { readonly mark: string; readonly failed: boolean }>();
  return (claim, log) => {
    const offset = claim.nextOffset ?? log.committed ?? log.start;
    const key = `${claim.topic}/${claim.partition}`;
    const mark = `${claim.generation}/${offset}`;
    const before = beyondEnd.get(key);
    if (before?.mark === mark && before.failed) return { outcome: "failed", offset };
    if (offset > log.end) {
      const failed = before?.mark === mark;
      beyondEnd.set(key, { mark, failed });
      return { outcome: failed ? "failed" : "suspect", offset };
    }
    beyondEnd.delete(key);
    if (offset < log.start) return { outcome: "start", offset: log.start, gap: log.start - offset };
    return { outcome: "start", offset, gap: claim.nextOffset === undefined ? offset - log.start : 0n };
  };
}
