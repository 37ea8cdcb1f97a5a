import { Code, type ConnectError } from "@connectrpc/connect";
import { formatEventName } from "#core/event-name.ts";
import { quote } from "#core/faults.ts";
import { firstMonth } from "#postgres/journey.ts";
import { type Passed } from "#postgres/log-audit.ts";
import { type Database } from "#postgres/pool.ts";
import { toConnectError } from "../errors.ts";
import { type Facts, otherTimes, placeText, type Sought } from "./journey-facts.ts";
import { type LogAnswer, type LogLook, type Ranges } from "./journey-log.ts";
import { type InReadTurn } from "./reads.ts";

/** What was looked at in vain. */
export interface Vain {
  readonly sought: Sought;
  readonly facts: Facts;
  /** How far the group has come, by partition. */
  readonly passed: ReadonlyMap<number, Passed>;
  /** What the log has at the position. */
  readonly onLog: LogAnswer | undefined;
  readonly look: LogLook;
}

/** The error of an event of which nothing was seen, with what is known beside that. */
export async function notFound(
  { database, inReadTurn }: { readonly database: Database; readonly inReadTurn: InReadTurn },
  { sought, facts, passed, onLog, look }: Vain,
  signal: AbortSignal,
): Promise<ConnectError> {
  const name = quote(formatEventName(sought.source, sought.id));
  if (sought.position !== undefined && onLog?.isPassing === true)
    return toConnectError({
      code: Code.Unavailable,
      reason: "KAFKA_UNAVAILABLE",
      message: `The store has seen nothing of ${name}, and whether the log has it at ${placeText(sought.position)} cannot be found out: ${onLog.why}. Try again.`,
      retryAfterMs: 1_000,
    });
  const ranges = await look.ranges();
  const month = await inReadTurn({ method: "journey", signal }, () => firstMonth(database, signal));
  const waiting = ranges && inFlight(ranges, passed);
  const others = otherTimes(facts, sought.time).length;
  const told = [
    `Nothing has been seen of ${name}${sought.time === undefined ? "" : " with this time"}: it is not stored, and no dead letter is of it.`,
    ...(others > 0 ? [`Of this name there are events with ${others} other times.`] : []),
    ...(sought.position === undefined ? [] : [atPosition(sought.position, onLog, ranges)]),
    waiting === undefined
      ? "How many records are still to be consumed is not known: Kafka did not say."
      : waiting === 0n
        ? "All records of the log have been consumed."
        : `${waiting} records of the log are still to be consumed, and it may be among them: ask again, or with the position of its receipt.`,
    ...(month === undefined ? [] : [`Events are kept that occurred since ${month}.`]),
  ];
  return toConnectError({
    code: Code.NotFound,
    reason: "EVENT_NOT_FOUND",
    message: told.join(" "),
    metadata: {
      ...(waiting !== undefined && { in_flight: String(waiting) }),
      ...(month !== undefined && { kept_since: month }),
      ...(others > 0 && { other_times: String(others) }),
    },
  });
}

/** How many records the log has that were not consumed. */
function inFlight(ranges: Ranges, passed: Vain["passed"]): bigint {
  let sum = 0n;
  for (const [partition, { start, end }] of ranges) {
    const at = passed.get(partition)?.highWater ?? start;
    const from = at > start ? at : start;
    if (end > from) sum += end - from;
  }
  return sum;
}

function atPosition(
  position: NonNullable<Sought["position"]>,
  onLog: LogAnswer | undefined,
  ranges: Ranges | undefined,
): string {
  const place = placeText(position);
  if (onLog?.why !== undefined) return `What stands at ${place} is not known: ${onLog.why}.`;
  const range = ranges?.get(position.partition);
  const holds = range && ` The log holds the offsets from ${range.start} to below ${range.end} there.`;
  return `There is no record at ${place}.${holds ?? ""}`;
}
