import { type LogPosition, type StoredEvent } from "#core/event.ts";
import { type Result } from "#core/reason.ts";
import { REPLAY_OF } from "#core/replay.ts";
import { type Admin, KafkaError, type LogRange } from "#kafka/ports.ts";
import { decodeRecord } from "#kafka/record.ts";
import { abortable } from "../http/deadlines.ts";
import { type Turns } from "../turns.ts";

/** What asking the log needs. */
export interface LogOptions {
  readonly admin: Pick<Admin, "logRanges" | "readAt">;
  /** The only topic that is read, and its partitions. */
  readonly topic: string;
  readonly partitions: number;
  /** How many journeys ask at once. */
  readonly turns: Turns;
}

/** The log as one call asks it, for 5 s in all. */
export interface LogLook {
  /** The record at a place. */
  recordAt(position: LogPosition): Promise<LogAnswer>;
  /** The ends of the partitions; undefined where they could not be found out. */
  ranges(): Promise<Ranges | undefined>;
}

/** By partition. */
export type Ranges = ReadonlyMap<number, Pick<LogRange, "start" | "end">>;

/** What the log says of a place. */
export interface LogAnswer {
  /** undefined where there is none, and where that could not be found out. */
  readonly record: LogRecord | undefined;
  /** Why it could not be found out, as the end of a sentence. */
  readonly why?: string;
  /** Another time it may be. */
  readonly isPassing?: boolean;
}

/** A record of the log. */
export interface LogRecord {
  readonly event: Result<StoredEvent>;
  /** It was published out of a dead letter. */
  readonly isReplay: boolean;
}

const MOST_MS = 5_000;

/** Looks at the log for one call. Rejects with the reason of the signal where that is raised. */
export function lookAtLog({ admin, topic, partitions, turns }: LogOptions, signal: AbortSignal): LogLook {
  let limit: AbortSignal | undefined;
  const ask = async <T>(question: () => Promise<T>): Promise<{ readonly value: T } | string> => {
    limit ??= AbortSignal.timeout(MOST_MS);
    const either = AbortSignal.any([signal, limit]);
    try {
      using turn = await turns.take(either);
      if (turn === undefined) return "as many journeys ask Kafka as this server allows";
      return { value: await abortable(question(), either) };
    } catch (error) {
      signal.throwIfAborted();
      if (limit.aborted) return "Kafka did not answer in time";
      if (error instanceof KafkaError) return "Kafka cannot be reached";
      throw error;
    }
  };
  return {
    async recordAt(position) {
      if (position.topic !== topic || position.partition >= partitions)
        return {
          record: undefined,
          why: `this server reads ${topic} alone, partitions 0 to ${partitions - 1}`,
        };
      const answer = await ask(() => admin.readAt(position, position.offset));
      if (typeof answer === "string") return { record: undefined, why: answer, isPassing: true };
      const record = answer.value;
      if (record === undefined) return { record };
      const isReplay = record.headers.some(([name]) => name === REPLAY_OF);
      return { record: { event: decodeRecord(record), isReplay } };
    },
    async ranges() {
      const answer = await ask(() => admin.logRanges(topic));
      return typeof answer === "string" ? undefined : answer.value;
    },
  };
}
