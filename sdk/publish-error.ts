import { type Reason } from "../core/reason.ts";
import { type WeirError } from "./error.ts";
import { type CloudEvent } from "./gen/io/cloudevents/v1/cloudevents_pb.ts";

/**
 * Why an event was not acknowledged: Weir's own reason where it had the last word, else the publisher's.
 *
 * - `BUFFER_FULL`: the buffer had no room, and `onFull` is "refuse".
 * - `CLOSED`: the publisher was closed before.
 * - `CANCELLED`: a signal was raised.
 * - `DEADLINE_EXCEEDED`: `timeoutMs` passed and there was no answer.
 * - `UNREACHABLE`: `timeoutMs` passed, or a repeat is no use, and the last answer was not Weir's.
 */
export type PublishReason = Reason | "BUFFER_FULL" | "CLOSED" | "UNREACHABLE" | (string & {});

/** What `publish` rejects with. */
export class PublishError extends Error {
  override readonly name = "PublishError";
  readonly reason: PublishReason;
  /**
   * "refused": the event was not published. "unknown": it may have been; publish it again, with the same id and time, and
   * it is stored once.
   */
  readonly outcome: "refused" | "unknown";
  /** The event as it was handed in. */
  readonly event: CloudEvent;
  /** The last answer that the event had, with every violation; undefined where it had none. */
  readonly answer: WeirError | undefined;

  constructor(
    event: CloudEvent,
    why: {
      reason: PublishReason;
      outcome: "refused" | "unknown";
      text: string;
      answer?: WeirError | undefined;
    },
  ) {
    const fate = why.outcome === "refused" ? "was not published" : "may have been published";
    super(`Event ${JSON.stringify(event.id)} of ${JSON.stringify(event.source)} ${fate}: ${why.text}`);
    this.reason = why.reason;
    this.outcome = why.outcome;
    this.event = event;
    this.answer = why.answer;
  }
}
