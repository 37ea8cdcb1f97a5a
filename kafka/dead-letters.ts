import { type DeadLetterReason, encodeDeadLetter } from "#core/dead-letter.ts";
import { type LogPosition } from "#core/event.ts";
import { partitionFor } from "#core/partition.ts";
import { REPLAY_ATTEMPT } from "#core/replay.ts";
import { timestampFrom } from "#core/timestamp.ts";
import { decodeUtf8 } from "#core/utf8.ts";

import { KafkaError, type Producer, type ReceivedRecord } from "./ports.ts";
import { type Topic } from "./topics.ts";

/** What writing dead letters needs. */
export interface DeadLetterOptions {
  readonly producer: Producer;
  /** The dead-letter topic. */
  readonly topic: Pick<Topic, "name" | "partitions">;
  /** The consumer group that fails on records. */
  readonly group: string;
}

/** What is known of a dead letter that is durable. */
export interface LetterReceipt {
  /** Where the letter stands in the dead-letter topic. */
  readonly position: LogPosition;
  /** The letter's time, in milliseconds since 1970. */
  readonly time: number;
  /** Which replay of a record the record was: 0 for one as it first came. */
  readonly attempt: number;
}

/**
 * Sets a record aside: resolves once its dead letter is durable in the dead-letter topic, rejects with a KafkaError where
 * that is not certain (it may then be there twice, under the same key). `detail` says what was wrong, for a person.
 */
export type SetAside = (
  record: ReceivedRecord,
  reason: DeadLetterReason,
  detail: string,
  signal?: AbortSignal,
) => Promise<LetterReceipt>;

/** Writes the dead letters of a consumer group (design § 9). */
export function createDeadLetters({ producer, topic, group }: DeadLetterOptions): SetAside {
  return async (record, reason, detail, signal) => {
    const { topic: from, partition, offset, timestamp, key, headers, value } = record;
    const now = Date.now();
    const attempt = replaysOf(record);
    const letter = encodeDeadLetter({
      reason,
      detail,
      group,
      position: { topic: from, partition, offset },
      timestamp,
      attempt,
      key,
      headers,
      value,
      time: timestampFrom(Math.floor(now / 1_000), (now % 1_000) * 1_000_000),
    });
    const result = await producer.publish(
      {
        topic: topic.name,
        partition: partitionFor(letter.id, topic.partitions),
        key: letter.key,
        value: letter.value,
        headers: letter.headers,
        timestamp: now,
      },
      signal,
    );
    if (result.outcome === "acknowledged") return { position: result.position, time: now, attempt };
    throw new KafkaError(
      `The dead letter of ${letter.id} is not known to be in ${topic.name}: ${result.detail}`,
    );
  };
}

function replaysOf({ headers }: ReceivedRecord): number {
  const value = headers.find(([name]) => name === REPLAY_ATTEMPT)?.[1];
  const text = value ? decodeUtf8(value) : undefined;
  return text !== undefined && /^\d{1,6}$/.test(text) ? Number(text) : 0;
}
