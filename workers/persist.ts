import { type SetAside } from "#kafka/dead-letters.ts";
import { type ConsumerHandler, type LogRange, type TopicPartition } from "#kafka/ports.ts";
import { type Claim, REFUSED_LOG, setLog, takeOver } from "#postgres/claims.ts";
import { type Database } from "#postgres/pool.ts";
import { createProgressHints } from "#postgres/progress-hints.ts";
import { type Logger } from "#runtime/log.ts";
import { type Telemetry } from "#runtime/telemetry.ts";

import { createBatchStore } from "./batch-store.ts";
import { FencedError } from "./fenced.ts";
import { describeFailed, type FailedPartition } from "./failed-partitions.ts";
import { createFindStart } from "./starting-offset.ts";

/** What storing the events topic needs. */
export interface PersistOptions {
  readonly db: Database;
  readonly setAside: SetAside;
  /** The consumer group. */
  readonly group: string;
  /** Who takes partitions over, for people to read: a host and a process. */
  readonly owner: string;
  readonly telemetry: Telemetry;
  readonly log: Logger;
}

/** How far a partition of this member has come. */
export type Progress = TopicPartition & {
  /** What is below it is accounted for; undefined where that is not known. */
  readonly nextOffset: bigint | undefined;
} & (
    | { readonly state: "assigned" }
    /** It is tried again by itself. */
    | { readonly state: "stopped" }
    /** Nothing is read until a person has put the checkpoint right. */
    | { readonly state: "failed"; readonly failure: FailedPartition }
  );

/** Work for a partition that is under way. */
export interface Underway extends TopicPartition {
  /** The offset from which records wait for it; undefined: the partition is being taken over. */
  readonly from: bigint | undefined;
  /** When it began, in milliseconds since 1970. */
  readonly since: number;
}

/** The effects of consuming the events topic. */
export interface Persist extends ConsumerHandler {
  /** What PostgreSQL, or the dead-letter topic, is being waited for, with all tries of it. */
  readonly underway: readonly Underway[];
  /** Every partition that is this member's now. */
  readonly progress: readonly Progress[];
}

/**
 * Stores what is on the log: each batch becomes rows and a checkpoint in one transaction, and only then is its offset
 * committed (design § 2.4 to 2.7). A partition's claim is first taken over in the database, so that a former owner can
 * write no more. Whoever waits for what is stored is given a hint after each transaction.
 */
export function createPersist(options: PersistOptions): Persist {
  const { db, group, owner, telemetry, log } = options;
  const store = createBatchStore({ ...options, hints: createProgressHints(db, log) });
  const findStart = createFindStart();
  const claims = new Map<string, Claim>();
  const progress = new Map<string, Progress>();
  const underway = new Map<string, Underway>();

  async function during<T>(
    { topic, partition }: TopicPartition,
    from: bigint | undefined,
    work: () => Promise<T>,
  ): Promise<T> {
    const key = keyOf({ topic, partition });
    underway.set(key, { topic, partition, from, since: Date.now() });
    try {
      return await work();
    } finally {
      underway.delete(key);
    }
  }

  /** Counts what this database knows nothing of and moves the checkpoint past it, so that it is counted once. */
  async function passGap(claim: Claim, range: LogRange, start: bigint, gap: bigint): Promise<void> {
    const { topic, partition, nextOffset: checkpoint } = claim;
    const { start: logStart, committed } = range;
    const what =
      start > logStart
        ? `This database has no checkpoint, and Kafka says that the group has read on: the records before it may be in another database. To store them here too: ${REWIND}`
        : "Records left the log before they were stored: they are lost to the store";
    log.error(what, { topic, partition, records: gap, checkpoint, committed, logStart });
    const kind = start > logStart ? "ELSEWHERE" : "LOST";
    await store.skip(claim, { from: start - gap, to: start, kind });
    telemetry.count("weir.persist.gaps", { topic }, Number(gap));
  }

  async function noteLog(claim: Claim, logId: string): Promise<void> {
    if (!(await setLog(db, claim, logId))) throw new FencedError(claim);
  }

  /** Does what moves the checkpoint of a partition, and notes where it came to. */
  async function advance(
    { topic, partition }: TopicPartition,
    work: (claim: Claim, from: bigint) => Promise<bigint>,
  ): Promise<void> {
    const key = keyOf({ topic, partition });
    const claim = claims.get(key);
    const from = progress.get(key)?.nextOffset;
    if (claim === undefined || from === undefined) throw new Error(`${key} was not taken over`);
    try {
      progress.set(key, {
        topic,
        partition,
        state: "assigned",
        nextOffset: await during(claim, from, () => work(claim, from)),
      });
    } catch (error) {
      // It is taken over anew before anything else of it is read.
      claims.delete(key);
      progress.set(key, { topic, partition, state: "stopped", nextOffset: progress.get(key)?.nextOffset });
      throw error;
    }
  }

  return {
    get progress() {
      return [...progress.values()];
    },
    get underway() {
      return [...underway.values()];
    },

    async assigned({ topic, partition }, range) {
      const key = keyOf({ topic, partition });
      claims.delete(key);
      // One that failed is so until it is seen to be well: it is looked at again and again.
      const isFailed = progress.get(key)?.state === "failed";
      const stopAt = (nextOffset: bigint | undefined): void => {
        if (!isFailed) progress.set(key, { topic, partition, state: "stopped", nextOffset });
      };
      stopAt(progress.get(key)?.nextOffset);
      const claim = await during({ topic, partition }, undefined, () =>
        takeOver(db, { group, topic, partition, owner }),
      );
      stopAt(claim.nextOffset);
      const start = findStart(claim, range);
      if (start.outcome === "suspect") {
        throw new Error(
          `${key} was to be read from ${start.offset}, beyond the log's end ${range.end}: looking once more`,
        );
      }
      if (start.outcome === "failed") {
        const failure: FailedPartition = {
          group,
          topic,
          partition,
          offset: start.offset,
          by: claim.nextOffset === undefined ? "committed" : "checkpoint",
          why: start.why,
          logStart: range.start,
          logEnd: range.end,
        };
        progress.set(key, { topic, partition, state: "failed", failure, nextOffset: claim.nextOffset });
        // For whoever takes it over next, when the log may have grown past the checkpoint.
        if (start.why === "BEYOND_END" && claim.logId !== REFUSED_LOG) await noteLog(claim, REFUSED_LOG);
        log.error("A partition failed: its checkpoint is not of its log", {
          topic,
          partition,
          checkpoint: claim.nextOffset,
          committed: range.committed,
          logEnd: range.end,
          why: start.why,
        });
        throw new Error(describeFailed([failure]));
      }
      if (range.topicId !== undefined && claim.logId !== range.topicId) await noteLog(claim, range.topicId);
      if (start.gap > 0n) await passGap(claim, range, start.offset, start.gap);
      claims.set(key, claim);
      progress.set(key, { topic, partition, state: "assigned", nextOffset: start.offset });
      return start.offset;
    },

    records: (where, records, signal) =>
      advance(where, (claim, from) => store.store(claim, from, records, signal)),

    passed: (where, nextOffset) =>
      advance(where, async (claim, from) => {
        await store.skip(claim, { from, to: nextOffset, kind: "NO_RECORD" });
        return nextOffset;
      }),

    revoked(partition) {
      claims.delete(keyOf(partition));
      progress.delete(keyOf(partition));
    },
  };
}

const REWIND =
  "delete from consumer.skip where kind = 'ELSEWHERE' and …; " +
  "update consumer.checkpoint set next_offset = <the log's start>, generation = generation + 1 where …; " +
  "what is stored already is absorbed.";

function keyOf({ topic, partition }: TopicPartition): string {
  return `${topic}/${partition}`;
}
