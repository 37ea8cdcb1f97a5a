import { Code } from "@connectrpc/connect";
import { checkAdmission, type Limits } from "#core/admission.ts";
import { type Decoded } from "#core/attributes.ts";
import { isCloudEventsMediaType } from "#core/content-mode.ts";
import { encodedSize } from "#core/encoded-size.ts";
import { type CloudEvent } from "#core/event.ts";
import { encodeKafkaBinary } from "#core/kafka-binary.ts";
import { partitionKey } from "#core/partition.ts";
import { type Fault } from "#core/reason.ts";
import { type OutgoingRecord, type Producer, type PublishRefusal, type PublishResult } from "#kafka/ports.ts";
import { encodeRecord } from "#kafka/record.ts";
import { type Telemetry } from "#runtime/telemetry.ts";
import { type Failure, failureOf } from "./errors.ts";
import { type TraceContext } from "#runtime/trace-context.ts";
import { type Acceptance } from "./wire.ts";

/** What the admission of events needs. */
export interface AdmissionOptions {
  readonly producer: Producer;
  readonly limits: Limits;
  /** The topic of the events, and how many partitions it has. */
  readonly topic: string;
  readonly partitions: number;
  /** The largest record that the topic takes. */
  readonly maxRecordBytes: number;
  readonly telemetry: Telemetry;
  /** The server's clock: milliseconds since 1970. */
  readonly now?: () => number;
}

/** An event as it came in at one of the edges. */
export interface Submission {
  /** What the edge made of it. */
  readonly decoded: Decoded;
  /** Gives a fault's field the path by which this sender knows it. */
  readonly path: (field: string) => string;
  /** The subject of the sender's token. */
  readonly principal: string;
  readonly trace: TraceContext;
  readonly protocol: "rpc" | "http";
}

/** What became of a submission. */
export type Admitted =
  | { readonly ok: true; readonly acceptance: Acceptance }
  | { readonly ok: false; readonly failure: Failure };

/** The one way in for events, whichever edge they came to (design § 5). */
export interface Admission {
  /** Every fault for which the event would be refused now; empty where it would be published. */
  check(decoded: Decoded): readonly Fault[];
  /**
   * Checks the event, publishes it and waits for the broker's acknowledgement. The signal ends the wait: what was sent
   * by then may be on the log (PUBLISH_OUTCOME_UNKNOWN), what was not never will be (PRODUCER_UNAVAILABLE).
   */
  admit(submission: Submission, signal: AbortSignal): Promise<Admitted>;
  /**
   * Admits events side by side: one outcome per index. None waits for another, so they share produce requests. An event
   * that has no place in the producer's queue holds back those of its key after it, so that a key has no gap.
   */
  admitAll(submissions: readonly Submission[], signal: AbortSignal): Promise<readonly Admitted[]>;
  /**
   * Admits an event, and resolves as soon as its place is taken or it is refused: what is then admitted in turn stands
   * behind it. A full queue is waited for.
   */
  enqueue(submission: Submission, signal: AbortSignal): Promise<Enqueued>;
}

/** An event that has its place, or its refusal. */
export interface Enqueued {
  readonly admitted: Promise<Admitted>;
}

/** An event with nothing against it, and what is to go onto the log. */
interface Prepared {
  readonly ok: true;
  readonly event: CloudEvent;
  readonly key: string;
  readonly acceptTime: number;
  readonly record: OutgoingRecord;
}

/** How long a sender should wait before it tries again. */
const RETRY_AFTER_MS = 1_000;

/** The admission of events. */
export function createAdmission(options: AdmissionOptions): Admission {
  const { producer, limits, topic, partitions, telemetry, now = Date.now } = options;

  const check = (decoded: Decoded): readonly Fault[] => {
    if (decoded.ok) {
      const faults = checkAdmission(decoded.value, now(), limits);
      return faults.length > 0 ? faults : recordFaults(decoded.value, options.maxRecordBytes);
    }
    if (decoded.draft === undefined) return decoded.faults;
    // A required attribute that could not be read is missing from the draft too: that is told once.
    const told = new Set(decoded.faults.map(({ field, reason }) => `${field} ${reason}`));
    const further = checkAdmission(decoded.draft, now(), limits).filter(
      ({ field, reason }) => !told.has(`${field} ${reason}`),
    );
    return [...decoded.faults, ...further];
  };

  const prepare = (submission: Submission): Prepared | Extract<Admitted, { ok: false }> => {
    const { decoded, path, principal, trace } = submission;
    const [fault, ...further] = check(decoded);
    if (fault !== undefined) return { ok: false, failure: failureOf([fault, ...further], path) };
    if (!decoded.ok) throw new Error("An event that cannot be decoded has a fault.");
    const event = decoded.value;
    const acceptTime = now();
    const record = encodeRecord({ event, acceptTime, principal, ...trace }, topic, partitions);
    return { ok: true, event, key: partitionKey(event), acceptTime, record };
  };

  /** Counts what became of events of one edge. */
  const measure = (protocol: Submission["protocol"], admitted: readonly Admitted[]): void => {
    const outcomes = new Map<"accepted" | Failure["reason"], number>();
    for (const each of admitted) {
      const outcome = each.ok ? "accepted" : each.failure.reason;
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      if (each.ok) {
        telemetry.record("weir.ingest.event.size", { protocol }, encodedSize(each.acceptance.event));
      }
    }
    for (const [outcome, events] of outcomes) {
      telemetry.count("weir.ingest.events", { protocol, outcome }, events);
    }
  };

  /** Waits for what becomes of an event that was prepared and handed in. */
  const conclude = async (
    { path }: Submission,
    { event, key, acceptTime }: Prepared,
    published: Promise<PublishResult> | PublishRefusal,
  ): Promise<Admitted> => {
    const result = await published;
    if (result.outcome !== "acknowledged") return { ok: false, failure: failureOfPublish(result, path) };
    const { position } = result;
    return { ok: true, acceptance: { event, partitionKey: key, position, acceptTime } };
  };

  /** The outcome of a single event, counted. */
  const measured = async (
    submission: Submission,
    admitted: Promise<Admitted> | Admitted,
  ): Promise<Admitted> => {
    const outcome = await admitted;
    measure(submission.protocol, [outcome]);
    return outcome;
  };

  return {
    check,
    admit(submission, signal) {
      const prepared = prepare(submission);
      if (!prepared.ok) return measured(submission, prepared);
      const published = producer.publish(prepared.record, signal);
      return measured(submission, conclude(submission, prepared, published));
    },
    async admitAll(submissions, signal) {
      const heldBack = new Map<string, PublishRefusal>();
      const admitted = await Promise.all(
        submissions.map((submission) => {
          const prepared = prepare(submission);
          if (!prepared.ok) return Promise.resolve(prepared);
          const { key, record } = prepared;
          const published = heldBack.get(key) ?? producer.offer(record, signal);
          if (!(published instanceof Promise) && !isOfRecord(published)) heldBack.set(key, published);
          return conclude(submission, prepared, published);
        }),
      );
      const [first] = submissions;
      if (first !== undefined) {
        telemetry.record("weir.ingest.batch.size", { protocol: first.protocol }, submissions.length);
        measure(first.protocol, admitted);
      }
      return admitted;
    },
    async enqueue(submission, signal) {
      const prepared = prepare(submission);
      if (!prepared.ok) return { admitted: measured(submission, prepared) };
      for (;;) {
        const published = producer.offer(prepared.record, signal);
        if (published instanceof Promise || published.cause !== "QUEUE_FULL") {
          return { admitted: measured(submission, conclude(submission, prepared, published)) };
        }
        await producer.room();
      }
    },
  };
}

/** What a record has beside the event: Weir's own headers, and what frames it. */
const RECORD_OVERHEAD = 4_096;

/**
 * Whether the record of an event within the limits is larger than the topic takes. In binary mode it never is; an event
 * whose data are said to be an event travels as JSON, where they grow.
 */
function recordFaults(event: CloudEvent, maxRecordBytes: number): Fault[] {
  if (event.datacontenttype === undefined || !isCloudEventsMediaType(event.datacontenttype)) return [];
  const actual = (encodeKafkaBinary(event).value?.byteLength ?? 0) + RECORD_OVERHEAD;
  if (actual <= maxRecordBytes) return [];
  const metadata = { limit: String(maxRecordBytes), actual: String(actual), unit: "bytes" };
  const description = `The event takes ${String(actual)} bytes on the log, as JSON since its datacontenttype is that of an event; at most ${String(maxRecordBytes)} are taken.`;
  return [{ field: "", reason: "TOO_LARGE", description, metadata }];
}

/** Whether the refusal is for what the record itself is, which says nothing of those after it. */
function isOfRecord({ cause }: PublishRefusal): boolean {
  return cause === "TOO_LARGE" || cause === "REJECTED";
}

function failureOfPublish(
  result: Exclude<PublishResult, { outcome: "acknowledged" }>,
  path: (field: string) => string,
): Failure {
  if (result.outcome === "unknown") {
    return {
      code: Code.Unavailable,
      reason: "PUBLISH_OUTCOME_UNKNOWN",
      message: `The event was sent to the log and no acknowledgement was seen, so it is unknown whether it is there: ${result.detail}. Send it again: a repeat with the same source, id and time is stored once.`,
      retryAfterMs: RETRY_AFTER_MS,
    };
  }
  const { cause, detail } = result;
  if (cause === "TOO_LARGE") {
    const description = `The event is larger than the log takes: ${detail}.`;
    return failureOf([{ field: "", reason: "TOO_LARGE", description }], path);
  }
  const refusal = { code: Code.Unavailable, reason: "PRODUCER_UNAVAILABLE", metadata: { cause } } as const;
  // What the broker will not take by any means is for an operator to cure, not for a repeat.
  if (cause === "REJECTED") return { ...refusal, message: `Nothing was published: ${detail}.` };
  const message = `Nothing was published: ${detail}. Send the event again.`;
  return { ...refusal, message, retryAfterMs: RETRY_AFTER_MS };
}
