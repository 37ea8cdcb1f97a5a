import * as http2 from "node:http2";
import { Code, type ConnectError, createContextValues } from "@connectrpc/connect";
import { type UniversalHandler, type UniversalServerRequest } from "@connectrpc/connect/protocol";
import { universalRequestFromNodeRequest, universalResponseToNodeResponse } from "@connectrpc/connect-node";
import { type Telemetry } from "#runtime/telemetry.ts";
import { type TraceContext } from "#runtime/trace-context.ts";
import { type BodyBudget, createByteCount, createFrameCount } from "./body-budget.ts";
import { boundDeadline, type DeadlineLimits } from "./deadlines.ts";
import { type ErrorFunnel } from "../error-funnel.ts";
import { httpAnswerOf, methodNotAllowed, toConnectError } from "../errors.ts";
import { askForBody } from "./expect-continue.ts";
import { writeAnswer } from "./http-answer.ts";
import { type ServerRequest, type ServerResponse } from "./listener.ts";
import { boundMessages, isFramed } from "./message-bound.ts";
import { bodyChunks, discardBody } from "./request-body.ts";
import { type RequestSpan } from "./request-span.ts";
import { type Call, callKey, measureCall, methodName, onAbort } from "./rpc-call.ts";

/** What the adapter needs of what all RPC methods share. */
export interface AdapterOptions {
  readonly deadlines: DeadlineLimits;
  readonly funnel: ErrorFunnel;
  readonly telemetry: Telemetry;
  /** The largest message that is read, before and after decompression. */
  readonly readLimitBytes: number;
  readonly bodies: BodyBudget;
}

/** Serves one call with the RPC library's handler for its method, and ends its span with it. Never rejects. */
export async function serveCall(
  options: AdapterOptions,
  handler: UniversalHandler,
  request: ServerRequest,
  response: ServerResponse,
  span: RequestSpan | undefined,
): Promise<void> {
  const { method } = handler;
  const begun = { startedAt: performance.now(), span };
  const refuse = async (error: ConnectError, status?: number): Promise<void> => {
    measureCall(options, method, begun, error);
    const answer = httpAnswerOf(error);
    await writeAnswer({ ...answer, status: status ?? answer.status }, request, response);
  };
  try {
    const held = options.bodies.open();
    const universal = universalRequestOf(request, response, { ...begun, held }, options.bodies);
    if (universal === undefined) return await refuse(addressInvalid());
    boundDeadline(universal.header, method.methodKind !== "unary", options.deadlines);
    const { header } = universal;
    const body = boundMessages(universal.body, header, method.input, options.readLimitBytes, held.hold);
    const answer = await handler({ ...universal, body });
    if (answer.body === undefined)
      return await refuse(unservable(handler, request, answer.status), answer.status);
    await discardBody(request, response);
    // Where the body turned out to be no HTTP, that was answered.
    if (response.headersSent) return;
    await universalResponseToNodeResponse(answer, response);
  } catch (error) {
    // What comes here is of the writing. Where the client has gone, the call's own signal has said so.
    if (!response.destroyed && !isReset(response)) options.funnel(error, methodName(method));
    response.destroy();
  }
}

/** Whether the client reset the response's stream, or its connection broke, on HTTP/2: a write may fail before all else. */
function isReset(response: ServerResponse): boolean {
  return response instanceof http2.Http2ServerResponse && response.stream.aborted;
}

/** The request as the RPC library takes it; undefined where the host that it names makes no URL. */
function universalRequestOf(
  request: ServerRequest,
  response: ServerResponse,
  begun: Pick<Call, "startedAt" | "span" | "held">,
  bodies: BodyBudget,
): (UniversalServerRequest & { readonly body: AsyncIterable<Uint8Array> }) | undefined {
  const values = createContextValues();
  let universal: UniversalServerRequest;
  try {
    universal = universalRequestFromNodeRequest(request, response, undefined, values);
  } catch {
    return undefined;
  }
  if (begun.span !== undefined) passOn(begun.span.context, universal.header);
  const { signal } = universal;
  const isClientGone = (): boolean => signal.aborted || isReset(response);
  const call: Call = { ...begun, isClientGone, signal, read: false };
  values.set(callKey, call);
  async function* body(): AsyncGenerator<Uint8Array> {
    askForBody(request);
    const held = bodies.open();
    const count = isFramed(universal.header) ? createFrameCount() : createByteCount();
    // However the call ends: who takes no further message need not say so.
    onAbort(call.signal, () => held.release());
    for await (const chunk of bodyChunks(universal.body as AsyncIterable<Uint8Array>, call.signal)) {
      const refusal = held.hold(count(chunk));
      if (refusal !== undefined) throw refusal;
      yield chunk;
    }
    held.release();
  }
  return { ...universal, body: body() };
}

/** By the headers, since a store that follows the call through all its promises was measured to cost far more. */
export function passOn({ traceParent, traceState }: TraceContext, header: Headers): void {
  if (traceParent !== undefined) header.set("traceparent", traceParent);
  if (traceState === undefined) header.delete("tracestate");
  else header.set("tracestate", traceState);
}

function addressInvalid(): ConnectError {
  return toConnectError({
    code: Code.InvalidArgument,
    reason: "INVALID_REQUEST",
    message: "The request must name its host (the Host header or :authority).",
  });
}

/** What the RPC library says with a bare HTTP status, as an error with words. */
function unservable(handler: UniversalHandler, request: ServerRequest, status: number): ConnectError {
  const code = Code.Unimplemented;
  switch (status) {
    case 405:
      return methodNotAllowed(request.method ?? "", handler.allowedMethods);
    case 415: {
      const given = request.headers["content-type"] ?? "";
      const message = `The content-type "${given.slice(0, 64)}" is not one of ${CONTENT_TYPES.join(", ")}.`;
      return toConnectError({ code: Code.InvalidArgument, reason: "UNSUPPORTED_MEDIA_TYPE", message });
    }
    case 505:
      return toConnectError({
        code,
        reason: "UNIMPLEMENTED",
        message: "This method streams both ways, so it needs HTTP/2.",
      });
    default:
      return toConnectError({
        code,
        reason: "UNIMPLEMENTED",
        message: `The call cannot be served (status ${String(status)}).`,
      });
  }
}

const CONTENT_TYPES = [
  "application/json",
  "application/proto",
  "application/connect+json",
  "application/connect+proto",
  "application/grpc",
  "application/grpc-web",
];
