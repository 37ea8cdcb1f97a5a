import { create } from "@bufbuild/protobuf";
import { anyPack, durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient, createRouterTransport } from "@connectrpc/connect";
import { cloudEvent, type CloudEventInit } from "./cloud-event.ts";
import { ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.ts";
import { type Status, StatusSchema } from "./gen/google/rpc/status_pb.ts";
import { type CloudEvent } from "./gen/io/cloudevents/v1/cloudevents_pb.ts";
import { IngestService } from "./gen/weir/v1/ingest_pb.ts";
import { PublishError } from "./publish-error.ts";
import { createPublisher, type Publisher, type PublisherOptions } from "./publisher.ts";

// For the tests: the transport stands in for network and server, so that every answer can be had. test/sdk/ has the real
// ones.

/** What becomes of one event: its receipt, or an error. */
export type Verdict = "receipt" | Status;
/** What becomes of a call: a verdict for each event, or the failure of all. */
export type Answer = (ids: readonly string[], call: number) => Promise<Verdict[]> | Verdict[];

export const accept: Answer = (ids) => ids.map(() => "receipt");

export function status(code: Code, reason: string, retryMs?: number): Status {
  const info = anyPack(ErrorInfoSchema, create(ErrorInfoSchema, { reason, domain: "weir" }));
  const retryDelay = retryMs === undefined ? undefined : durationFromMs(retryMs);
  const retry = retryDelay && anyPack(RetryInfoSchema, create(RetryInfoSchema, { retryDelay }));
  return create(StatusSchema, { code, message: `it is ${reason}`, details: retry ? [info, retry] : [info] });
}

export const INVALID: Status = status(Code.InvalidArgument, "INVALID_ATTRIBUTES");
export const UNAVAILABLE: Status = status(Code.Unavailable, "PRODUCER_UNAVAILABLE", 1);
export const UNKNOWN: Status = status(Code.Unavailable, "PUBLISH_OUTCOME_UNKNOWN", 1);

export function failure(code: Code, reason: string, metadata: Record<string, string> = {}): ConnectError {
  const value = { reason, domain: "weir", metadata };
  return new ConnectError(`it is ${reason}`, code, undefined, [{ desc: ErrorInfoSchema, value }]);
}

export interface Rig {
  readonly publisher: Publisher;
  /** The ids of each call. */
  readonly calls: string[][];
  /** The ids that got a receipt, in that order. */
  readonly log: string[];
}

export function rig(answer: Answer, options?: PublisherOptions, hasFreshTokens?: boolean): Rig {
  const [calls, log]: [string[][], string[]] = [[], []];
  const transport = createRouterTransport(({ rpc }) => {
    rpc(IngestService.method.batchCreateEvents, async ({ events }) => {
      const ids = events.map(({ id }) => id);
      calls.push(ids);
      const verdicts = await answer(ids, calls.length);
      return {
        results: verdicts.map((verdict, index) => {
          if (verdict !== "receipt") return { outcome: { case: "error" as const, value: verdict } };
          log.push(ids[index]!);
          return { outcome: { case: "receipt" as const, value: { name: ids[index]! } } };
        }),
      };
    });
  });
  const ingest = createClient(IngestService, transport);
  return { publisher: createPublisher(ingest, options, hasFreshTokens), calls, log };
}

export function event(id: number | string, init: Partial<CloudEventInit> = {}): CloudEvent {
  return cloudEvent({ id: String(id), source: "/s", type: "t", time: "2026-11-01T09:30:00Z", ...init });
}

export const numbers = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

/** What a publish came to: the receipt's name, or outcome and reason. */
export async function outcome(receipt: Promise<{ readonly name: string }>): Promise<string> {
  try {
    return (await receipt).name;
  } catch (error) {
    if (!(error instanceof PublishError)) throw error;
    return `${error.outcome} ${error.reason}`;
  }
}

export const outcomes = (receipts: readonly Promise<{ readonly name: string }>[]): Promise<string[]> =>
  Promise.all(receipts.map(outcome));

/** A failure with a delay after which a repeat can help. */
export function failureWithRetry(retryMs = 1): ConnectError {
  const error = failure(Code.Unavailable, "PRODUCER_UNAVAILABLE");
  error.details.push({ desc: RetryInfoSchema, value: { retryDelay: durationFromMs(retryMs) } });
  return error;
}
