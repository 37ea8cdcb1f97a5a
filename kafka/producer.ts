import { BATCH_OVERHEAD, recordSize, SHARED_OVERHEAD } from "#core/record-size.ts";
import { type Logger } from "#runtime/log.ts";
import { type Telemetry } from "#runtime/telemetry.ts";

import { type Adapter, type Compression } from "./adapter.ts";
import { createCancelling } from "./cancelling.ts";
import { type ConnectionOptions } from "./connection.ts";
import { createLane, type Lane } from "./lane.ts";
import { type OutgoingRecord, type Producer, type PublishRefusal, type PublishResult } from "./ports.ts";
import { giveUp, type Publication } from "./publication.ts";
import { type Topic } from "./topics.ts";

/** What a producer needs. Durations are milliseconds, sizes bytes. */
export interface ProducerOptions {
  readonly connection: ConnectionOptions;
  /** The topics to publish to; each has a connection and a queue position of its own, so none waits for another. */
  readonly topics: readonly Pick<Topic, "name" | "maxMessageBytes">[];
  readonly log: Logger;
  readonly telemetry: Pick<Telemetry, "count" | "record" | "observe">;
  /** How many records may wait or be in flight; 8,192 by default. */
  readonly queueRecords?: number;
  /** How much they may hold together; 64 MiB by default. */
  readonly queueBytes?: number;
  /** How long a record may take from the queue to its result; 10 s by default. */
  readonly publishTimeoutMs?: number;
  /** How batches are compressed; "none" by default. */
  readonly compression?: Compression;
}

/** Used where a producer is disposed of and not closed. */
const CLOSE_MS = 5_000;

/** A producer; it connects at once and stays connected until it is closed. */
export function createProducer(
  adapter: Pick<Adapter, "openProduceSession">,
  options: ProducerOptions,
): Producer {
  const {
    queueRecords = 8_192,
    queueBytes = 64 * 1024 * 1024,
    publishTimeoutMs = 10_000,
    compression = "none",
    connection,
    telemetry,
  } = options;
  const log = options.log.scope("kafka.producer");
  const queued = { records: 0, bytes: 0 };
  /** What has no result yet, as it was handed in, and so in the order of its deadlines. */
  const open = new Set<Publication>();
  let timer: NodeJS.Timeout | undefined;
  const cancelling = createCancelling<Publication>((publication) => {
    end(publication, "CANCELLED", "the request was given up before the record was acknowledged");
  });
  let closing: Promise<void> | undefined;
  let drained = Promise.withResolvers<void>();
  let freed: PromiseWithResolvers<void> | undefined;

  const lanes = new Map<string, Lane>();
  const limits = new Map<string, number>();
  for (const { name: topic, maxMessageBytes: maxBatchBytes } of options.topics) {
    lanes.set(
      topic,
      createLane({
        adapter,
        topic,
        connection,
        compression,
        maxBatchBytes,
        publishTimeoutMs,
        log,
        telemetry,
        left,
      }),
    );
    limits.set(topic, maxBatchBytes);
  }
  const gauges = [
    telemetry.observe("weir.producer.queue.records", () => [[{}, queued.records]]),
    telemetry.observe("weir.producer.queue.size", () => [[{}, queued.bytes]]),
  ];

  function left(publication: Publication): void {
    queued.records -= 1;
    queued.bytes -= publication.bytes;
    if (queued.records === 0) drained.resolve();
    freed?.resolve();
    freed = undefined;
  }

  /** Why a record cannot even be queued. */
  function refusal(
    record: OutgoingRecord,
    bytes: number,
    signal: AbortSignal | undefined,
  ): PublishRefusal | undefined {
    const lane = lanes.get(record.topic);
    const limit = limits.get(record.topic) ?? 0;
    if (closing !== undefined) return refused("CLOSED", "the producer is closed");
    if (signal?.aborted) return refused("CANCELLED", "the request was given up before its record was queued");
    if (lane === undefined)
      return refused("TOPIC_MISSING", `this producer was not made for topic ${record.topic}`);
    if (!Number.isSafeInteger(record.timestamp))
      return refused("REJECTED", "the record's timestamp is not an integer", true);
    const alone = bytes - SHARED_OVERHEAD + BATCH_OVERHEAD;
    if (alone > limit) {
      const detail = `the record takes ${alone} bytes and topic ${record.topic} takes ${limit}`;
      return refused("TOO_LARGE", detail, true);
    }
    if (queued.records >= queueRecords) {
      return refused("QUEUE_FULL", `${queueRecords} records are waiting to be published`);
    }
    if (queued.bytes + bytes > queueBytes) {
      return refused("QUEUE_FULL", `the records waiting to be published hold ${queueBytes} bytes`);
    }
    if (lane.refuses && lane.fault) return refused(lane.fault.cause, lane.fault.detail);
    return undefined;
  }

  function offer(record: OutgoingRecord, signal?: AbortSignal): Promise<PublishResult> | PublishRefusal {
    const bytes = recordSize(record) + SHARED_OVERHEAD;
    const early = refusal(record, bytes, signal);
    if (early !== undefined) return early;
    const lane = lanes.get(record.topic)!;
    queued.records += 1;
    queued.bytes += bytes;
    const { promise, resolve } = Promise.withResolvers<PublishResult>();
    const publication: Publication = {
      record,
      bytes,
      since: performance.now(),
      sent: false,
      alone: false,
      settled: false,
      settle(result) {
        if (publication.settled) return;
        publication.settled = true;
        open.delete(publication);
        if (signal !== undefined) cancelling.remove(signal, publication);
        count(record, result);
        if (result.outcome === "acknowledged") {
          const seconds = (performance.now() - publication.since) / 1_000;
          telemetry.record("weir.publish.duration", { topic: record.topic }, seconds);
        }
        resolve(result);
      },
    };
    open.add(publication);
    if (signal !== undefined) cancelling.add(signal, publication);
    timer ??= setTimeout(expire, publishTimeoutMs);
    lane.add(publication);
    return promise;
  }

  function end(
    publication: Publication,
    cause: "BROKER_AWAY" | "TOPIC_MISSING" | "CANCELLED",
    detail: string,
  ): void {
    giveUp(publication, cause, detail);
    lanes.get(publication.record.topic)!.remove(publication);
  }

  function expire(): void {
    timer = undefined;
    for (const publication of open) {
      const left = publication.since + publishTimeoutMs - performance.now();
      if (left > 0) {
        timer = setTimeout(expire, left);
        return;
      }
      const fault = lanes.get(publication.record.topic)!.fault;
      const reason = fault?.detail ?? "Kafka is slow to acknowledge";
      end(
        publication,
        fault?.cause ?? "BROKER_AWAY",
        `not acknowledged within ${publishTimeoutMs} ms: ${reason}`,
      );
    }
  }

  function count({ topic }: OutgoingRecord, { outcome }: PublishResult): void {
    telemetry.count("weir.publish.records", { topic: lanes.has(topic) ? topic : "other", outcome });
  }

  async function close(deadlineMs: number): Promise<void> {
    if (queued.records > 0) {
      let deadline: NodeJS.Timeout | undefined;
      const late = new Promise<void>((resolve) => (deadline = setTimeout(resolve, deadlineMs)));
      await Promise.race([drained.promise, late]);
      clearTimeout(deadline);
    }
    await Promise.all(Array.from(lanes.values(), (lane) => lane.close()));
    clearTimeout(timer);
    for (const gauge of gauges) gauge[Symbol.dispose]();
  }

  return {
    publish(record, signal) {
      const result = offer(record, signal);
      if (result instanceof Promise) return result;
      count(record, result);
      return Promise.resolve(result);
    },
    offer,
    room() {
      freed ??= Promise.withResolvers();
      return freed.promise;
    },
    ready: Promise.all(Array.from(lanes.values(), ({ ready }) => ready)).then(() => {}),
    get fault() {
      for (const { fault, rejection } of lanes.values()) {
        const detail = fault?.detail ?? rejection;
        if (detail !== undefined) return detail;
      }
      return undefined;
    },
    get queued() {
      return { ...queued };
    },
    close(deadlineMs) {
      drained = Promise.withResolvers();
      closing ??= close(deadlineMs);
      return closing;
    },
    [Symbol.asyncDispose]() {
      return this.close(CLOSE_MS);
    },
  };
}

function refused(cause: PublishRefusal["cause"], detail: string, isOfRecord = false): PublishRefusal {
  return { outcome: "refused", cause, isOfRecord, detail };
}
