import { setImmediate as turn } from "node:timers/promises";

import { type Telemetry } from "#runtime/telemetry.ts";

import {
  type Adapter,
  type PartitionAnswer,
  type ProduceSession,
  type ProduceSessionOptions,
  TopicMissing,
} from "./adapter.ts";
import { errorText } from "./errors.ts";
import { KafkaError } from "./ports.ts";
import { produceError } from "./produce-errors.ts";
import { type Batch, giveUp, nextBatch, type Publication } from "./publication.ts";
import { createRejections } from "./rejections.ts";
import { backoff, pause, within } from "./waiting.ts";

/** What a lane needs. */
export interface LaneOptions extends ProduceSessionOptions {
  readonly adapter: Pick<Adapter, "openProduceSession">;
  /** The largest record batch that the topic takes. */
  readonly maxBatchBytes: number;
  /** The longest that one produce request may take with all its retries. */
  readonly publishTimeoutMs: number;
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
  /** Why the broker takes no records though it answers (`Rejections.fault`); they are sent all the same. */
  readonly rejection: string | undefined;
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

/** How long a topic may be missing before its records are refused. */
const TOPIC_MISSING_MS = 3_000;
/** A failure that is over sooner is not worth refusing records for. */
const BLIP_MS = 1_000;

/**
 * A lane sends one batch after another by a produce session of its own and never two at once: a client's sequence numbers
 * may not survive that (docs/decisions/kafka-client.md).
 *
 * What makes it safe to send again: a session whose request may have reached the broker gets exactly the same batch once
 * more, which the broker then recognises by its sequence numbers. Wherever that cannot be kept up, the session is
 * replaced by a fresh one; a record may then be on the log twice, which deduplication absorbs, and none is lost.
 */
export function createLane(options: LaneOptions): Lane {
  const { adapter, topic, connection, publishTimeoutMs, log } = options;
  const brokers = connection.brokers.join(", ");
  const connected = Promise.withResolvers<void>();
  const stop = new AbortController();
  let waiting = new Set<Publication>();
  let wake = Promise.withResolvers<void>();
  let session: ProduceSession | undefined;
  /** A batch that may have reached the broker through the present session, which must send it again as it is. */
  let unsettled: Batch | undefined;
  let isAway = false;
  const rejections = createRejections(topic, log);
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
    session?.destroy();
    session = undefined;
  }

  async function open(): Promise<void> {
    session = adapter.openProduceSession(options);
    try {
      const limit = connection.connectTimeoutMs + connection.requestTimeoutMs;
      await within(limit, "Connecting to Kafka", session.connect(), stop.signal);
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

  async function send(current: ProduceSession, batch: Batch): Promise<void> {
    const before = current.produceRequests;
    const publications = [...batch.values()].flat();
    const fresh = new Set(publications.filter(({ sent }) => !sent));
    // From now on a publication that is given up may be on the log, until the opposite is certain.
    for (const each of publications) each.sent = true;
    options.telemetry.record("weir.publish.batch.size", { topic }, publications.length);
    try {
      const sent = current.send(publications.map(({ record }) => record));
      const answer = await within(publishTimeoutMs, "Publishing", sent, stop.signal);
      conclude(batch, answer.partitions, answer.isRepeat ? new Set() : fresh);
    } catch (error) {
      // An attempt that was given up goes on by itself, and one that failed may still have a request to write. It must
      // not be able to, and only then is the count final. What was sent before may be sent again at any time.
      const isRepeat = fresh.size === 0;
      if (error instanceof KafkaError || (!isRepeat && current.produceRequests === before)) giveUpSession();
      if (current.produceRequests === before) for (const each of fresh) each.sent = false;
      failed(batch, error);
    }
  }

  /** The broker answered: each partition has its own outcome. `fresh`: what no request before may have brought there. */
  function conclude(
    batch: Batch,
    answers: readonly PartitionAnswer[],
    fresh: ReadonlySet<Publication>,
  ): void {
    const returned: Publication[] = [];
    let problem: LaneFault | undefined;
    for (const [partition, publications] of batch) {
      const mine = answers.filter((answer) => answer.partition === partition);
      const answer = mine.find(({ errorCode }) => errorCode === 0) ?? mine[0];
      if (answer?.errorCode === 0) {
        rejections.clear();
        acknowledge(publications, partition, answer.baseOffset);
        continue;
      }
      // kafkajs leaves a partition out where its leader moves, during a retry, to a broker that has answered already.
      const error = answer === undefined ? undefined : produceError(answer.errorCode);
      const detail = `Kafka refuses records for ${topic} partition ${partition}: ${error?.name ?? "no answer for it"}`;
      for (const each of publications) {
        if (error?.written === "no" && fresh.has(each)) each.sent = false;
        if (error?.ofRecord && publications.length > 1) each.alone = true;
        else if (error?.refusal === "REJECTED") {
          const { said, isOfRecord } = rejections.add(error, each, detail);
          giveUp(each, "REJECTED", said, isOfRecord);
        } else if (error?.refusal !== undefined) giveUp(each, error.refusal, detail, error.ofRecord);
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
    const missing = error instanceof TopicMissing ? error : undefined;
    const detail = missing
      ? `topic ${topic} cannot be published to: ${errorText(error)}`
      : `Kafka does not take records for ${topic}: ${errorText(error)}`;
    fail(missing ? "TOPIC_MISSING" : "BROKER_AWAY", detail);
    if (session !== undefined && publications.some(({ settled }) => !settled)) {
      unsettled = batch;
      return;
    }
    giveUpSession();
    if (missing !== undefined) {
      const { partition } = missing;
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
    get rejection() {
      return rejections.fault;
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
