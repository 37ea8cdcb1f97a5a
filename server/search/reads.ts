import { Code, ConnectError } from "@connectrpc/connect";
import { type Reason } from "#core/reason.ts";
import { type Telemetry } from "#runtime/telemetry.ts";
import { reasonOf, toConnectError } from "../errors.ts";
import { endOf } from "../http/deadlines.ts";
import { toReadError } from "../read-errors.ts";
import { type SchemaWatch } from "../schema-watch.ts";
import { type Turns, type Urgency } from "../turns.ts";

/** What reads of the store need. */
export interface ReadsOptions {
  readonly schema: Pick<SchemaWatch, "behind">;
  /** How many reads may run at once and wait: one for each connection that reads have. */
  readonly turns: Turns;
  readonly telemetry: Telemetry;
}

/** A read of the store. */
export interface Read {
  /** What it is measured as. */
  readonly method: "search" | "get" | "facets" | "histogram" | "total" | "overview" | "journey";
  /** Raised when nobody waits for it any more. */
  readonly signal: AbortSignal;
  /** "soon" unless said otherwise. */
  readonly urgency?: Urgency;
  /** What to do where it takes too long, a sentence. */
  readonly advice?: string;
}

/**
 * Waits for a turn, reads, and measures both; a read that fails is measured too.
 *
 * @throws ConnectError for every failure that a caller is told of.
 */
export type InReadTurn = <T>(read: Read, work: () => Promise<T>) => Promise<T>;

const RETRY_AFTER_MS = 1_000;

/** The turns of the reads of a server. */
export function createInReadTurn({ turns, schema, telemetry }: ReadsOptions): InReadTurn {
  return async ({ method, signal, urgency = "soon", advice }, work) => {
    const startedAt = performance.now();
    const measure = (outcome: "ok" | Reason): void =>
      telemetry.record("weir.search.duration", { method, outcome }, (performance.now() - startedAt) / 1000);
    try {
      using turn = await turns.take(signal, urgency);
      if (turn === undefined) throw capacityReached();
      const value = await work();
      measure("ok");
      return value;
    } catch (cause) {
      const error = signal.aborted ? endOf(signal) : (toReadError(cause, schema.behind, advice) ?? cause);
      measure(error instanceof ConnectError ? (reasonOf(error) ?? "DEADLINE_EXCEEDED") : "INTERNAL");
      throw error;
    }
  };
}

function capacityReached(): ConnectError {
  return toConnectError({
    code: Code.Unavailable,
    reason: "SEARCH_CAPACITY",
    message: "As many reads run and wait as this server allows. Try again.",
    metadata: { setting: "WEIR_SEARCH_CONCURRENCY" },
    retryAfterMs: RETRY_AFTER_MS,
  });
}
