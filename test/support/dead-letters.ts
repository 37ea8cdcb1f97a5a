import { deadLetterId, encodeDeadLetter } from "#core/dead-letter.ts";
import { partitionFor } from "#core/partition.ts";
import { timestampFrom } from "#core/timestamp.ts";
import { type OutgoingRecord, type Producer } from "#kafka/ports.ts";
import { insertDeadLetters, type SetAsideRecord } from "#postgres/accounting.ts";
import { type Database } from "#postgres/pool.ts";
import { transaction } from "#postgres/tx.ts";

/** Where letters are to be made. */
export interface LetterPlace {
  readonly db: Database;
  /** Of the dead-letter topic. */
  readonly producer: Pick<Producer, "publish">;
  readonly group: string;
  /** The topic that the records are said to come from. */
  readonly events: string;
  readonly deadLetters: string;
  readonly deadLettersPartitions: number;
}

const PART = 1_000;

/**
 * Makes dead letters of records, as a worker does that cannot store them: each durable in the dead-letter topic, then in
 * the index. The records are said to stand at offsets from `firstOffset` on, of partition 0, and were set aside a
 * millisecond one after the other, up to now.
 */
export async function makeDeadLetters(
  { db, producer, group, events, deadLetters, deadLettersPartitions }: LetterPlace,
  records: readonly OutgoingRecord[],
  firstOffset = 0n,
): Promise<void> {
  const began = Date.now() - records.length;
  for (let at = 0; at < records.length; at += PART) {
    const part = records.slice(at, at + PART).map(async (record, index): Promise<SetAsideRecord> => {
      const position = { topic: events, partition: 0, offset: firstOffset + BigInt(at + index) };
      const time = began + at + index;
      const known = { reason: "UNPERSISTABLE", detail: "made by a test", attempt: 0 } as const;
      const letter = encodeDeadLetter({
        ...known,
        ...record,
        group,
        position,
        time: timestampFrom(Math.floor(time / 1_000), (time % 1_000) * 1_000_000),
      });
      const result = await producer.publish({
        topic: deadLetters,
        partition: partitionFor(deadLetterId(group, position), deadLettersPartitions),
        key: letter.key,
        value: letter.value,
        headers: letter.headers,
        timestamp: time,
      });
      if (result.outcome !== "acknowledged") throw new Error(`not published: ${result.detail}`);
      const { value, timestamp: recordTime } = record;
      return {
        ...known,
        position,
        time,
        recordTime,
        value,
        event: undefined,
        principal: "alice",
        letter: result.position,
      };
    });
    const setAside = await Promise.all(part);
    await transaction(db, (tx) => insertDeadLetters(tx, group, setAside));
  }
}
