import { type Filter, type TimeValue } from "./tree.ts";

/** A stretch of time in microseconds since 1970. */
export interface TimeBounds {
  /** The first moment of it; undefined: none is too early. */
  readonly from?: bigint;
  /** The first moment after it; undefined: none is too late. */
  readonly before?: bigint;
}

/** When a moment of a filter is, in microseconds since 1970, asked at `now`, milliseconds since 1970. */
export function microsOf(value: TimeValue, now: number): bigint {
  return value.kind === "time" ? value.micros : BigInt(now + value.plusMs) * 1_000n;
}

/** The `time` that every event has that the filter matches; a stretch without bounds where the filter does not say. */
export function timeBounds(filter: Filter, now: number): TimeBounds {
  switch (filter.kind) {
    case "and":
      return filter.of
        .map((each) => timeBounds(each, now))
        .reduce((a, b) => stretch(latest(a.from, b.from), earliest(a.before, b.before)));
    case "or":
      return filter.of
        .map((each) => timeBounds(each, now))
        .reduce((a, b) =>
          stretch(
            a.from === undefined || b.from === undefined ? undefined : earliest(a.from, b.from),
            a.before === undefined || b.before === undefined ? undefined : latest(a.before, b.before),
          ),
        );
    case "compare": {
      if (filter.field.kind !== "time" || filter.field.name !== "time") return {};
      const at = microsOf(filter.value as TimeValue, now);
      switch (filter.op) {
        case "=":
          return { from: at, before: at + 1n };
        case "<":
          return { before: at };
        case "<=":
          return { before: at + 1n };
        case ">":
          return { from: at + 1n };
        case ">=":
          return { from: at };
      }
    }
    // falls through
    default:
      return {};
  }
}

function stretch(from: bigint | undefined, before: bigint | undefined): TimeBounds {
  return { ...(from !== undefined && { from }), ...(before !== undefined && { before }) };
}

function latest(a: bigint | undefined, b: bigint | undefined): bigint | undefined {
  return a === undefined || (b !== undefined && b > a) ? b : a;
}

function earliest(a: bigint | undefined, b: bigint | undefined): bigint | undefined {
  return a === undefined || (b !== undefined && b < a) ? b : a;
}
