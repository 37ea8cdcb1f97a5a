import { type DeadLetterIdentity, formatDeadLetterName } from "./dead-letter-name.ts";
import { type DeadLetter } from "./dead-letter.ts";
import { type KafkaHeader } from "./kafka-binary.ts";
import { partitionForKey } from "./partition.ts";
import { BATCH_OVERHEAD, recordSize } from "./record-size.ts";
import { type Result } from "./reason.ts";
import { toMicrosWithin } from "./timestamp.ts";
import { encodeUtf8 } from "./utf8.ts";

/** How often a record has been replayed out of the dead-letter topic, a decimal number in a header of the record. */
export const REPLAY_ATTEMPT = "weir-replay-attempt";
/** The header that names the dead letter which a record was replayed from. */
export const REPLAY_OF = "weir-replay-of";

/** How often a record is replayed at most: what has failed four times is for a person. */
export const REPLAY_BUDGET = 3;

/** What the index knows of the record of a dead letter. */
export interface KnownRecord {
  /** Its own timestamp, in microseconds since 1970, brought into the range of times. */
  readonly recordTime: bigint;
  /** Bytes of its value; undefined where it has none. */
  readonly valueSize: number | undefined;
  /** The first bytes of its value. */
  readonly preview: Uint8Array;
}

/**
 * Whether a letter holds the record that the index knows. Whoever may write to the dead-letter topic can write a letter of
 * any name; it agrees with the row that a worker wrote by the record's time, size and first bytes.
 */
export function holdsRecord({ value, timestamp }: DeadLetter, known: KnownRecord): boolean {
  return (
    value?.length === known.valueSize &&
    toMicrosWithin(timestamp) === known.recordTime &&
    known.preview.every((byte, at) => byte === value?.[at])
  );
}

/** A dead letter that is to be replayed, as the index has it. */
export interface ReplayCandidate extends DeadLetterIdentity, KnownRecord {
  /** Which replay of the record it was: 0 as it first came. */
  readonly attempt: number;
  /** How often this letter has been replayed. */
  readonly replays: number;
}

/** What this installation owns, and may therefore write to. */
export interface ReplayOwner {
  readonly group: string;
  /** The topic of the group's records. */
  readonly topic: string;
  readonly partitions: number;
  /** The largest record batch that the topic takes, in bytes. */
  readonly maxMessageBytes: number;
}

/** What can be done with a candidate. */
export type ReplayPlan =
  /** `attempt`: which replay of the record it is, from 1 on. */
  | { readonly action: "REPLAY"; readonly attempt: number }
  | {
      readonly action: "UNDECODABLE" | "FOREIGN_TOPIC" | "BUDGET_EXHAUSTED" | "TOO_LARGE";
      /** For a person. */
      readonly why: string;
    };

/** What can be said without the letter: undefined where that has to be read first. */
export function planByIndex(candidate: ReplayCandidate, owner: ReplayOwner): ReplayPlan | undefined {
  const { group, topic } = candidate;
  if (group === "") {
    const why = "It is a record of the dead-letter topic that is no dead letter of Weir's.";
    return { action: "UNDECODABLE", why };
  }
  if (group !== owner.group || topic !== owner.topic) return foreign(group, topic, owner);
  const attempt = nextAttempt(candidate);
  if (attempt > REPLAY_BUDGET) {
    const why = `The record has been replayed ${attempt - 1} times, and ${REPLAY_BUDGET} is the most.`;
    return { action: "BUDGET_EXHAUSTED", why };
  }
  return undefined;
}

/**
 * What can be done with a candidate whose letter was read: undefined where the topic has it no longer. What the letter
 * says of its origin must be what the index says: nothing is ever published to where a record of the topic alone says.
 */
export function planReplay(
  candidate: ReplayCandidate,
  letter: Result<DeadLetter> | undefined,
  owner: ReplayOwner,
): ReplayPlan {
  const known = planByIndex(candidate, owner);
  if (known !== undefined) return known;
  if (letter === undefined) {
    return { action: "UNDECODABLE", why: "The dead-letter topic has the letter no longer." };
  }
  if (!letter.ok) {
    return { action: "UNDECODABLE", why: `The letter cannot be read: ${letter.faults[0].description}` };
  }
  const { group, position } = letter.value;
  if (group !== owner.group || position.topic !== owner.topic) return foreign(group, position.topic, owner);
  if (position.partition !== candidate.partition || position.offset !== candidate.offset) {
    const why = `The letter is that of another record: ${formatDeadLetterName({ group, ...position })}.`;
    return { action: "UNDECODABLE", why };
  }
  if (!holdsRecord(letter.value, candidate)) {
    const why = "What the dead-letter topic has under its name is not the record that the index knows.";
    return { action: "UNDECODABLE", why };
  }
  const attempt = nextAttempt(candidate);
  const size = recordSize(toReplayRecord(letter.value, attempt, owner)) + BATCH_OVERHEAD;
  if (size > owner.maxMessageBytes) {
    const why = `With the headers of a replay the record takes ${size} bytes, and topic ${owner.topic} takes ${owner.maxMessageBytes}.`;
    return { action: "TOO_LARGE", why };
  }
  return { action: "REPLAY", attempt };
}

function nextAttempt({ attempt, replays }: ReplayCandidate): number {
  return attempt + replays + 1;
}

function foreign(group: string, topic: string, owner: ReplayOwner): ReplayPlan {
  const why =
    `The record is of topic ${topic} and group ${group}; this server replays to ${owner.topic} alone, ` +
    `what ${owner.group} failed on.`;
  return { action: "FOREIGN_TOPIC", why };
}

/**
 * Steps in the order of replaying their letters: as they are given, but those of one partition in the order of the log. For
 * they were set aside in another: of a batch what cannot be read before what cannot be stored.
 */
export function inReplayOrder<T extends { readonly letter: DeadLetterIdentity }>(steps: readonly T[]): T[] {
  const keyOf = ({ letter: { topic, partition } }: T): string => `${topic}/${partition}`;
  const queues = Map.groupBy(steps, keyOf);
  for (const queue of queues.values()) queue.sort((a, b) => (a.letter.offset < b.letter.offset ? -1 : 1));
  return steps.map((step) => queues.get(keyOf(step))!.shift()!);
}

/** A record to publish again. */
export interface ReplayRecord {
  readonly partition: number;
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly headers: readonly KafkaHeader[];
}

/**
 * The record of a letter, to be published again: its key, value and headers as they came, with the headers of this
 * replay in place of those of an earlier one. It goes to the partition of its key; without a key to the one it was on.
 */
export function toReplayRecord(letter: DeadLetter, attempt: number, owner: ReplayOwner): ReplayRecord {
  const { group, position, key, value, headers } = letter;
  const own = headers.filter(([name]) => name !== REPLAY_ATTEMPT && name !== REPLAY_OF);
  return {
    partition: key === null ? position.partition % owner.partitions : partitionForKey(key, owner.partitions),
    key,
    value,
    headers: [
      ...own,
      [REPLAY_ATTEMPT, encodeUtf8(String(attempt))],
      [REPLAY_OF, encodeUtf8(formatDeadLetterName({ group, ...position }))],
    ],
  };
}
