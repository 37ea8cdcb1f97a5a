import { create, type DescMessage, type MessageShape, toJson } from "@bufbuild/protobuf";
import { errorToJson } from "@connectrpc/connect/protocol-connect";
import {
  BatchCreateEventsResponseSchema,
  CreateEventResponseSchema,
  ValidateEventResponseSchema,
} from "#gen/weir/v1/ingest_pb.ts";
import { traceContextOf } from "#runtime/trace-context.ts";
import { type Admission, type Admitted, type Submission } from "./admit.ts";
import { demandNone, DETAIL_TYPES, type Failure, httpAnswerOf, toConnectError } from "./errors.ts";
import { decodeBatch, decodeEvent } from "./event-formats.ts";
import { type BatchLimits, batchSizeFaults, toBatchResponse } from "./event-results.ts";
import { type HttpAnswer, jsonAnswer } from "./http/http-answer.ts";
import { type HttpCall, type HttpRoute } from "./http/http-routes.ts";
import { toValidation } from "./ingest.ts";
import { toReceipt } from "./wire.ts";

/** What the routes need. */
export interface EventRoutesOptions {
  readonly admission: Admission;
  readonly limits: BatchLimits;
  /** The largest body that is read. Above the limits of an event and a batch, since JSON is longer than protobuf. */
  readonly maxBodyBytes: number;
}

/**
 * The CloudEvents HTTP binding beside IngestService: the same checks and the same answers, in the JSON that Connect
 * writes. `POST /v1/events` takes one event, in binary mode or structured as JSON or protobuf; `POST /v1/events:validate`
 * checks one; `POST /v1/events:batchCreate` takes many.
 *
 * A batch is answered with 200 where every event was taken and 207 where some were. Where none was, it is an error: a
 * sender that looks at no more than the status must not take it for done. Its body is that of an error, with the results
 * beside; its status is 503 where a repeat can help, else that of the gravest refusal.
 */
export function createEventRoutes({
  admission,
  limits,
  maxBodyBytes,
}: EventRoutesOptions): readonly HttpRoute[] {
  const shared = { method: "POST", scope: "events.write", maxBodyBytes } as const;
  return [
    {
      ...shared,
      path: "/v1/events",
      async handle(call) {
        const admitted = await admission.admit({ ...senderOf(call), ...decodeEvent(call) }, call.signal);
        if (!admitted.ok) throw toConnectError(admitted.failure);
        const receipt = toReceipt(admitted.acceptance);
        return jsonAnswer(
          200,
          toMessageJson(CreateEventResponseSchema, create(CreateEventResponseSchema, { receipt })),
        );
      },
    },
    {
      ...shared,
      path: "/v1/events:batchCreate",
      async handle(call) {
        demandNone(batchSizeFaults({ bytes: call.body.byteLength }, limits, ""));
        const arrivals = decodeBatch(call, limits.batchEvents);
        demandNone(batchSizeFaults({ events: arrivals.length }, limits, ""));
        const sender = senderOf(call);
        const submissions = arrivals.map((arrival) => ({ ...sender, ...arrival }));
        return batchAnswer(await admission.admitAll(submissions, call.signal));
      },
    },
    {
      ...shared,
      path: "/v1/events:validate",
      handle(call) {
        const { decoded, path } = decodeEvent(call);
        const validation = toValidation(admission.check(decoded), path);
        // JSON leaves out what is false, which here is the answer.
        const { valid } = validation;
        return jsonAnswer(200, { valid, ...toMessageJson(ValidateEventResponseSchema, validation) });
      },
    },
  ];
}

function senderOf(call: HttpCall): Omit<Submission, "decoded" | "path"> {
  const trace = traceContextOf((name) => headerOf(call, name));
  return { principal: call.principal, trace, protocol: "http" };
}

/** Repeated headers are joined, as HTTP allows for those that are lists. */
function headerOf({ headers }: HttpCall, name: string): string | undefined {
  const values = headers.filter(([each]) => each === name).map(([, value]) => value);
  return values.length === 0 ? undefined : values.join(",");
}

function batchAnswer(admitted: readonly Admitted[]): HttpAnswer {
  const failures = admitted.flatMap((each) => (each.ok ? [] : [each.failure]));
  const gravest = gravestOf(failures);
  const answer = toMessageJson(BatchCreateEventsResponseSchema, toBatchResponse(admitted));
  if (gravest === undefined) return jsonAnswer(200, answer);
  // Its faults are of one event, and stand in that one's result.
  const { faults: _, ...failure } = gravest;
  const message = `None of the ${String(failures.length)} events was taken: results says why for each. Among them: ${failure.message}`;
  const error = toConnectError({ ...failure, message });
  const { status, headers } = httpAnswerOf(error);
  if (failures.length === admitted.length) {
    return { ...jsonAnswer(status, { ...errorToJson(error, undefined), ...answer }), headers };
  }
  return { ...jsonAnswer(207, answer), headers };
}

/** The failure that stands for all: one that a repeat can help, else one for what an event is rather than its size. */
function gravestOf(failures: readonly Failure[]): Failure | undefined {
  return (
    failures.find(({ retryAfterMs }) => retryAfterMs !== undefined) ??
    failures.find(({ reason }) => reason !== "TOO_LARGE") ??
    failures[0]
  );
}

function toMessageJson<D extends DescMessage>(schema: D, message: MessageShape<D>): object {
  return toJson(schema, message, { registry: DETAIL_TYPES }) as object;
}
