import { type MessageInitShape } from "@bufbuild/protobuf";
import { type LogOffsets } from "#core/tail-cursor.ts";
import { type Event } from "#gen/weir/v1/event_pb.ts";
import { type TailEventsResponseSchema } from "#gen/weir/v1/tail_pb.ts";
import { classify } from "#postgres/failures.ts";
import { type Telemetry } from "#runtime/telemetry.ts";
import { fromMillis } from "../wire.ts";
import { type CursorOf } from "./cursors.ts";
import { distance, furthest } from "./places.ts";
import { type TailReader } from "./reader.ts";
import { cursorExpired } from "./refusals.ts";
import { type TailQuestion } from "./request.ts";
import { type TailStore } from "./store.ts";
import { type Form, type Stretch, type TailEvent } from "./stretch.ts";

/** A message of a tail. */
export type TailMessage = MessageInitShape<typeof TailEventsResponseSchema>;

/** What the messages of a tail are made of. */
export interface TailMessagesOptions {
  readonly reader: Pick<TailReader, "ring">;
  readonly store: Pick<TailStore, "read">;
  readonly cursorOf: CursorOf;
  readonly telemetry: Pick<Telemetry, "count" | "record">;
}

/** A batch at most. A stalled client holds about one, so it is small. */
const BATCH_EVENTS = 100;
const BATCH_BYTES = 64 * 1024;
/** A tail that may be moved on reads so many records from the store before it is. */
const SKIP_RECORDS = 10_000n;
/** From one try to the next while the database is away, in milliseconds. */
const RETRY_MS = 1_000;

/**
 * The messages of a tail from a place on, but for the first; each is made when the one before was taken, and meanwhile nothing is
 * held but the place. Goes on until the signal is raised, and then throws its reason.
 */
export async function* tailMessages(
  options: TailMessagesOptions,
  question: TailQuestion & { readonly from: LogOffsets; readonly form: Form },
  signal: AbortSignal,
): AsyncGenerator<TailMessage> {
  const next = createTail(options, question, signal);
  // Held by nothing here while it goes out.
  for (;;) yield await next();
}

function createTail(
  { reader: { ring }, store, cursorOf, telemetry }: TailMessagesOptions,
  { from, form, matching, start, skips, heartbeatMs }: TailQuestion & { from: LogOffsets; form: Form },
  signal: AbortSignal,
): () => Promise<TailMessage> {
  const own = {};
  let at = from;
  // The stretch of the ring that comes next, and the first of its matching events that was not sent; undefined outside the ring.
  let number: number | undefined;
  let index = 0;
  // Where it was asked for a beginning in the past, it is only behind once it has been at the front.
  let mayBeMoved = skips && (start.at === "cursor" || start.at === "latest");

  /** The next events of a stretch that are to be sent, and goes on after them. Says whether those are the last. */
  function take(
    stretch: Stretch,
    first: number,
  ): { readonly events: Event[]; readonly rest: number | undefined } {
    const indices = stretch.matching(matching);
    const isWhole = at === stretch.start;
    const taken: TailEvent[] = [];
    const events: Event[] = [];
    let bytes = 0;
    for (let each = first; each < indices.length; each += 1) {
      const event = stretch.events[indices[each]!]!;
      if (!isWhole && event.offset < (at.get(event.partition) ?? 0n)) continue;
      const { message, size } = event.shown(form);
      if (events.length > 0 && (bytes + size > BATCH_BYTES || events.length === BATCH_EVENTS)) {
        const place = new Map(at);
        for (const { partition, offset } of taken) place.set(partition, offset + 1n);
        at = place;
        return { events, rest: each };
      }
      taken.push(event);
      events.push(message);
      bytes += size;
    }
    at = furthest(at, stretch.end);
    return { events, rest: undefined };
  }

  function batchOf(events: Event[], source: "ring" | "store"): TailMessage {
    telemetry.count("weir.tail.events", { source }, events.length);
    return { message: { case: "batch", value: { events, cursor: cursorOf(at) } } };
  }

  function gapTo(place: LogOffsets, reason: "LAG" | "EXPIRED"): TailMessage {
    telemetry.count("weir.tail.gaps", { reason });
    const value = { missed: distance(at, place), cursor: cursorOf(place), reason, fromCursor: cursorOf(at) };
    at = place;
    number = undefined;
    return { message: { case: "gap", value } };
  }

  /** What the ring has to send; undefined where there is nothing, or it does not reach so far back. */
  function fromRing(): TailMessage | undefined {
    for (;;) {
      if (number === undefined) {
        number = ring.numberFor(at);
        index = 0;
        if (number === undefined) return undefined;
      }
      mayBeMoved = skips;
      const stretch = ring.get(number);
      if (stretch === undefined) {
        if (number >= ring.next) return undefined;
        number = undefined;
        continue;
      }
      const { events, rest } = take(stretch, index);
      if (rest === undefined) number += 1;
      index = rest ?? 0;
      if (events.length > 0) return batchOf(events, "ring");
    }
  }

  /** What the store has to send to one that is behind; undefined where there is nothing to send for now. */
  async function fromStore(to: LogOffsets): Promise<TailMessage | undefined> {
    if (mayBeMoved && distance(at, to) > SKIP_RECORDS) return gapTo(to, "LAG");
    const found = await store.read(own, at, to, signal);
    switch (found.outcome) {
      case "busy":
        return undefined;
      case "expired":
        if (!skips) throw cursorExpired(cursorOf(found.oldest));
        return gapTo(found.oldest, "EXPIRED");
      case "stretch": {
        const { events } = take(found.stretch, 0);
        return events.length > 0 ? batchOf(events, "store") : undefined;
      }
    }
  }

  return async () => {
    const due = performance.now() + heartbeatMs;
    for (;;) {
      signal.throwIfAborted();
      const live = fromRing();
      if (live !== undefined) return live;
      const left = due - performance.now();
      if (left <= 0)
        return {
          message: { case: "heartbeat", value: { cursor: cursorOf(at), time: fromMillis(Date.now()) } },
        };
      if (number !== undefined || ring.end === undefined) {
        await ring.wait(left, signal);
        continue;
      }
      try {
        const stored = await fromStore(ring.end);
        if (stored !== undefined) return stored;
      } catch (error) {
        if (signal.aborted || classify(error) !== "unavailable") throw error;
        await ring.wait(Math.min(RETRY_MS, left), signal);
      }
    }
  };
}
