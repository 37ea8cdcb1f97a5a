import { type Fault } from "#core/reason.ts";
import { type BatchCreateEventsResponse, type EventResult } from "#gen/weir/v1/ingest_pb.ts";
import { type Admitted } from "./admit.ts";
import { toStatus } from "./errors.ts";
import { toReceipt } from "./wire.ts";

/** What became of an event, as the oneof of an answer. */
export function toOutcome(admitted: Admitted): Exclude<EventResult["outcome"], { case: undefined }> {
  return admitted.ok
    ? { case: "receipt", value: toReceipt(admitted.acceptance) }
    : { case: "error", value: toStatus(admitted.failure) };
}

/** What became of the events of a batch, by index. */
export function toBatchResponse(admitted: readonly Admitted[]): BatchCreateEventsResponse {
  const results = admitted.map((each): EventResult => ({
    $typeName: "weir.v1.EventResult",
    outcome: toOutcome(each),
  }));
  return { $typeName: "weir.v1.BatchCreateEventsResponse", results };
}

/** What a batch may hold. */
export interface BatchLimits {
  /** How many events. */
  readonly batchEvents: number;
  /** How many bytes, as the edge counts them: the events in protobuf, or the body. */
  readonly batchBytes: number;
}

/**
 * What is wrong with the size of a batch, for which it is refused before any event of it is looked at: INVALID_REQUEST for
 * no events at all, TOO_LARGE for too many or too much.
 *
 * @param field the path at this edge of what holds the events.
 */
export function batchSizeFaults(
  size: { readonly events?: number; readonly bytes?: number },
  limits: BatchLimits,
  field: string,
): Fault[] {
  if (size.events === 0) {
    const description = "A batch has at least one event, and this one has none.";
    return [{ field, reason: "INVALID_REQUEST", description }];
  }
  return [
    tooLarge(size.events, limits.batchEvents, "events", field),
    tooLarge(size.bytes, limits.batchBytes, "bytes", field),
  ].filter((each) => each !== undefined);
}

function tooLarge(actual = 0, limit: number, unit: "events" | "bytes", field: string): Fault | undefined {
  if (actual <= limit) return undefined;
  return {
    field,
    reason: "TOO_LARGE",
    description: `The batch has ${String(actual)} ${unit}; at most ${String(limit)} are taken. Nothing was published.`,
    metadata: { limit: String(limit), actual: String(actual), unit },
  };
}
