import { type DeadLetter, decodeDeadLetter, deadLetterId } from "#core/dead-letter.ts";
import { type Result } from "#core/reason.ts";
import { encodeUtf8 } from "#core/utf8.ts";

import { readLetter, type SoughtLetter } from "./letter-reader.ts";
import { type Admin, type ReceivedRecord } from "./ports.ts";
import { type Topic } from "./topics.ts";

/** Reads many letters, each once: about in the order in which they were written, so that few fetches bring them all. */
export interface LetterFeed {
  /**
   * Reads a letter. undefined where the dead-letter topic has it no longer: where the place that is known has left the log,
   * no other is searched for, since the index names the latest one. Rejects with a KafkaError where the brokers do not answer.
   */
  read(sought: SoughtLetter): Promise<Result<DeadLetter> | undefined>;
}

/** What a fetch brought: every record of the partition from `from` until before `next`. */
interface Held {
  readonly from: bigint;
  readonly next: bigint;
  readonly records: ReadonlyMap<bigint, ReceivedRecord>;
}

const FETCH_BYTES = 1_048_576;

/** A feed; it holds what the last fetch of each partition brought, about 1 MiB, or a single record batch. */
export function createLetterFeed(
  admin: Pick<Admin, "readFrom" | "readAt" | "findByKey">,
  topic: Pick<Topic, "name" | "partitions">,
): LetterFeed {
  const held = new Map<number, Held>();
  return {
    async read(sought) {
      const { letterPosition: place } = sought;
      if (place === undefined || place.topic !== topic.name) return readLetter(admin, topic, sought);
      let reach = held.get(place.partition);
      if (reach === undefined || place.offset < reach.from || place.offset >= reach.next) {
        const fetched = await admin.readFrom(place, place.offset, FETCH_BYTES);
        if (fetched === undefined) {
          // Rejects where it is held back, by an open transaction, and not gone.
          await admin.readAt(place, place.offset);
          return undefined;
        }
        const records = new Map(fetched.records.map((record) => [record.offset, record]));
        reach = { from: place.offset, next: fetched.next, records };
        held.set(place.partition, reach);
      }
      const record = reach.records.get(place.offset);
      const key = Buffer.from(encodeUtf8(deadLetterId(sought.group, sought)));
      // Compaction has kept a later copy.
      if (record?.key == null || !key.equals(record.key))
        return readLetter(admin, topic, { ...sought, letterPosition: undefined });
      return decodeDeadLetter(record.value ?? new Uint8Array());
    },
  };
}
