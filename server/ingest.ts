import { create } from "@bufbuild/protobuf";
import { type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import { type Fault } from "#core/reason.ts";
import { Stage, StageSchema } from "#gen/weir/v1/event_pb.ts";
import {
  type IngestService,
  type ValidateEventResponse,
  ValidateEventResponseSchema,
} from "#gen/weir/v1/ingest_pb.ts";
import { type Admission, type Admitted, type Submission } from "./admit.ts";
import { principalKey } from "./auth/auth.ts";
import { demandNone, toConnectError } from "./errors.ts";
import { type BatchLimits, batchSizeFaults, toBatchResponse } from "./event-results.ts";
import { messageSize } from "./message-size.ts";
import { waitTime } from "./receipts.ts";
import { type StageWatch } from "./stage-watch.ts";
import { answersOf } from "./stream-events.ts";
import { traceContextOf } from "#runtime/trace-context.ts";
import { fromCloudEventMessage, type Reached, requestPath, toReceipt } from "./wire.ts";

/** What the service needs. */
export interface IngestOptions {
  readonly admission: Admission;
  readonly limits: BatchLimits;
  /** Waits until events are stored. */
  readonly stored: StageWatch<Reached>;
  /** Raised, with an error of toConnectError's, when streams are to take no further event. */
  readonly stopping: AbortSignal;
}

/** weir.v1.IngestService over the one admission of events. */
export function createIngestService({
  admission,
  limits,
  stored,
  stopping,
}: IngestOptions): ServiceImpl<typeof IngestService> {
  /** Waits for the stage that a call asks for, if any, with all of its events that were taken. */
  async function reach(
    admitted: readonly Admitted[],
    waitFor: Stage,
    { signal, timeoutMs }: HandlerContext,
  ): Promise<readonly Admitted[]> {
    if (waitFor !== Stage.STORED) return admitted;
    const places = admitted.flatMap((each) => (each.ok ? [each.acceptance.position] : []));
    const reached = (await stored.wait(places, { timeoutMs: waitTime(timeoutMs() ?? 0), signal })).values();
    return admitted.map((each) =>
      each.ok ? { ok: true, acceptance: { ...each.acceptance, reached: reached.next().value } } : each,
    );
  }

  return {
    async createEvent({ event, waitFor }, context) {
      const submission = { ...senderOf(context), decoded: fromCloudEventMessage(event) };
      const unserved = stageFaults(waitFor);
      if (unserved.length > 0) {
        const faults = admission.check(submission.decoded);
        demandNone([...faults.map((fault) => ({ ...fault, field: requestPath(fault.field) })), ...unserved]);
      }
      const admitted = await admission.admit(submission, context.signal);
      const [reached = admitted] = await reach([admitted], waitFor, context);
      if (!reached.ok) throw toConnectError(reached.failure);
      return { receipt: toReceipt(reached.acceptance) };
    },

    async batchCreateEvents({ events, waitFor }, context) {
      const bytes = events.reduce((sum, event) => sum + messageSize(event), 0);
      const sizeFaults = batchSizeFaults({ events: events.length, bytes }, limits, "events");
      demandNone([...sizeFaults, ...stageFaults(waitFor)]);
      const sender = senderOf(context);
      const submissions = events.map((event) => ({ ...sender, decoded: fromCloudEventMessage(event) }));
      const admitted = await admission.admitAll(submissions, context.signal);
      return toBatchResponse(await reach(admitted, waitFor, context));
    },

    streamEvents(requests, context) {
      return answersOf(requests, { admission, sender: senderOf(context), signal: context.signal, stopping });
    },

    validateEvent: ({ event }) => toValidation(admission.check(fromCloudEventMessage(event)), requestPath),
  };
}

function senderOf({ values, requestHeader }: HandlerContext): Omit<Submission, "decoded"> {
  return {
    path: requestPath,
    principal: values.get(principalKey),
    trace: traceContextOf((name) => requestHeader.get(name)),
    protocol: "rpc",
  };
}

/** The answer to a validation that found these faults. */
export function toValidation(
  faults: readonly Fault[],
  path: (field: string) => string,
): ValidateEventResponse {
  return create(ValidateEventResponseSchema, {
    valid: faults.length === 0,
    violations: faults.map(({ field, description, reason }) => ({ field: path(field), description, reason })),
  });
}

function stageFaults(stage: Stage): Fault[] {
  if (stage === Stage.UNSPECIFIED || stage === Stage.ACCEPTED || stage === Stage.STORED) return [];
  const name = StageSchema.value[stage]?.name ?? String(stage);
  const description = `${name} is not served: leave it out, or ask for STAGE_ACCEPTED or STAGE_STORED. Nothing was published.`;
  return [{ field: "wait_for", reason: "STAGE_UNSUPPORTED", description }];
}
