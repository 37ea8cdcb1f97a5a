import { parseFilter } from "#core/filter/parse.ts";
import { type ReplayOwner, type ReplayPlan, inReplayOrder, planByIndex, planReplay } from "#core/replay.ts";
import { createLetterFeed } from "#kafka/letter-feed.ts";
import { replayRecord } from "#kafka/letter-reader.ts";
import { type Admin, type OutgoingRecord } from "#kafka/ports.ts";
import { type Topic } from "#kafka/topics.ts";
import { type IndexedLetter, type LetterCursor, selectLetters } from "#postgres/dead-letters.ts";
import { type Database } from "#postgres/pool.ts";
import { type Redrive } from "#postgres/redrives.ts";

/** What cutting a redrive into chunks needs. */
export interface ChunkOptions {
  readonly db: Database;
  readonly admin: Pick<Admin, "readFrom" | "readAt" | "findByKey">;
  /** The dead-letter topic. */
  readonly letters: Pick<Topic, "name" | "partitions">;
  /** The only group and topic that anything is replayed for. */
  readonly owner: ReplayOwner;
  /** How long the topic of the events keeps a record, in milliseconds. */
  readonly retentionMs: number;
}

/** A letter with what can be done with it. */
export type ChunkStep = { readonly letter: IndexedLetter } & (
  | { readonly action: "REPLAY"; readonly attempt: number; readonly record: OutgoingRecord }
  | { readonly action: Exclude<ReplayPlan["action"], "REPLAY"> }
);

/** A stretch of a redrive. */
export interface Chunk {
  /** In the order of publishing: possibly none. */
  readonly steps: readonly ChunkStep[];
  /** Its last letter in the order of the selection; where it has none, that of the chunk before. */
  readonly cursor: LetterCursor | undefined;
  /** The redrive ends with it. */
  readonly isLast: boolean;
}

/** The most letters of a chunk, and about the most that they hold, in bytes: one letter more may come on top. */
const CHUNK_LETTERS = 500;
const CHUNK_BYTES = 8 * 1024 * 1024;
/** How many letters of the index are read at once. */
const PAGE_LETTERS = 5_000;
/** How long the index is looked through at once, in milliseconds. */
const SCAN_MS = 5_000;

/**
 * A redrive in chunks from its cursor on: the letters that ReplayDeadLetters would choose, the oldest first, up to the
 * redrive's snapshot. Each chunk is read and planned when it is asked for. Throws what the database or Kafka throw; then
 * begin anew.
 */
export async function* chunksOf(
  { db, admin, letters, owner, retentionMs }: ChunkOptions,
  redrive: Redrive,
): AsyncGenerator<Chunk> {
  const feed = createLetterFeed(admin, letters);
  const most = Math.min(CHUNK_LETTERS, redrive.maxPerSecond);

  async function plan(letter: IndexedLetter): Promise<{ step: ChunkStep; bytes: number }> {
    const known = planByIndex(letter, owner);
    if (known !== undefined && known.action !== "REPLAY")
      return { step: { letter, action: known.action }, bytes: 0 };
    const read = await feed.read({ ...letter, writtenAt: Number(letter.time / 1_000n) });
    const judged = planReplay(letter, read, owner);
    if (judged.action !== "REPLAY" || !read?.ok)
      return {
        step: { letter, action: judged.action === "REPLAY" ? "UNDECODABLE" : judged.action },
        bytes: 0,
      };
    const record = replayRecord(read.value, judged.attempt, owner, retentionMs);
    return { step: { letter, action: "REPLAY", attempt: judged.attempt, record }, bytes: sizeOf(record) };
  }

  const filter = parseFilter(redrive.filter);
  if (!filter.ok) throw new Error(`The redrive's filter cannot be read: ${filter.faults[0].description}`);
  let cursor = redrive.cursor;
  for (let isLast = false; !isLast;) {
    const page = await selectLetters(db, {
      group: owner.group,
      letterTopic: letters.name,
      order: "oldest",
      reason: redrive.reason,
      filter: filter.value,
      now: Number(redrive.snapshotTime / 1_000n),
      unreplayed: true,
      after: cursor,
      limit: PAGE_LETTERS,
      until: performance.now() + SCAN_MS,
    });
    const taken = page.letters.filter(({ time }) => time < redrive.snapshotTime);
    isLast = page.next === undefined || taken.length < page.letters.length;
    for (let at = 0; at < taken.length;) {
      const steps: ChunkStep[] = [];
      let bytes = 0;
      while (at < taken.length && steps.length < most && bytes < CHUNK_BYTES) {
        const planned = await plan(taken[at]!);
        steps.push(planned.step);
        bytes += planned.bytes;
        at += 1;
      }
      cursor = cursorOf(steps.at(-1)!.letter);
      if (at < taken.length) yield { steps: inReplayOrder(steps), cursor, isLast: false };
      else {
        if (!isLast) cursor = page.next;
        yield { steps: inReplayOrder(steps), cursor, isLast };
      }
    }
    if (taken.length === 0) {
      if (!isLast) cursor = page.next;
      yield { steps: [], cursor, isLast };
    }
  }
}

function cursorOf({ time, topic, partition, offset }: IndexedLetter): LetterCursor {
  return { time, topic, partition, offset };
}

/** A record without its value may be as large by its headers. */
function sizeOf({ key, value, headers }: OutgoingRecord): number {
  const own = (key?.length ?? 0) + (value?.length ?? 0);
  return headers.reduce((sum, [name, bytes]) => sum + name.length + (bytes?.length ?? 0), own);
}
