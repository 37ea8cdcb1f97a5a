import { Code } from "@connectrpc/connect";
import { checkAdmission, type Limits } from "#core/admission.ts";
import { type Decoded } from "#core/attributes.ts";
import { encodedSize } from "#core/encoded-size.ts";
import { partitionKey } from "#core/partition.ts";
import { type Fault } from "#core/reason.ts";
import { type Producer, type PublishResult } from "#kafka/ports.ts";
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
}

/** How long a sender should wait before it tries again. */
const RETRY_AFTER_MS = 1_000;

/** The admission of events. */
export function createAdmission(options: AdmissionOptions): Admission {
  const { producer, limits, topic, partitions, telemetry, now = Date.now } = options;

  const check = (decoded: Decoded): readonly Fault[] => {
    if (decoded.ok) return checkAdmission(decoded.value, now(), limits);
    if (decoded.draft === undefined) return decoded.faults;
    // A required attribute that could not be read is missing from the draft too: that is told once.
    const told = new Set(decoded.faults.map(({ field, reason }) => `${field} ${reason}`));
    const further = checkAdmission(decoded.draft, now(), limits).filter(
      ({ field, reason }) => !told.has(`${field} ${reason}`),
    );
    return [...decoded.faults, ...further];
  };

  const admit = async (submission: Submission, signal: AbortSignal): Promise<Admitted> => {
    const { decoded, path, principal, trace } = submission;
    const [fault, ...further] = check(decoded);
    if (fault !== undefined) return { ok: false, failure: failureOf([fault, ...further], path) };
    if (!decoded.ok) throw new Error("An event that cannot be decoded has a fault.");
    const event = decoded.value;
    const acceptTime = now();
    const record = encodeRecord({ event, acceptTime, principal, ...trace }, topic, partitions);
    const result = await producer.publish(record, signal);
    if (result.outcome !== "acknowledged") return { ok: false, failure: failureOfPublish(result, path) };
    const { position } = result;
    return { ok: true, acceptance: { event, partitionKey: partitionKey(event), position, acceptTime } };
  };

  return {
    check,
    async admit(submission, signal) {
      const admitted = await admit(submission, signal);
      const { protocol } = submission;
      const outcome = admitted.ok ? "accepted" : admitted.failure.reason;
      telemetry.count("weir.ingest.events", { protocol, outcome });
      if (admitted.ok) {
        telemetry.record("weir.ingest.event.size", { protocol }, encodedSize(admitted.acceptance.event));
      }
      return admitted;
    },
  };
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
