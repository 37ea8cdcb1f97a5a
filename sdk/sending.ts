import { create } from "@bufbuild/protobuf";
import { WireType } from "@bufbuild/protobuf/wire";
import { type Client } from "@connectrpc/connect";
import { type WeirError, weirErrorOf } from "./error.ts";
import {
  BatchCreateEventsRequestSchema,
  type EventResult,
  type IngestService,
} from "./gen/weir/v1/ingest_pb.ts";
import { type BatchLimits, type Lanes } from "./lanes.ts";
import { backoffMs, errorOfStatus, isPassing, isUnknown } from "./repeat.ts";
import { type Timer, type Timers } from "./timers.ts";
import { isUnsent } from "./unsent.ts";
import { type Entry, type Unsettled } from "./unsettled.ts";

/** How many calls are under way at once, with events of different keys (docs/decisions/publisher.md). */
const CONCURRENCY = 4;
/** The number of BatchCreateEventsRequest.events. */
const EVENTS_FIELD = 1;

/** Sends what waits in lanes. */
export interface Sending {
  /** To be called when something was added. */
  wake(): void;
  /** Sends what waits now without waiting for more. */
  hurry(): void;
}

/** What sending needs. */
export interface SendingOptions {
  /** Its transport speaks protobuf. */
  readonly ingest: Client<typeof IngestService>;
  /** Whether every call has a token of its own, so that an expired one is no reason to give up. */
  readonly hasFreshTokens: boolean;
  readonly lanes: Lanes<Entry>;
  readonly unsettled: Unsettled;
  readonly timers: Timers;
  readonly limits: Readonly<BatchLimits>;
  readonly lingerMs: number;
  /** Raised, it breaks off the calls. */
  readonly signal: AbortSignal | undefined;
}

/**
 * Sends batches, each event of which is settled by its own answer or put back to be sent again. Nothing of a key is sent
 * while something of it is under way or waits for its repeat.
 */
export function createSending(options: SendingOptions): Sending {
  const { ingest, hasFreshTokens, lanes, unsettled, timers, lingerMs, signal } = options;
  const limits = { ...options.limits };
  const { open } = lanes;
  let calls = 0;
  /** How many calls have failed since the last that did not. */
  let failures = 0;
  /** Whether what waits has waited long enough. */
  let isDue = false;
  let linger: Timer | undefined;
  let pause: Timer | undefined;

  const wake = (): void => {
    // While Weir is in trouble, one call at a time finds out whether it still is.
    const most = failures > 0 ? 1 : CONCURRENCY;
    const isEnough = (): boolean => isDue || open.events >= limits.events || open.bytes >= limits.bytes;
    while (pause === undefined && calls < most && open.events > 0 && isEnough())
      void send(lanes.take(limits));
    if (open.events > 0) {
      if (!isDue) linger ??= timers.set(lingerMs, hurry);
      return;
    }
    isDue = false;
    timers.clear(linger);
    linger = undefined;
  };

  const hurry = (): void => {
    linger = undefined;
    isDue = true;
    wake();
  };

  const send = async (batch: readonly Entry[]): Promise<void> => {
    calls += 1;
    for (const entry of batch) {
      entry.isSent = true;
      entry.attempts += 1;
    }
    const request = create(BatchCreateEventsRequestSchema);
    // Each is encoded: a request of one field, whose tag is a byte. On the wire the unknown fields are `events`.
    request.$unknown = batch.map((entry) => ({
      no: EVENTS_FIELD,
      wireType: WireType.LengthDelimited,
      data: entry.request.subarray(1),
    }));
    let failure: unknown;
    const answer = await ingest
      .batchCreateEvents(request, signal && { signal })
      .catch((error: unknown) => void (failure = error));
    calls -= 1;
    for (const entry of batch) entry.isSent = false;
    const error = weirErrorOf(failure);
    if (error === undefined) concludeEach(batch, answer?.results ?? []);
    else concludeCall(batch, error, isUnsent(failure));
    // What gathered meanwhile has waited long enough.
    hurry();
  };

  /** Takes note of an event's error; false where that settles it. */
  const isToRepeat = (entry: Entry, error: WeirError, wasUnsent = false): boolean => {
    entry.answer = error;
    entry.isUnknown ||= !wasUnsent && isUnknown(error);
    if (isPassing(error, hasFreshTokens)) return unsettled.entries.has(entry);
    unsettled.refuse(entry, error.reason ?? "UNREACHABLE", error.message);
    return false;
  };

  const concludeEach = (batch: readonly Entry[], results: readonly EventResult[]): void => {
    failures = 0;
    let waitMs = 0;
    const again = batch.filter((entry, index) => {
      const outcome = results[index]?.outcome;
      if (outcome?.case === "receipt") {
        unsettled.accept(entry, outcome.value);
        return false;
      }
      const error = errorOfStatus(outcome?.value);
      if (!isToRepeat(entry, error)) return false;
      waitMs = Math.max(waitMs, backoffMs(entry.attempts, error.retryAfterMs));
      return true;
    });
    lanes.putBack(again);
    const held = new Set(again.map(({ key }) => key));
    lanes.reopen(batch.map(({ key }) => key).filter((key) => !held.has(key)));
    if (held.size === 0) return;
    timers.set(waitMs, () => {
      lanes.reopen(held);
      hurry();
    });
  };

  const concludeCall = (batch: readonly Entry[], error: WeirError, wasUnsent: boolean): void => {
    const isSmaller = shrink(batch, error);
    const again = batch.filter((entry) =>
      isSmaller ? unsettled.entries.has(entry) : isToRepeat(entry, error, wasUnsent),
    );
    lanes.putBack(again);
    lanes.reopen(batch.map(({ key }) => key));
    if (isSmaller || again.length === 0 || pause !== undefined) return;
    failures += 1;
    pause = timers.set(backoffMs(failures, error.retryAfterMs), () => {
      pause = undefined;
      hurry();
    });
  };

  /** Where a batch was refused for its size alone, later ones are smaller. */
  const shrink = (batch: readonly Entry[], { reason, metadata }: WeirError): boolean => {
    if (batch.length === 1 || (reason !== "TOO_LARGE" && reason !== "MESSAGE_TOO_LARGE")) return false;
    if (metadata["unit"] === "events") limits.events = Math.min(limits.events, batch.length >> 1);
    else limits.bytes = Math.min(limits.bytes, batch.reduce((sum, { bytes }) => sum + bytes, 0) >> 1);
    return true;
  };

  return { wake, hurry };
}
