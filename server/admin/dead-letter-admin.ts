import { Code, type ConnectError, type ServiceImpl } from "@connectrpc/connect";
import { parseDeadLetterName } from "#core/dead-letter-name.ts";
import { quote } from "#core/faults.ts";
import { holdsRecord } from "#core/replay.ts";
import { type DeadLetterAdminService } from "#gen/weir/admin/v1/dead_letter_pb.ts";
import { readLetter } from "#kafka/letter-reader.ts";
import { type Admin, KafkaError } from "#kafka/ports.ts";
import { countLetters, findLetters, type IndexedLetter, selectLetters } from "#postgres/dead-letters.ts";
import { type InTurn } from "./admin-turns.ts";
import { readChoice, refuseFaults } from "./dead-letter-choice.ts";
import { type RecordParts, toDeadLetterMessage } from "./dead-letter-wire.ts";
import { failureOf, toConnectError } from "../errors.ts";
import { readPageSize } from "../page-size.ts";
import { createRedrives } from "./redrives.ts";
import { createReplay, type ReplayOptions } from "./replay.ts";

/** What DeadLetterAdminService needs. */
export interface DeadLetterAdminOptions extends ReplayOptions {
  readonly admin: Pick<Admin, "logRanges" | "readAt" | "findByKey">;
  readonly inTurn: InTurn;
}

/** weir.admin.v1.DeadLetterAdminService: the index in PostgreSQL, the letters in Kafka. */
export function createDeadLetterAdmin(
  options: DeadLetterAdminOptions,
): ServiceImpl<typeof DeadLetterAdminService> {
  const { database, admin, inTurn, owner, letters } = options;
  return {
    getDeadLetterDepth: ({ topic }, { signal }) =>
      inTurn(signal, () => depth(options, topic === "" ? owner.topic : topic)),

    async listDeadLetters({ filter, reason, pageSize, pageToken }, { signal }) {
      const size = readPageSize(pageSize);
      const choice = readChoice({ filter, reason, pageToken, order: "newest" });
      refuseFaults([...size.faults, ...choice.faults]);
      return inTurn(signal, async () => {
        const until = performance.now() + options.scanMs;
        const page = await selectLetters(database, {
          ...choice.value,
          group: owner.group,
          letterTopic: letters.name,
          unreplayed: false,
          limit: size.value,
          until,
        });
        return {
          deadLetters: page.letters.map((letter) => toDeadLetterMessage(letter)),
          scanned: BigInt(page.scanned),
          truncated: page.truncated,
          nextPageToken: choice.tokenAfter(page.next),
        };
      });
    },

    async getDeadLetter({ name }, { signal }) {
      const identity = parseDeadLetterName(name);
      if (!identity.ok) throw toConnectError(failureOf(identity.faults));
      return inTurn(signal, async () => {
        const [letter] = await findLetters(database, [identity.value]);
        if (letter === undefined) throw notFound(name);
        const record = await recordOf(admin, letters, letter);
        if (typeof record === "string") throw goneFromTopic(letter, record);
        return { deadLetter: toDeadLetterMessage(letter, record) };
      });
    },

    replayDeadLetters: createReplay(options),
    ...createRedrives(options),
  };
}

async function depth({ database, admin, owner, letters }: DeadLetterAdminOptions, topic: string) {
  const isKnown = !topic.includes("\0");
  const counted = isKnown
    ? await countLetters(database, { group: owner.group, topic, letterTopic: letters.name })
    : { partitions: [], foreign: 0n };
  if (topic !== owner.topic && counted.partitions.length === 0) {
    throw toConnectError({
      code: Code.NotFound,
      reason: "DEAD_LETTER_NOT_FOUND",
      message: `There is no dead letter of a topic ${quote(topic)}; the topic of the events is ${owner.topic}.`,
    });
  }
  const byPartition = new Map(counted.partitions.map((each) => [each.partition, each]));
  const listed =
    topic === owner.topic
      ? [
          ...new Set([
            ...Array.from({ length: owner.partitions }, (_, index) => index),
            ...byPartition.keys(),
          ]),
        ]
      : [...byPartition.keys()];
  const partitions = listed.map((partition) => {
    const { letters: count = 0n, replayed = 0n } = byPartition.get(partition) ?? {};
    return { partition, deadLetters: count, replayed };
  });
  const held = await heldBy(admin, letters.name);
  return {
    topic,
    partitions,
    total: partitions.reduce((sum, { deadLetters }) => sum + deadLetters, 0n),
    replayed: partitions.reduce((sum, { replayed }) => sum + replayed, 0n),
    foreign: counted.foreign,
    letterTopic: letters.name,
    ...(held !== undefined && { letterTopicRecords: held }),
  };
}

async function heldBy(admin: Pick<Admin, "logRanges">, topic: string): Promise<bigint | undefined> {
  try {
    const ranges = await admin.logRanges(topic);
    return [...ranges.values()].reduce((sum, { start, end }) => sum + end - start, 0n);
  } catch (error) {
    if (error instanceof KafkaError) return undefined;
    throw error;
  }
}

/** The record of a letter, or why it cannot be had. */
async function recordOf(
  admin: Pick<Admin, "readAt" | "findByKey">,
  topic: ReplayOptions["letters"],
  letter: IndexedLetter,
): Promise<RecordParts | string> {
  const gone = `the topic ${topic.name} has it no longer`;
  if (letter.group === "") return (await admin.readAt(letter, letter.offset)) ?? gone;
  const read = await readLetter(admin, topic, { ...letter, writtenAt: Number(letter.time / 1_000n) });
  if (read === undefined) return gone;
  if (!read.ok) return `it cannot be read: ${read.faults[0].description}`;
  return holdsRecord(read.value, letter)
    ? read.value
    : `what ${topic.name} has under its name is another record`;
}

function notFound(name: string): ConnectError {
  return toConnectError({
    code: Code.NotFound,
    reason: "DEAD_LETTER_NOT_FOUND",
    message: `There is no dead letter ${quote(name)}.`,
  });
}

function goneFromTopic(letter: IndexedLetter, why: string): ConnectError {
  const { reason, time, attempt, replays, letterPosition: place } = letter;
  return toConnectError({
    code: Code.NotFound,
    reason: "DEAD_LETTER_NOT_FOUND",
    message: `The index knows this dead letter, and ${why}. What the index knows is in the metadata, and in ListDeadLetters.`,
    metadata: {
      ...(reason !== "" && { reason }),
      time: new Date(Number(time / 1_000n)).toISOString(),
      attempt: String(attempt),
      replays: String(replays),
      ...(place && { letter: `${place.topic}/${place.partition}/${place.offset}` }),
    },
  });
}
