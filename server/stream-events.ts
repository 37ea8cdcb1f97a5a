import { type MessageInitShape } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { type StreamEventsRequest, type StreamEventsResponseSchema } from "#gen/weir/v1/ingest_pb.ts";
import { type Admission, type Submission } from "./admit.ts";
import { abortableItems } from "./http/deadlines.ts";
import { toConnectError } from "./errors.ts";
import { toOutcome } from "./event-results.ts";
import { fromCloudEventMessage } from "./wire.ts";

/** How many events of one stream may be without an answer. */
export const STREAM_WINDOW = 256;

/** What a stream of events needs. */
export interface EventStreamOptions {
  readonly admission: Admission;
  /** What holds for every event of the stream. */
  readonly sender: Omit<Submission, "decoded">;
  /** Raised when the call ends, however it does. */
  readonly signal: AbortSignal;
  /** Raised, with an error of toConnectError's, when no further event is to be taken. */
  readonly stopping: AbortSignal;
}

/**
 * The answers to a stream of events, in the order of completion. Credit is given back when an answer goes out, so a client
 * that does not read gets none, and no more than STREAM_WINDOW answers are ever held for it.
 *
 * Ends once the client has sent its last event and each has its answer. What ends it early (a client that breaks the
 * rules, `stopping`) takes no further event, and is thrown after the answers to those before.
 */
export async function* answersOf(
  requests: AsyncIterable<StreamEventsRequest>,
  { admission, sender, signal, stopping }: EventStreamOptions,
): AsyncGenerator<MessageInitShape<typeof StreamEventsResponseSchema>> {
  const answers: MessageInitShape<typeof StreamEventsResponseSchema>[] = [];
  let credit = STREAM_WINDOW;
  let unanswered = 0;
  let isReading = true;
  let failure: unknown;
  let change = Promise.withResolvers<void>();
  const changed = (): void => {
    change.resolve();
    change = Promise.withResolvers();
  };
  const failed = (error: unknown): void => {
    failure ??= error;
  };

  const read = async (): Promise<void> => {
    let last = 0n;
    for await (const { sequence, event } of abortableItems(requests, AbortSignal.any([signal, stopping]))) {
      if (sequence <= last) throw invalidSequence(sequence, last);
      if (credit === 0) throw creditExceeded(sequence);
      last = sequence;
      credit -= 1;
      const submission = { ...sender, decoded: fromCloudEventMessage(event) };
      const { admitted } = await admission.enqueue(submission, signal);
      unanswered += 1;
      void admitted
        .then((value) => void answers.push({ sequence, outcome: toOutcome(value), credit: 1 }), failed)
        .finally(() => {
          unanswered -= 1;
          changed();
        });
    }
  };
  void read()
    .catch(failed)
    .finally(() => {
      isReading = false;
      changed();
    });

  yield { credit };
  while (isReading || unanswered > 0 || answers.length > 0) {
    const answer = answers.shift();
    if (answer === undefined) {
      await change.promise;
      continue;
    }
    credit += 1;
    yield answer;
  }
  if (failure !== undefined) throw failure;
}

function invalidSequence(sequence: bigint, last: bigint): Error {
  return toConnectError({
    code: Code.InvalidArgument,
    reason: "INVALID_SEQUENCE",
    message: `The sequence ${String(sequence)} is not above ${String(last)}: count up from 1. This event was not taken, nor any after it.`,
    metadata: { sequence: String(sequence), last: String(last) },
  });
}

function creditExceeded(sequence: bigint): Error {
  return toConnectError({
    code: Code.ResourceExhausted,
    reason: "CREDIT_EXCEEDED",
    message: `The event ${String(sequence)} was sent without credit: count what each message of the server gives. It was not taken, nor any after it.`,
    metadata: { sequence: String(sequence), window: String(STREAM_WINDOW) },
  });
}
