import { setImmediate as turn } from "node:timers/promises";

import type { Message, Producer as KafkaProducer, RecordMetadata } from "kafkajs";

import { type Logger } from "#runtime/log.ts";
import { type Telemetry } from "#runtime/telemetry.ts";

import { type Client, type ConnectionOptions, createClient } from "./connection.ts";
import { errorText, protocolError } from "./errors.ts";
import { KafkaError, type OutgoingRecord } from "./ports.ts";
import { produceError } from "./produce-errors.ts";
import { type Batch, giveUp, nextBatch, type Publication } from "./publication.ts";
import { backoff, pause, within } from "./waiting.ts";

/** What a lane needs. */
export interface LaneOptions {
  readonly topic: string;
  readonly connection: ConnectionOptions;
  /** The largest record batch that the topic takes. */
  readonly maxBatchBytes: number;
  /** The longest that one produce request may take with all its retries. */
  readonly publishTimeoutMs: number;
  readonly log: Logger;
  readonly telemetry: Pick<Telemetry, "record">;
  /** A publication has left the lane, settled: what it held is free. */
  readonly left: (publication: Publication) => void;
}

/** The way of one topic's records to the log. */
export interface Lane {
  /** Puts a publication at the end of the queue. */
  add(publication: Publication): void;
  /** Takes a settled publication out of the queue; one that is being sent stays until that ends. */
  remove(publication: Publication): void;
  /** Settles at the first connection. */
  readonly ready: Promise<void>;
  /** Why records are not published at the moment, or not yet. */
  readonly fault: LaneFault | undefined;
  /** Whether a further record had better be refused for the fault. A failure may also be a blip, which is waited for. */
  readonly refuses: boolean;
  /** Ends the lane at once: nothing more is sent. What it holds is given up. */
  close(): Promise<void>;
}

/** Why a lane does not publish. */
export interface LaneFault {
  readonly cause: "BROKER_AWAY" | "TOPIC_MISSING";
  readonly detail: string;
}

/** A kafkajs producer with its own id and sequence numbers. */
interface Session {
  readonly client: Client;
  readonly producer: KafkaProducer;
  readonly sending: Sending;
}

/** What kafkajs does with the batch under way. */
interface Sending {
  /** A message of the batch, which kafkajs looks at once each time that it begins to send the batch. */
  witness: Message | undefined;
  /** How often it has begun. More than once: its answer tells of the last time only. */
  rounds: number;
}

/** How long a topic may be missing before its records are refused. */
const TOPIC_MISSING_MS = 3_000;
/** A failure that is over sooner is not worth refusing records for. */
const BLIP_MS = 1_000;

/**
 * A lane sends one batch after another by a kafkajs producer of its own and never two at once: kafkajs' sequence numbers
 * do not survive that (docs/decisions/kafka-client.md).
 *
 * What makes it safe to send again: a producer whose request may have reached the broker gets exactly the same batch once
 * more, which the broker then recognises by its sequence numbers. Wherever that cannot be kept up, the producer is
 * replaced by a fresh one; a record may then be on the log twice, which deduplication absorbs, and none is lost.
 */
export function createLane(options: LaneOptions): Lane {
  const { topic, connection, publishTimeoutMs, log } = options;
  const brokers = connection.brokers.join(", ");
  const connected = Promise.withResolvers<void>();
  const stop = new AbortController();
  let waiting = new Set<Publication>();
  let wake = Promise.withResolvers<void>();
  let session: Session | undefined;
  /** A batch that may have reached the broker through the present session, which must send it again as it is. */
  let unsettled: Batch | undefined;
  let isAway = false;
  let failure: (LaneFault & { readonly since: number; readonly failures: number }) | undefined = {
    cause: "BROKER_AWAY",
    detail: `Kafka at ${brokers} is not connected yet`,
    since: performance.now(),
    failures: 0,
  };

  function fail(cause: LaneFault["cause"], detail: string): void {
    if (stop.signal.aborted) return;
    if (failure === undefined || failure.failures === 0) {
      log.warn("Publishing fails and is tried again", { topic, reason: detail });
    }
    const isFirst = failure === undefined || failure.failures === 0;
    failure = {
      cause,
      detail,
      since: isFirst ? performance.now() : failure!.since,
      failures: (failure?.failures ?? 0) + 1,
    };
  }

  function recover(): void {
    if (failure !== undefined && failure.failures > 0) log.info("Publishing works again", { topic });
    failure = undefined;
  }

  function giveUpSession(): void {
    session?.client.destroy();
    session = undefined;
  }

  async function open(): Promise<void> {
    // It is the lane that tries again, since it knows what may be sent twice and says what is wrong.
    const client = createClient(connection, 1, log);
    const sending: Sending = { witness: undefined, rounds: 0 };
    const opened: Session = { client, sending, producer: createKafkaProducer(client, sending) };
    session = opened;
    try {
      const limit = connection.connectTimeoutMs + connection.requestTimeoutMs;
      // It includes InitProducerId: without it kafkajs would send, and not idempotently.
      await within(limit, "Connecting to Kafka", opened.producer.connect(), stop.signal);
      isAway = false;
      connected.resolve();
      if (failure?.failures === 0) recover();
    } catch (error) {
      giveUpSession();
      isAway = true;
      fail("BROKER_AWAY", `Kafka at ${brokers} cannot be reached: ${errorText(error)}`);
    }
  }

  async function run(): Promise<void> {
    while (!stop.signal.aborted) {
      if (session === undefined) {
        await open();
        if (session === undefined) await pause(backoff(failure?.failures ?? 1, 250, 2_000), stop.signal);
        continue;
      }
      if (unsettled === undefined && waiting.size === 0) {
        // Nothing to try it with: whether the fault is over shows at the next record.
        if (failure !== undefined) recover();
        await wake.promise;
        continue;
      }
      // What comes in within this turn of the event loop shares the request: often those whom the last answer freed.
      await turn();
      const batch = unsettled ?? takeBatch();
      unsettled = undefined;
      if (batch.size > 0) await send(session, batch);
      if (failure !== undefined) await pause(backoff(failure.failures, 100, 1_000), stop.signal);
    }
  }

  function takeBatch(): Batch {
    const batch = nextBatch(waiting, options.maxBatchBytes);
    for (const publications of batch.values()) for (const each of publications) waiting.delete(each);
    return batch;
  }

  async function send(current: Session, batch: Batch): Promise<void> {
    const { client, producer, sending } = current;
    const before = client.produceRequests;
    const publications = [...batch.values()].flat();
    const fresh = new Set(publications.filter(({ sent }) => !sent));
    // From now on a publication that is given up may be on the log, until the opposite is certain.
    for (const each of publications) each.sent = true;
    const messages = publications.map(({ record }) => toMessage(record));
    sending.witness = messages[0];
    sending.rounds = 0;
    options.telemetry.record("weir.publish.batch.size", { topic }, messages.length);
    try {
      const timeout = connection.requestTimeoutMs;
      const sent = producer.sendBatch({ acks: -1, timeout, topicMessages: [{ topic, messages }] });
      const answers = await within(publishTimeoutMs, "Publishing", sent, stop.signal);
      conclude(batch, answers, sending.rounds > 1 ? new Set() : fresh);
    } catch (error) {
      // An attempt that was given up goes on by itself, and one that failed may still have a request to write. It must
      // not be able to, and only then is the count final. What was sent before may be sent again at any time.
      const isRepeat = fresh.size === 0;
      if (error instanceof KafkaError || (!isRepeat && client.produceRequests === before)) giveUpSession();
      if (client.produceRequests === before) for (const each of fresh) each.sent = false;
      failed(batch, error);
    }
  }

  /** The broker answered: each partition has its own outcome. `fresh`: what no request before may have brought there. */
  function conclude(batch: Batch, answers: readonly RecordMetadata[], fresh: ReadonlySet<Publication>): void {
    const returned: Publication[] = [];
    let problem: LaneFault | undefined;
    for (const [partition, publications] of batch) {
      const mine = answers.filter((answer) => answer.partition === partition);
      const answer = mine.find(({ errorCode }) => errorCode === 0) ?? mine[0];
      if (answer?.errorCode === 0) {
        acknowledge(publications, partition, BigInt(answer.baseOffset ?? -1));
        continue;
      }
      // kafkajs leaves a partition out where its leader moves, during a retry, to a broker that has answered already.
      const error = answer === undefined ? undefined : produceError(answer.errorCode);
      const detail = `Kafka refuses records for ${topic} partition ${partition}: ${error?.name ?? "no answer for it"}`;
      for (const each of publications) {
        if (error?.written === "no" && fresh.has(each)) each.sent = false;
        if (error?.ofRecord && publications.length > 1) each.alone = true;
        else if (error?.refusal !== undefined) giveUp(each, error.refusal, detail);
        else if (error?.missing) refuseIfMissingTooLong(each, detail);
        returned.push(each);
      }
      if (error?.refusal === undefined)
        problem = { cause: error?.missing ? "TOPIC_MISSING" : "BROKER_AWAY", detail };
    }
    if (problem === undefined) recover();
    else fail(problem.cause, problem.detail);
    // Its sequence numbers have moved past what was not written.
    if (returned.length > 0) giveUpSession();
    putBack(returned);
  }

  function acknowledge(publications: readonly Publication[], partition: number, base: bigint): void {
    for (const [index, each] of publications.entries()) {
      const position = { topic, partition, offset: base + BigInt(index) };
      if (base >= 0n) each.settle({ outcome: "acknowledged", position });
      else
        each.settle({
          outcome: "unknown",
          detail: "Kafka took the record for a repeat and did not say where it is",
        });
      options.left(each);
    }
  }

  /** There was no answer. */
  function failed(batch: Batch, error: unknown): void {
    const publications = [...batch.values()].flat();
    const missing =
      error instanceof PartitionMissing || protocolError(error) === "UNKNOWN_TOPIC_OR_PARTITION";
    const detail = missing
      ? `topic ${topic} cannot be published to: ${errorText(error)}`
      : `Kafka does not take records for ${topic}: ${errorText(error)}`;
    fail(missing ? "TOPIC_MISSING" : "BROKER_AWAY", detail);
    if (session !== undefined && publications.some(({ settled }) => !settled)) {
      unsettled = batch;
      return;
    }
    giveUpSession();
    if (missing) {
      const partition = error instanceof PartitionMissing ? error.partition : undefined;
      for (const each of publications) {
        if (partition === undefined || each.record.partition === partition)
          refuseIfMissingTooLong(each, detail);
      }
    }
    putBack(publications);
  }

  function refuseIfMissingTooLong(publication: Publication, detail: string): void {
    if (performance.now() - publication.since >= TOPIC_MISSING_MS)
      giveUp(publication, "TOPIC_MISSING", detail);
  }

  /** Before all that waits, so that a partition's order stays. */
  function putBack(publications: readonly Publication[]): void {
    for (const each of publications) if (each.settled) options.left(each);
    waiting = new Set([...publications.filter(({ settled }) => !settled), ...waiting]);
  }

  const running = run();
  return {
    add(publication) {
      waiting.add(publication);
      wake.resolve();
      wake = Promise.withResolvers();
    },
    remove(publication) {
      if (waiting.delete(publication)) options.left(publication);
    },
    ready: connected.promise,
    get fault() {
      return failure;
    },
    get refuses() {
      return (
        failure !== undefined &&
        failure.failures > 0 &&
        (isAway || performance.now() - failure.since > BLIP_MS)
      );
    },
    async close() {
      stop.abort();
      wake.resolve();
      await running;
      giveUpSession();
      for (const publication of [...(unsettled?.values() ?? []), ...waiting].flat()) {
        giveUp(publication, "CLOSED", "the producer was closed");
        options.left(publication);
      }
      waiting.clear();
    },
  };
}

function createKafkaProducer({ kafka }: Client, sending: Sending): KafkaProducer {
  return kafka.producer({
    idempotent: true,
    allowAutoTopicCreation: false,
    retry: { retries: 2, initialRetryTime: 100, maxRetryTime: 500 },
    createPartitioner:
      () =>
      ({ topic, message, partitionMetadata }) => {
        const partition = message.partition!;
        if (!partitionMetadata.some(({ partitionId }) => partitionId === partition)) {
          throw new PartitionMissing(topic, partition);
        }
        if (message === sending.witness) sending.rounds += 1;
        return partition;
      },
  });
}

function toMessage({ partition, key, value, headers, timestamp }: OutgoingRecord): Message {
  // kafkajs.ts takes any bytes, and headers as a list.
  const parts = { key, value, headers } as unknown as Pick<Message, "key" | "value" | "headers">;
  return { ...parts, partition, timestamp: String(timestamp) };
}

/** The topic has fewer partitions than we count on. */
class PartitionMissing extends Error {
  override readonly name = "PartitionMissing";
  readonly partition: number;

  constructor(topic: string, partition: number) {
    super(`${topic} has no partition ${partition}`);
    this.partition = partition;
  }
}
