import { create } from "@bufbuild/protobuf";
import { Code, type ServiceImpl } from "@connectrpc/connect";
import { type Fault } from "#core/reason.ts";
import { Stage, StageSchema } from "#gen/weir/v1/event_pb.ts";
import {
  type IngestService,
  type ValidateEventResponse,
  ValidateEventResponseSchema,
} from "#gen/weir/v1/ingest_pb.ts";
import { type Admission } from "./admit.ts";
import { principalKey } from "./auth.ts";
import { toConnectError } from "./errors.ts";
import { traceContextOf } from "#runtime/trace-context.ts";
import { fromCloudEventMessage, requestPath, toReceipt } from "./wire.ts";

/** weir.v1.IngestService over the one admission of events. */
export function createIngestService(admission: Admission): ServiceImpl<typeof IngestService> {
  return {
    async createEvent({ event, waitFor }, context) {
      demandServedStage(waitFor);
      const submission = {
        decoded: fromCloudEventMessage(event),
        path: requestPath,
        principal: context.values.get(principalKey),
        trace: traceContextOf((name) => context.requestHeader.get(name)),
        protocol: "rpc",
      } as const;
      const admitted = await admission.admit(submission, context.signal);
      if (!admitted.ok) throw toConnectError(admitted.failure);
      return { receipt: toReceipt(admitted.acceptance) };
    },

    validateEvent: ({ event }) => toValidation(admission.check(fromCloudEventMessage(event)), requestPath),
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

function demandServedStage(stage: Stage): void {
  if (stage === Stage.UNSPECIFIED || stage === Stage.ACCEPTED) return;
  const name = StageSchema.value[stage]?.name ?? String(stage);
  throw toConnectError({
    code: Code.Unimplemented,
    reason: "STAGE_UNSUPPORTED",
    message: `wait_for ${name} is not served: leave it out, or ask for STAGE_ACCEPTED. Nothing was published.`,
  });
}
