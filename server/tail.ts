import { type ConnectError, type ServiceImpl } from "@connectrpc/connect";
import { type Fault } from "#core/reason.ts";
import { type TailService } from "#gen/weir/v1/tail_pb.ts";
import { type Database } from "#postgres/pool.ts";
import { type Telemetry } from "#runtime/telemetry.ts";
import { failureOf, toConnectError } from "./errors.ts";
import { endOf } from "./http/deadlines.ts";
import { onAbort } from "./http/rpc-call.ts";
import { toReadError } from "./read-errors.ts";
import { type SchemaWatch } from "./schema-watch.ts";
import { speaksJson } from "./search.ts";
import { createCursorOf } from "./tail/cursors.ts";
import { tailMessages } from "./tail/messages.ts";
import { type TailReader } from "./tail/reader.ts";
import { tailCapacityReached } from "./tail/refusals.ts";
import { readTailRequest } from "./tail/request.ts";
import { findStart } from "./tail/start.ts";
import { createTailStore } from "./tail/store.ts";
import { createTurns } from "./turns.ts";

/** What TailService needs. */
export interface TailServiceOptions {
  /** For reading alone; it has a connection for each of `reads` and one for the reader. */
  readonly database: Database;
  readonly schema: Pick<SchemaWatch, "behind">;
  readonly reader: TailReader;
  /** Of the events. */
  readonly topic: string;
  /** How many tails may be open. */
  readonly streams: number;
  /** How many of them may read the store at once. */
  readonly reads: number;
  readonly telemetry: Telemetry;
}

/** How long a tail waits for its turn to read the store before it looks after its heartbeats, in milliseconds. */
const TURN_MS = 500;
const ADVICE = "Ask for fewer, or narrow the filter by a condition that most events do not fulfil.";

/** weir.v1.TailService over the one reader of the process and the store. */
export function createTailService(options: TailServiceOptions): ServiceImpl<typeof TailService> {
  const { reader, schema, topic, streams, reads } = options;
  const turns = createTurns({ concurrency: reads, queue: streams, waitMs: TURN_MS });
  const cursorOf = createCursorOf(topic);
  const store = createTailStore({ ...options, turns });
  const parts = { ...options, store, cursorOf, turns };
  return {
    async *tailEvents(request, context) {
      const asked = readTailRequest(request, { topic, now: Date.now() });
      if (!asked.ok) throw refusal(asked.faults);
      const { signal, responseHeader } = context;
      if (reader.tails >= streams) throw tailCapacityReached(streams, "WEIR_TAIL_STREAMS");
      using following = reader.follow();
      // However it ends: one that nobody reads any more may never be asked to go on.
      onAbort(signal, () => following[Symbol.dispose]());
      // Neither kept by caches nor gathered by proxies.
      responseHeader.set("cache-control", "no-store");
      responseHeader.set("x-accel-buffering", "no");
      try {
        const from = await findStart(parts, asked.value, signal);
        yield { message: { case: "opened", value: { cursor: cursorOf(from) } } };
        const form = !asked.value.withData ? "summary" : speaksJson(context) ? "json" : "data";
        yield* tailMessages(parts, { ...asked.value, from, form }, signal);
      } catch (cause) {
        if (signal.aborted) throw endOf(signal);
        throw toReadError(cause, schema.behind, ADVICE) ?? cause;
      }
    },
  };
}

/** @param faults at least one */
function refusal(faults: readonly [Fault, ...Fault[]]): ConnectError {
  return toConnectError(failureOf(faults));
}
