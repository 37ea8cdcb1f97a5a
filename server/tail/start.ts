import { type LogOffsets } from "#core/tail-cursor.ts";
import { placesAt, placesOfNewest } from "#postgres/log-places.ts";
import { type Database } from "#postgres/pool.ts";
import { type Turns } from "../turns.ts";
import { type CursorOf } from "./cursors.ts";
import { furthest, hasReached } from "./places.ts";
import { type TailReader } from "./reader.ts";
import { cursorExpired, progressUnknown, tailCapacityReached } from "./refusals.ts";
import { type TailQuestion } from "./request.ts";
import { type TailStore } from "./store.ts";

/** What finding the beginning of a tail needs. */
export interface TailStartOptions {
  readonly database: Database;
  readonly topic: string;
  readonly reader: TailReader;
  readonly store: TailStore;
  /** How many may look for their beginning and read the store at once, and how many that is. */
  readonly turns: Turns;
  readonly reads: number;
  readonly cursorOf: CursorOf;
}

/** How long it may take until it is known how far the store has come, in milliseconds. */
const KNOWN_MS = 3_000;
/** The clocks of servers, by which events were accepted, differ by less, in milliseconds. */
const SKEW_MS = 60_000;
/** How many records of a partition `last` looks at. */
const LOOK_BACK = 100_000n;

/**
 * The place where a tail begins.
 *
 * @throws ConnectError as TailEvents says; what the database said.
 */
export async function findStart(
  options: TailStartOptions,
  question: TailQuestion,
  signal: AbortSignal,
): Promise<LogOffsets> {
  const { start, skips } = question;
  const { ring } = options.reader;
  const now = Date.now();
  const until = performance.now() + KNOWN_MS;
  while (ring.end === undefined) {
    const left = until - performance.now();
    if (left <= 0) throw progressUnknown();
    await ring.wait(left, signal);
    signal.throwIfAborted();
  }
  if (start.at === "latest") return ring.end;
  if (start.at === "cursor" && ring.numberFor(start.place) !== undefined) return start.place;
  const place = start.at === "cursor" ? start.place : await search(options, question, ring.end, now, signal);
  const floor = await options.store.floor();
  const oldest = furthest(place, floor.offsets);
  // What is gone is none of the newest.
  if (start.at === "last") return oldest;
  const isExpired =
    !hasReached(place, floor.offsets) ||
    (start.at === "time" && floor.receiveTime !== undefined && start.time <= floor.receiveTime);
  if (isExpired && !skips) throw cursorExpired(options.cursorOf(oldest));
  return place;
}

async function search(
  { database, topic, turns, reads }: TailStartOptions,
  { filter, start }: TailQuestion,
  to: LogOffsets,
  now: number,
  signal: AbortSignal,
): Promise<LogOffsets> {
  using turn = await turns.take(signal);
  if (turn === undefined) throw tailCapacityReached(reads, "WEIR_TAIL_READS");
  if (start.at === "time") return placesAt(database, topic, { time: start.time - SKEW_MS, to }, signal);
  if (start.at !== "last") return to;
  return placesOfNewest(
    database,
    topic,
    { filter, now, count: start.count, to, lookBack: LOOK_BACK },
    signal,
  );
}
