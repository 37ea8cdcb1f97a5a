import { timeBounds, type TimeBounds } from "#core/filter/time-bounds.ts";
import { type Condition, type Filter, type SeverityValue } from "#core/filter/tree.ts";
import { type KINDS } from "./rollup-counts.ts";

/** What a filter asks of sums: those of a stretch of time, of some types or some sources, and ranges of severity. */
export interface RollupFilter {
  readonly bounds: TimeBounds;
  /** The filter without its bounds of time; undefined: all. */
  readonly rest: Filter | undefined;
  /** Which sums tell. Of those of a type or source, what is not kept apart cannot. */
  readonly kind: keyof typeof KINDS;
}

/** A filter as sums can be asked; undefined where only the events themselves can tell. `now` as of `timeBounds`. */
export function rollupFilter(filter: Filter | undefined, now: number): RollupFilter | undefined {
  if (filter === undefined) return { bounds: {}, rest: undefined, kind: "all" };
  const conditions = filter.kind === "and" ? filter.of : [filter];
  const rest = conditions.filter((each) => !isTimeBound(each));
  const asked = new Set<"type" | "source">();
  if (!rest.every((each) => isTold(each, asked)) || asked.size > 1) return undefined;
  const [kind = "all"] = asked;
  return {
    bounds: timeBounds(filter, now),
    rest: rest.length > 1 ? { kind: "and", of: rest } : rest[0],
    kind,
  };
}

function isTimeBound(filter: Filter): boolean {
  return filter.kind === "compare" && filter.field.kind === "time" && filter.field.name === "time";
}

/** Whether each event of a sum gives the same answer; adds the columns that are asked about. */
function isTold(filter: Filter, asked: Set<"type" | "source">): boolean {
  switch (filter.kind) {
    case "and":
    case "or":
      return filter.of.every((each) => isTold(each, asked));
    case "not":
      return isTold(filter.of, asked);
    case "text":
      return false;
    default:
      return isConditionTold(filter, asked);
  }
}

function isConditionTold(
  condition: Exclude<Condition, { kind: "text" }>,
  asked: Set<"type" | "source">,
): boolean {
  const { field } = condition;
  if (field.kind === "string" && (field.name === "type" || field.name === "source")) {
    asked.add(field.name);
    return true;
  }
  if (field.kind !== "severity") return false;
  if (condition.kind !== "compare") return true;
  const { low, high } = condition.value as SeverityValue;
  // A border between two ranges lies below the first number of one and above the last number of another.
  const [isFirst, isLast] = [low % 4 === 1, high % 4 === 0];
  if (condition.op === "=") return isFirst && isLast;
  return condition.op === "<" || condition.op === ">=" ? isFirst : isLast;
}
