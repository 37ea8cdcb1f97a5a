import { createEvaluator } from "#core/filter/evaluate.ts";
import { type Filter } from "#core/filter/tree.ts";
import { type Fault, type Result } from "#core/reason.ts";
import { decodeTailCursor, type LogOffsets } from "#core/tail-cursor.ts";
import { OnLag, OnLagSchema, type TailEventsRequest } from "#gen/weir/v1/tail_pb.ts";
import { readFilter } from "../filter.ts";
import { toMicros } from "../wire.ts";
import { type TailFilter } from "./stretch.ts";

/** Where a tail is to begin. */
export type TailStart =
  | { readonly at: "cursor"; readonly place: LogOffsets }
  | { readonly at: "latest" }
  /** In milliseconds since 1970. */
  | { readonly at: "time"; readonly time: number }
  | { readonly at: "last"; readonly count: number };

/** What a tail is asked for. */
export interface TailQuestion {
  /** undefined: all. */
  readonly filter: Filter | undefined;
  /** The same, ready to be asked. */
  readonly matching: TailFilter;
  readonly start: TailStart;
  /** Whether it is moved on where it has fallen behind. */
  readonly skips: boolean;
  readonly heartbeatMs: number;
  readonly withData: boolean;
}

const MAX_LAST = 1_000;
const DEFAULT_HEARTBEAT_MS = 15_000;
const HEARTBEAT_MS = { least: 1_000, most: 60_000 };
/** How far ahead of this server's clock from_time may be, for those whose own is ahead. */
const TIME_AHEAD_MS = 60_000;

/** What a request asks for, or every fault of it. */
export function readTailRequest(
  request: TailEventsRequest,
  { topic, now }: { readonly topic: string; readonly now: number },
): Result<TailQuestion> {
  const faults: Fault[] = [];
  const invalid = (field: string, description: string): void => {
    faults.push({ field, reason: "INVALID_REQUEST", description });
  };
  const asked = readFilter(request.filter);
  if (!asked.ok) faults.push(...asked.faults);
  const start = readStart(request.start, topic, now, faults);
  const { onLag } = request;
  if (OnLagSchema.value[onLag] === undefined)
    invalid("on_lag", `${String(onLag)} is none: give ON_LAG_CATCH_UP or ON_LAG_SKIP.`);
  const { heartbeatInterval: interval } = request;
  const heartbeatMs =
    interval === undefined
      ? DEFAULT_HEARTBEAT_MS
      : Number(interval.seconds) * 1_000 + interval.nanos / 1_000_000;
  if (!(heartbeatMs >= HEARTBEAT_MS.least && heartbeatMs <= HEARTBEAT_MS.most))
    invalid("heartbeat_interval", "The interval must be 1 to 60 s.");
  const [first, ...more] = faults;
  if (first !== undefined || !asked.ok) return { ok: false, faults: [first!, ...more] };
  const { filter, canonical } = asked.value;
  return {
    ok: true,
    value: {
      filter,
      matching: matchingFrom(canonical, filter, start),
      start,
      skips: onLag === OnLag.SKIP,
      heartbeatMs,
      withData: request.withData,
    },
  };
}

function readStart(
  start: TailEventsRequest["start"],
  topic: string,
  now: number,
  faults: Fault[],
): TailStart {
  const invalid = (field: string, description: string): void => {
    faults.push({ field, reason: "INVALID_REQUEST", description });
  };
  switch (start.case) {
    case "cursor": {
      const place = decodeTailCursor(start.value, topic);
      if (place.ok) return { at: "cursor", place: place.value };
      faults.push(...place.faults);
      break;
    }
    case "fromTime": {
      const micros = toMicros(start.value);
      if (micros === undefined)
        invalid(
          "from_time",
          "The time must lie in the years 0001 to 9999, with nanos from 0 to 999,999,999.",
        );
      // Times of acceptance are in milliseconds.
      else if (Number(micros) / 1_000 > now + TIME_AHEAD_MS)
        invalid("from_time", "The time lies ahead, where nothing was accepted yet: begin with from_latest.");
      else return { at: "time", time: Math.ceil(Number(micros) / 1_000) };
      break;
    }
    case "last":
      if (start.value >= 1 && start.value <= MAX_LAST) return { at: "last", count: start.value };
      invalid("last", `${String(start.value)} is not 1 to ${String(MAX_LAST)}.`);
      break;
    default:
  }
  return { at: "latest" };
}

/** The filter, and that an event was not accepted before the time to begin with. */
function matchingFrom(canonical: string, filter: Filter | undefined, start: TailStart): TailFilter {
  const matches = createEvaluator(filter);
  if (start.at !== "time") return { canonical, matches };
  const { time } = start;
  return {
    canonical: `${canonical}\0${String(time)}`,
    matches: (event, now) => event.stored.acceptTime >= time && matches(event, now),
  };
}
