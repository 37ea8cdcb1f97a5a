import { type DeadLetter, decodeDeadLetter, deadLetterId } from "#core/dead-letter.ts";
import { type LogPosition } from "#core/event.ts";
import { partitionFor } from "#core/partition.ts";
import { type ReplayOwner, toReplayRecord } from "#core/replay.ts";
import { type Result } from "#core/reason.ts";
import { encodeUtf8 } from "#core/utf8.ts";

import { type Admin, type OutgoingRecord, type ReceivedRecord } from "./ports.ts";
import { type Topic } from "./topics.ts";

/** What is known of a letter that is to be read. */
export interface SoughtLetter extends LogPosition {
  /** The group that failed on the record, whose place is topic, partition and offset. */
  readonly group: string;
  /** Where the letter is, where that is known. */
  readonly letterPosition: LogPosition | undefined;
  /** When it was written, about, in milliseconds since 1970. */
  readonly writtenAt: number;
}

/** How long before the time that the index has for a letter its record may have been written, in milliseconds. */
const CLOCK_DIFFERENCE_MS = 60_000;
/** How many records are looked at for a letter that is not where it was. */
const MAX_SEARCHED = 20_000;

/**
 * Reads a letter from the dead-letter topic: where it is, and where it is not there (its place is not known, or compaction
 * has kept a second copy), by its key among the records of its partition from its time on, 20,000 of them at most.
 * undefined where it is not found. Rejects with a KafkaError where the brokers do not answer.
 */
export async function readLetter(
  admin: Pick<Admin, "readAt" | "findByKey">,
  topic: Pick<Topic, "name" | "partitions">,
  sought: SoughtLetter,
): Promise<Result<DeadLetter> | undefined> {
  const id = deadLetterId(sought.group, sought);
  const key = Buffer.from(encodeUtf8(id));
  const { letterPosition: place } = sought;
  const there = place && (await admin.readAt(place, place.offset));
  const found =
    there?.key && key.equals(there.key)
      ? there
      : await admin.findByKey({ topic: topic.name, partition: partitionFor(id, topic.partitions) }, key, {
          since: Math.max(0, sought.writtenAt - CLOCK_DIFFERENCE_MS),
          maxRecords: MAX_SEARCHED,
        });
  return found && toLetter(found);
}

function toLetter({ value }: ReceivedRecord): Result<DeadLetter> {
  return decodeDeadLetter(value ?? new Uint8Array());
}

/**
 * The record of a letter, to be published again to the topic of its owner. It keeps its timestamp, unless the log would
 * soon drop it for its age: then half of the topic's retention is left to it. (When its event was accepted, a header says.)
 */
export function replayRecord(
  letter: DeadLetter,
  attempt: number,
  owner: ReplayOwner,
  retentionMs: number,
): OutgoingRecord {
  return {
    topic: owner.topic,
    ...toReplayRecord(letter, attempt, owner),
    timestamp: Math.max(letter.timestamp, Math.ceil(Date.now() - retentionMs / 2)),
  };
}
