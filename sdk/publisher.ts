/// <reference lib="esnext.disposable" preserve="true" />
import { create, toBinary } from "@bufbuild/protobuf";
import { type Client } from "@connectrpc/connect";
import { createCancels } from "./cancels.ts";
import { attributeOf, isWellFormed } from "./cloud-event.ts";
import { type CloudEvent } from "./gen/io/cloudevents/v1/cloudevents_pb.ts";
import { type Receipt } from "./gen/weir/v1/event_pb.ts";
import { BatchCreateEventsRequestSchema, type IngestService } from "./gen/weir/v1/ingest_pb.ts";
import { createLanes } from "./lanes.ts";
import { createPlaces } from "./places.ts";
import { PublishError, type PublishReason } from "./publish-error.ts";
import { createSending } from "./sending.ts";
import { createTimers } from "./timers.ts";
import { createUnsettled, type Entry } from "./unsettled.ts";

/** How a publisher gathers, buffers and gives up. */
export interface PublisherOptions {
  /** How many events a batch has at most. Default 256, which is as many as Weir takes. */
  readonly batchEvents?: number | undefined;
  /** How many bytes a batch has at most, but for a single larger event. Default 1,000,000; Weir takes 8 MiB. */
  readonly batchBytes?: number | undefined;
  /** How long an event waits for others to share its batch, in milliseconds. Default 5. */
  readonly lingerMs?: number | undefined;
  /** How many events the buffer has room for, those under way among them. Default 10,000. */
  readonly bufferEvents?: number | undefined;
  /** How many bytes the buffer has room for. Default 32 MiB. */
  readonly bufferBytes?: number | undefined;
  /**
   * What becomes of an event that finds no room. "wait", the default: it is taken, and waits its turn with the others;
   * awaiting its receipt, or `ready()` before the next, is what keeps the buffer within its bounds. "refuse": `publish`
   * rejects at once with BUFFER_FULL, and the bounds hold by themselves.
   */
  readonly onFull?: "wait" | "refuse" | undefined;
  /** How long an event is tried before it is given up, in milliseconds. Default 120,000. */
  readonly timeoutMs?: number | undefined;
  /** Told of every event that is not acknowledged. The promise of its `publish` then needs no handler of its own. */
  readonly onRefused?: ((error: PublishError) => void) | undefined;
  /** Raised, it ends the publisher at once: calls are broken off, and what is not settled is CANCELLED. */
  readonly signal?: AbortSignal | undefined;
}

/** Publishes events in batches, and repeats what may be repeated. */
export interface Publisher extends AsyncDisposable {
  /**
   * Resolves with the receipt once the event is on the log. Rejects with a PublishError where it was refused, or given up
   * while its fate was unknown.
   *
   * Events of one key (the extension partitionkey, else source and subject) go onto the log in the order of the calls:
   * while one of them is repeated, those after it wait. One that is refused or given up holds back none.
   *
   * The signal ends the wait. An event that was not sent by then never will be; of one that was, the fate is unknown.
   */
  publish(event: CloudEvent, options?: { readonly signal?: AbortSignal | undefined }): Promise<Receipt>;
  /**
   * Resolves when the buffer has room, for those who ask in the order of their asking: each has a place of its own, which
   * is kept for a second. So however many producers await it, each before it publishes, the buffer keeps its bounds (of
   * the bytes, but for the last event). Never rejects.
   */
  ready(): Promise<void>;
  /** Sends what is there without waiting for more, and resolves when each has a receipt or a refusal. Never rejects. */
  flush(): Promise<void>;
  /** Takes no further event, and flushes. `await using` ends with it. */
  close(): Promise<void>;
  /** How much has neither a receipt nor a refusal yet. */
  readonly buffered: { readonly events: number; readonly bytes: number };
}

/**
 * A publisher over a client whose transport speaks protobuf. `hasFreshTokens`: every call has a token of its own. Throws a
 * RangeError for a limit that is none.
 */
export function createPublisher(
  ingest: Client<typeof IngestService>,
  options: PublisherOptions = {},
  hasFreshTokens = false,
): Publisher {
  const { batchEvents = 256, batchBytes = 1_000_000, lingerMs = 5, timeoutMs = 120_000 } = options;
  const { bufferEvents = 10_000, bufferBytes = 2 ** 25, onFull = "wait", onRefused, signal: stop } = options;
  const bounds = { batchEvents, batchBytes, timeoutMs, bufferEvents, bufferBytes };
  for (const [name, value] of Object.entries({ ...bounds, lingerMs })) {
    const least = name === "lingerMs" ? 0 : 1;
    if (!(value >= least)) throw new RangeError(`${name} must be at least ${least}, not ${value}`);
    if (name.endsWith("Events") && value % 1) throw new RangeError(`${name} must be whole, not ${value}`);
  }

  // On its own, so that what it throws is seen and breaks nothing here.
  const tell = (error: PublishError): void => {
    if (onRefused !== undefined) queueMicrotask(() => onRefused(error));
  };
  const timers = createTimers();
  const lanes = createLanes<Entry>();
  const unsettled = createUnsettled({
    timers,
    timeoutMs,
    onEnd: () => places.free(),
    onRefused: tell,
    onTimeout(entry) {
      const last = entry.answer;
      const reason = last === undefined ? "DEADLINE_EXCEEDED" : (last.reason ?? "UNREACHABLE");
      const answer = last === undefined ? "there was no answer" : `the last answer was: ${last.message}`;
      giveUp(entry, reason, `${String(timeoutMs)} ms have passed, and ${answer}`);
    },
  });
  const limits = { events: batchEvents, bytes: batchBytes };
  const places = createPlaces({ events: bufferEvents, bytes: bufferBytes }, () => unsettled.size, timers);
  const cancels = createCancels();
  const sending = createSending({
    ingest,
    hasFreshTokens,
    lanes,
    unsettled,
    timers,
    limits,
    lingerMs,
    signal: stop,
  });
  let isClosed = false;

  const giveUp = (entry: Entry, reason: PublishReason, text: string): void => {
    lanes.withdraw(entry);
    unsettled.refuse(entry, reason, text);
  };
  const end = (): void => {
    isClosed = true;
    places.open();
    for (const entry of unsettled.entries)
      giveUp(entry, "CANCELLED", "the publisher was ended by its signal");
    timers.clearAll();
  };
  const flush = async (): Promise<void> => {
    const left = new Set(unsettled.entries);
    if (left.size === 0) return;
    await new Promise<void>((resolve) => {
      unsettled.watch((ended) => {
        left.delete(ended);
        if (left.size === 0) resolve();
        return left.size === 0;
      });
      sending.hurry();
    });
  };
  const close = async (): Promise<void> => {
    isClosed = true;
    await flush();
    stop?.removeEventListener("abort", end);
  };
  if (stop?.aborted === true) end();
  stop?.addEventListener("abort", end, { once: true });

  /** Why an event cannot be taken. */
  const objection = (signal: AbortSignal | undefined): [PublishReason, string] | undefined => {
    if (signal?.aborted === true || stop?.aborted === true)
      return ["CANCELLED", "the signal was raised before"];
    if (isClosed) return ["CLOSED", "the publisher is closed"];
    if (onFull === "refuse" && places.isFull) return ["BUFFER_FULL", "the publisher's buffer is full"];
    return undefined;
  };

  return {
    publish(event, { signal } = {}) {
      const receipt = new Promise<Receipt>((resolve, reject) => {
        const encoded = encode(event);
        if (encoded instanceof PublishError) {
          reject(encoded);
          tell(encoded);
          return;
        }
        const against = objection(signal);
        const cancel = (): void => giveUp(entry, "CANCELLED", "the signal was raised");
        const entry: Entry = {
          ...encoded,
          resolve,
          reject,
          release: signal && (() => cancels.remove(signal, cancel)),
          deadline: 0,
          attempts: 0,
          isSent: false,
          isUnknown: false,
          answer: undefined,
        };
        unsettled.add(entry);
        if (against !== undefined) {
          unsettled.refuse(entry, ...against);
          return;
        }
        if (signal !== undefined) cancels.add(signal, cancel);
        lanes.add(entry);
        places.take(entry.bytes);
        sending.wake();
      });
      if (onRefused !== undefined) receipt.catch(() => {});
      return receipt;
    },
    ready: () => places.ready(),
    flush,
    close,
    [Symbol.asyncDispose]: close,
    get buffered() {
      return unsettled.size;
    },
  };
}

function encode(event: CloudEvent): Pick<Entry, "key" | "request" | "bytes"> | PublishError {
  try {
    if (!isWellFormed(event)) throw new TypeError("it holds a lone surrogate, which has no UTF-8");
    const request = toBinary(
      BatchCreateEventsRequestSchema,
      create(BatchCreateEventsRequestSchema, { events: [event] }),
    );
    return { key: keyOf(event), request, bytes: request.length };
  } catch (error) {
    const text = `it cannot be encoded: ${String(error)}`;
    return new PublishError(event, { reason: "INVALID_ATTRIBUTES", outcome: "refused", text });
  }
}

/** What the server takes for the event's partition key. */
function keyOf(event: CloudEvent): string {
  const own = attributeOf(event, "partitionkey");
  if (own) return own;
  const subject = attributeOf(event, "subject");
  return subject === undefined ? event.source : `${event.source}#${subject}`;
}
