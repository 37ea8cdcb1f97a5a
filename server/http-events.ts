import { create, type DescMessage, type MessageShape, toJson } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { type Decoded } from "#core/attributes.ts";
import { decodeHttpBinary, httpContentMode } from "#core/http-binary.ts";
import { decodeStructuredJson } from "#core/structured-json.ts";
import { CreateEventResponseSchema, ValidateEventResponseSchema } from "#gen/weir/v1/ingest_pb.ts";
import { type Admission } from "./admit.ts";
import { toConnectError } from "./errors.ts";
import { type HttpAnswer, jsonAnswer } from "./http-answer.ts";
import { type HttpCall, type HttpRoute } from "./http-routes.ts";
import { toValidation } from "./ingest.ts";
import { traceContextOf } from "#runtime/trace-context.ts";
import { toReceipt } from "./wire.ts";

/**
 * The CloudEvents HTTP binding beside IngestService: the same checks and the same answers, in the JSON that Connect
 * writes. `POST /v1/events` takes one event, in binary mode or structured as JSON; `POST /v1/events:validate` checks one.
 *
 * @param maxBodyBytes the largest body that is read. Above the event's limit, since JSON is longer than protobuf.
 */
export function createEventRoutes(admission: Admission, maxBodyBytes: number): readonly HttpRoute[] {
  return [
    {
      method: "POST",
      path: "/v1/events",
      scope: "events.write",
      maxBodyBytes,
      async handle(call) {
        const { principal, signal } = call;
        const trace = traceContextOf((name) => headerOf(call, name));
        const admitted = await admission.admit(
          { ...decode(call), principal, trace, protocol: "http" },
          signal,
        );
        if (!admitted.ok) throw toConnectError(admitted.failure);
        return messageAnswer(
          CreateEventResponseSchema,
          create(CreateEventResponseSchema, { receipt: toReceipt(admitted.acceptance) }),
        );
      },
    },
    {
      method: "POST",
      path: "/v1/events:validate",
      scope: "events.write",
      maxBodyBytes,
      handle(call) {
        const { decoded, path } = decode(call);
        return messageAnswer(ValidateEventResponseSchema, toValidation(admission.check(decoded), path));
      },
    },
  ];
}

interface Arrival {
  readonly decoded: Decoded;
  readonly path: (field: string) => string;
}

/**
 * The event of a request, in whichever content mode it came.
 *
 * @throws ConnectError (UNSUPPORTED_MEDIA_TYPE, UNKNOWN_MODE) where the request is no event that is taken here.
 */
function decode(call: HttpCall): Arrival {
  const contentMode = httpContentMode(call.headers);
  switch (contentMode.mode) {
    case "binary":
      return { decoded: decodeHttpBinary(call.headers, call.body), path: headerPath };
    case "structured":
      // JSON members are known to their sender by the names of the attributes.
      if (contentMode.format === "json")
        return { decoded: decodeStructuredJson(call.body), path: (field) => field };
      throw unsupported(`Events in the format "${contentMode.format.slice(0, 32)}" are not taken here.`);
    case "batch":
      throw unsupported("A batch is not taken here: send each event by itself.");
    case "unknown":
      throw toConnectError({
        code: Code.InvalidArgument,
        reason: "UNKNOWN_MODE",
        message: `The request is no CloudEvent. ${TAKEN}`,
      });
  }
}

const TAKEN =
  "Send the event as application/cloudevents+json, or its attributes as ce- headers (ce-specversion: 1.0, …) with its data as the body.";

function unsupported(problem: string): Error {
  return toConnectError({
    code: Code.InvalidArgument,
    reason: "UNSUPPORTED_MEDIA_TYPE",
    message: `${problem} ${TAKEN}`,
  });
}

/** The header that carries an attribute in binary mode (HTTP binding § 3.1). */
function headerPath(field: string): string {
  if (field === "" || field === "data") return field;
  return field === "datacontenttype" ? "content-type" : `ce-${field}`;
}

/** Repeated headers are joined, as HTTP allows for those that are lists. */
function headerOf({ headers }: HttpCall, name: string): string | undefined {
  const values = headers.filter(([each]) => each === name).map(([, value]) => value);
  return values.length === 0 ? undefined : values.join(",");
}

function messageAnswer<D extends DescMessage>(schema: D, message: MessageShape<D>): HttpAnswer {
  return jsonAnswer(200, toJson(schema, message));
}
