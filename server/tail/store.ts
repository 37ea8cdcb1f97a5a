import { type LogOffsets } from "#core/tail-cursor.ts";
import { type LogFloor, logFloor } from "#postgres/log-floor.ts";
import { readLog } from "#postgres/log-reader.ts";
import { type Database } from "#postgres/pool.ts";
import { type Telemetry } from "#runtime/telemetry.ts";
import { type Turns } from "../turns.ts";
import { furthest, hasReached } from "./places.ts";
import { createStretch, type Stretch } from "./stretch.ts";

/** What reading the store for tails that are behind needs. */
export interface TailStoreOptions {
  readonly database: Database;
  readonly topic: string;
  /** How many may read at once. */
  readonly turns: Turns;
  readonly telemetry: Pick<Telemetry, "count">;
}

/** What a tail that is behind gets. */
export type Found =
  | { readonly outcome: "stretch"; readonly stretch: Stretch }
  /** Retention has removed events from there on: `oldest` is the first place of which that is not so, from there on. */
  | { readonly outcome: "expired"; readonly oldest: LogOffsets }
  /** Others read, as many as may. Ask again. */
  | { readonly outcome: "busy" };

/** Reads the store for tails that the ring does not reach. */
export interface TailStore {
  /**
   * The stretch from a place on, towards another. It is kept for its tail for a while, so that a tail may hold no stretch itself
   * and yet need not read it again to go on with it.
   */
  read(tail: object, from: LogOffsets, to: LogOffsets, signal: AbortSignal): Promise<Found>;
  /** How far retention has come, as it was known a few seconds ago at least. */
  floor(): Promise<LogFloor>;
}

/** About what one statement brings at most. */
const READ_BYTES = 1024 * 1024;
/** How many stretches are kept, of all tails. */
const MOST_KEPT = 16;
/** How old an answer of `floor` may be, in milliseconds: many begin at once after a server was away. */
const FLOOR_MS = 5_000;

/** The store, as tails read it: bounded in how many do at once, and in what is held for all of them. */
export function createTailStore({ database, topic, turns, telemetry }: TailStoreOptions): TailStore {
  const kept = new Map<object, Stretch>();

  let floor: { readonly at: number; readonly known: Promise<LogFloor> } | undefined;

  return {
    floor() {
      const now = performance.now();
      if (floor === undefined || now - floor.at > FLOOR_MS) {
        const known = logFloor(database, topic);
        floor = { at: now, known };
        known.catch(() => (floor = undefined));
      }
      return floor.known;
    },
    async read(tail, from, to, signal) {
      const known = kept.get(tail);
      if (known !== undefined) {
        kept.delete(tail);
        if (hasReached(from, known.start) && !hasReached(from, known.end)) {
          kept.set(tail, known);
          return { outcome: "stretch", stretch: known };
        }
      }
      using turn = await turns.take(signal);
      if (turn === undefined) return { outcome: "busy" };
      const read = await readLog(database, topic, { from, to, bytes: READ_BYTES }, signal);
      telemetry.count("weir.tail.reads", { by: "catch_up" });
      // Afterwards: what retention took away before the rows were read is seen here.
      const { offsets: first } = await logFloor(database, topic, signal);
      if (!hasReached(from, first)) return { outcome: "expired", oldest: furthest(from, first) };
      const stretch = createStretch(from, read);
      if (stretch.events.length > 0) {
        kept.set(tail, stretch);
        for (const other of kept.keys()) {
          if (kept.size <= MOST_KEPT) break;
          kept.delete(other);
        }
      }
      return { outcome: "stretch", stretch };
    },
  };
}
