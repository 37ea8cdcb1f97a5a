import { type Adapter, type AdminSession, type AdminSessionOptions } from "./adapter.ts";
import { errorText } from "./errors.ts";
import { type Fetched } from "./partition-reader.ts";
import { type Admin, KafkaError, type ReceivedRecord, type TopicPartition } from "./ports.ts";
import { within } from "./waiting.ts";

interface OpenSession {
  readonly session: AdminSession;
  /** How many are under way. */
  questions: number;
}

const PROBE_MS = 2_000;
/** What a fetch brings while a key is searched for. */
const SEARCH_BYTES = 1_048_576;

/** An admin; it connects at the first question, and anew after one that failed. */
export function createAdmin(
  adapter: Pick<Adapter, "openAdminSession">,
  { connection, log: parent }: AdminSessionOptions,
): Admin {
  const log = parent.scope("kafka.admin");
  let open: OpenSession | undefined;

  /** Asks, a second time where the connection turns out to be gone: it may have been so since long before. */
  async function ask<T>(
    what: string,
    question: (session: AdminSession) => Promise<T>,
    limitMs: number = connection.requestTimeoutMs,
  ): Promise<T> {
    const deadline = performance.now() + limitMs;
    const reused = open?.session;
    try {
      return await askOnce(what, question, limitMs);
    } catch (error) {
      const left = deadline - performance.now();
      if (left > 0 && reused?.isConnectionError(error)) return askOnce(what, question, left);
      throw error;
    }
  }

  async function askOnce<T>(
    what: string,
    question: (session: AdminSession) => Promise<T>,
    limitMs: number,
  ): Promise<T> {
    open ??= { session: adapter.openAdminSession({ connection, log }), questions: 0 };
    const asked = open;
    asked.questions += 1;
    try {
      return await within(limitMs, what, question(asked.session));
    } catch (error) {
      // What the session knows of the cluster may be the reason; a fresh one costs little.
      if (open === asked) open = undefined;
      const brokers = connection.brokers.join(", ");
      throw new KafkaError(`${what} failed at Kafka ${brokers}: ${errorText(error)}`, { cause: error });
    } finally {
      asked.questions -= 1;
      if (open !== asked && asked.questions === 0) asked.session.destroy();
    }
  }

  return {
    logRanges: (topic) =>
      ask(`Asking for the offsets of topic ${topic}`, (session) => session.logRanges(topic)),
    committedOffsets: (group, topic) =>
      ask(`Asking for the offsets of group ${group}`, (session) => session.committedOffsets(group, topic)),
    describeTopics: (names) => ask("Describing topics", (session) => session.describeTopics(names)),
    readAt(partition, offset) {
      return ask(`Reading ${placeOf(partition)} at offset ${offset}`, async (session) => {
        // However small: the batch that has the record comes whole.
        const fetched = await session.readFrom(partition, offset, 1);
        if (fetched === undefined) await refuseHeldBack(session, partition, offset);
        return fetched?.records.find((record) => record.offset === offset);
      });
    },
    findByKey(partition, key, among) {
      return ask(`Searching ${placeOf(partition)} for a key`, (session) =>
        findByKey(session, partition, key, { ...among, waitMs: connection.requestTimeoutMs / 2 }),
      );
    },
    readFrom(partition, offset, maxBytes) {
      return ask(`Reading ${placeOf(partition)} from offset ${offset}`, (session) =>
        session.readFrom(partition, offset, maxBytes),
      );
    },
    brokerCount: () => ask("Describing the cluster", (session) => session.brokerCount()),
    createTopic: (topic) => ask(`Making topic ${topic.name}`, (session) => session.createTopic(topic)),
    changeTopic: (name, config) =>
      ask(`Changing topic ${name}`, (session) => session.changeTopic(name, config)),
    async probe(topics) {
      try {
        const topic = await ask("Probing", (session) => session.leaderless(topics), PROBE_MS);
        return topic && `a partition of topic ${topic} has no leader`;
      } catch (error) {
        return errorText(error);
      }
    },
    async [Symbol.asyncDispose]() {
      open?.session.destroy();
      open = undefined;
    },
  };
}

function placeOf({ topic, partition }: TopicPartition): string {
  return `${topic} partition ${partition}`;
}

/** @throws KafkaError where the log has what a fetch did not bring: it is held back, and not gone. */
async function refuseHeldBack(
  session: AdminSession,
  { topic, partition }: TopicPartition,
  offset: bigint,
): Promise<void> {
  const range = (await session.logRanges(topic)).get(partition);
  if (range === undefined || offset < range.start || offset >= range.end) return;
  // It may have come only now.
  if ((await session.readFrom({ topic, partition }, offset, 1)) === undefined)
    throw new KafkaError(
      `a transaction is open at or before offset ${offset}, and what comes after it cannot be read until it ends`,
    );
}

async function findByKey(
  session: AdminSession,
  partition: TopicPartition,
  key: Uint8Array,
  { since, maxRecords, waitMs }: { since: number; maxRecords: number; waitMs: number },
): Promise<ReceivedRecord | undefined> {
  const until = performance.now() + waitMs;
  const wanted = Buffer.from(key);
  let offset = await session.offsetAt(partition, since);
  for (let looked = 0; offset !== undefined && looked < maxRecords && performance.now() < until;) {
    const fetched: Fetched | undefined = await session.readFrom(partition, offset, SEARCH_BYTES);
    const found = fetched?.records.find((record) => record.key !== null && wanted.equals(record.key));
    if (found !== undefined) return found;
    if (fetched === undefined) await refuseHeldBack(session, partition, offset);
    looked += fetched?.records.length ?? 0;
    offset = fetched?.next;
  }
  return undefined;
}
