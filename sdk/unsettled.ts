import { fromBinary } from "@bufbuild/protobuf";
import { type WeirError } from "./error.ts";
import { type Receipt } from "./gen/weir/v1/event_pb.ts";
import { BatchCreateEventsRequestSchema } from "./gen/weir/v1/ingest_pb.ts";
import { type Waiting } from "./lanes.ts";
import { PublishError, type PublishReason } from "./publish-error.ts";
import { type Timer, type Timers } from "./timers.ts";

/** An event that was handed in. */
export interface Entry extends Waiting {
  /** The event alone as a request: encoded once, however often it is sent. */
  readonly request: Uint8Array;
  readonly resolve: (receipt: Receipt) => void;
  readonly reject: (error: PublishError) => void;
  /** What is to be undone once it is settled. */
  readonly release: (() => void) | undefined;
  /** When it is given up, by Date.now(). */
  deadline: number;
  attempts: number;
  /** Whether it is in a call now. */
  isSent: boolean;
  /** Whether an earlier call may have published it. */
  isUnknown: boolean;
  /** The last that was said of it. */
  answer: WeirError | undefined;
}

/** The events that have neither a receipt nor a refusal yet. */
export interface Unsettled {
  readonly size: { readonly events: number; readonly bytes: number };
  readonly entries: ReadonlySet<Entry>;
  add(entry: Entry): void;
  /** Ends an event with its receipt; nothing happens where it has ended before, as with `refuse`. */
  accept(entry: Entry, receipt: Receipt): void;
  refuse(entry: Entry, reason: PublishReason, text: string): void;
  /** Calls `watch` at the end of each event from now on, until it returns true. */
  watch(watch: (ended: Entry) => boolean): void;
}

/** What it takes to keep the unsettled events. */
export interface UnsettledOptions {
  readonly timers: Timers;
  /** How long after `add` an event is given up, in milliseconds. */
  readonly timeoutMs: number;
  /** Gives an event up. */
  readonly onTimeout: (entry: Entry) => void;
  /** Told of every end. */
  readonly onEnd: () => void;
  /** Told of every refusal; it does not throw. */
  readonly onRefused: (error: PublishError) => void;
}

/** No events yet. */
export function createUnsettled({
  timers,
  timeoutMs,
  onTimeout,
  onEnd,
  onRefused,
}: UnsettledOptions): Unsettled {
  /** In the order of their deadlines. */
  const entries = new Set<Entry>();
  const watchers = new Set<(ended: Entry) => boolean>();
  let bytes = 0;
  let timer: Timer | undefined;

  const end = (entry: Entry): boolean => {
    if (!entries.delete(entry)) return false;
    bytes -= entry.bytes;
    entry.release?.();
    if (entries.size === 0) {
      timers.clear(timer);
      timer = undefined;
    }
    for (const watch of watchers) if (watch(entry)) watchers.delete(watch);
    onEnd();
    return true;
  };

  const expire = (): void => {
    timer = undefined;
    const now = Date.now();
    for (const entry of entries) {
      if (entry.deadline > now) {
        timer = timers.set(entry.deadline - now, expire);
        return;
      }
      onTimeout(entry);
    }
  };

  return {
    entries,
    get size() {
      return { events: entries.size, bytes };
    },
    add(entry) {
      entry.deadline = Date.now() + timeoutMs;
      entries.add(entry);
      bytes += entry.bytes;
      timer ??= timers.set(timeoutMs, expire);
    },
    accept(entry, receipt) {
      if (end(entry)) entry.resolve(receipt);
    },
    refuse(entry, reason, text) {
      if (!end(entry)) return;
      const { answer } = entry;
      const outcome = entry.isSent || entry.isUnknown ? "unknown" : "refused";
      const { events } = fromBinary(BatchCreateEventsRequestSchema, entry.request);
      const error = new PublishError(events[0]!, { reason, outcome, text, answer });
      entry.reject(error);
      onRefused(error);
    },
    watch: (watch) => void watchers.add(watch),
  };
}
