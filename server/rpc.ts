import { type DescMethod } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  type ConnectRouter,
  createConnectRouter,
  createContextKey,
  createContextValues,
  type HandlerContext,
  type Interceptor,
} from "@connectrpc/connect";
import { type UniversalHandler, type UniversalServerRequest } from "@connectrpc/connect/protocol";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import {
  compressionBrotli,
  compressionGzip,
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from "@connectrpc/connect-node";
import { type Telemetry } from "#runtime/telemetry.ts";
import { type Authorize, principalKey } from "./auth.ts";
import {
  abortable,
  abortableItems,
  boundDeadline,
  causeOf,
  clientGone,
  type DeadlineLimits,
} from "./deadlines.ts";
import { asInputFault, type ErrorFunnel } from "./error-funnel.ts";
import { httpAnswerOf, methodNotAllowed, reasonOf, toConnectError } from "./errors.ts";
import { writeAnswer } from "./http-answer.ts";
import { type ServerRequest, type ServerResponse } from "./listener.ts";
import { bodyChunks, discardBody } from "./request-body.ts";
import { methodAccess } from "./scopes.ts";

/** What all RPC methods share. */
export interface RpcOptions {
  /** Registers the services. */
  readonly routes: (router: ConnectRouter) => void;
  readonly authorize: Authorize;
  readonly funnel: ErrorFunnel;
  readonly telemetry: Telemetry;
  /** The largest message that is read, before and after decompression. */
  readonly readLimitBytes: number;
  readonly deadlines: DeadlineLimits;
  /**
   * How many streams may be open at once. Those of methods that need no token have a tenth of them, so that strangers
   * never take the streams of those who have one.
   */
  readonly maxStreams: number;
  /** Raised, with an error of toConnectError's, when the server begins to stop: streams would not end by themselves. */
  readonly streamsEnd: AbortSignal;
  /** Raised, with an error of toConnectError's, when everything in flight must end. */
  readonly shutdown: AbortSignal;
}

/** The RPC methods of the server. */
export interface Rpc {
  /** Serves the request if its path is a method's, and says whether it is. Never throws. */
  readonly serve: (request: ServerRequest, response: ServerResponse) => boolean;
  /** Streams that are open. */
  readonly streams: number;
}

/** What is known of a call before the RPC library has its context. */
interface Call {
  readonly startedAt: number;
  /** Raised when the client goes away. */
  readonly client: AbortSignal;
  /** Raised when the call ends, however it does. */
  signal: AbortSignal;
  /** The request was read: what fails from now on is not of its bytes. */
  read: boolean;
}

const callKey = createContextKey<Call | undefined>(undefined);

/**
 * Serves RPC methods in Connect, gRPC and gRPC-Web, with what holds for every one of them: the token is verified before
 * the body is read; every call has a deadline that holds whatever its handler does; messages and streams are bounded;
 * every error says its reason; every call is measured.
 *
 * @throws AccessError where a method has no scope and is not open by name.
 */
export function createRpc(options: RpcOptions): Rpc {
  const streams = {
    open: { count: 0, limit: Math.ceil(options.maxStreams / 10) },
    scoped: { count: 0, limit: options.maxStreams },
  };

  const gate = async (context: HandlerContext): Promise<void> => {
    const { method, values, signal } = context;
    const call = values.get(callKey);
    if (call === undefined) throw new Error("A call came by another way than serve()");
    call.signal = signal;
    onAbort(signal, () => measure(options, method, call.startedAt, outcomeOf(call, signal)));
    try {
      const needed = access.get(method);
      if (needed === undefined) throw new Error("A method was added after the boot");
      if (needed !== "open") {
        const header = context.requestHeader.get("authorization");
        const authorization = await abortable(options.authorize(header, needed), signal);
        if (!authorization.ok) throw toConnectError(authorization.failure);
        values.set(principalKey, authorization.caller.principal);
      }
      if (method.methodKind === "unary") return;
      const mine = needed === "open" ? streams.open : streams.scoped;
      if (mine.count >= mine.limit) throw streamCapacity(mine.limit);
      mine.count += 1;
      onAbort(signal, () => (mine.count -= 1));
    } catch (error) {
      throw options.funnel(error, nameOf(method));
    }
  };

  const router = createConnectRouter({
    acceptCompression: [compressionGzip, compressionBrotli],
    readMaxBytes: options.readLimitBytes,
    shutdownSignal: options.shutdown,
    requestGate: gate,
    interceptors: [guard(options)],
  });
  options.routes(router);
  const access = methodAccess(router.handlers.map(({ method }) => method));
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]));

  return {
    serve(request, response) {
      const handler = handlers.get((request.url ?? "").split("?", 1)[0] ?? "");
      if (handler === undefined) return false;
      void serve(options, handler, request, response);
      return true;
    },
    get streams() {
      return streams.open.count + streams.scoped.count;
    },
  };
}

/** The method's full name, as rpc.method in OpenTelemetry. */
function nameOf(method: DescMethod): string {
  return `${method.parent.typeName}/${method.name}`;
}

function onAbort(signal: AbortSignal, run: () => void): void {
  if (signal.aborted) run();
  else signal.addEventListener("abort", run, { once: true });
}

function streamCapacity(limit: number): ConnectError {
  return toConnectError({
    code: Code.Unavailable,
    reason: "STREAM_CAPACITY",
    message: `All ${String(limit)} streams that such calls may have on this server are in use. Try again, or close one.`,
    metadata: { limit: String(limit), setting: "WEIR_MAX_STREAMS" },
    retryAfterMs: 1_000,
  });
}

/** What a call ended with: an error, or undefined where all went well. The signal of a call is raised either way. */
function outcomeOf(call: Call, signal: AbortSignal): ConnectError | undefined {
  if (call.client.aborted) return clientGone();
  if (!(signal.reason instanceof ConnectError)) return undefined;
  if (!call.read) asInputFault(signal.reason);
  return signal.reason;
}

function measure(
  { telemetry, funnel }: RpcOptions,
  method: DescMethod,
  startedAt: number,
  outcome: unknown,
): void {
  const name = nameOf(method);
  const error = outcome === undefined ? undefined : funnel(outcome, name);
  const reason = error && reasonOf(error);
  const code = error === undefined ? "ok" : codeToString(error.code);
  if (reason !== undefined) telemetry.count("weir.request.refusals", { method: name, reason });
  telemetry.record("weir.request.duration", { method: name, code }, (performance.now() - startedAt) / 1000);
}

/** Holds the deadline whatever the handler does, ends streams when the server stops, and sends errors through the funnel. */
function guard({ funnel, streamsEnd }: RpcOptions): Interceptor {
  return (next) => async (request) => {
    const signal =
      request.method.methodKind === "unary" ? request.signal : AbortSignal.any([request.signal, streamsEnd]);
    const toError = (error: unknown): ConnectError => funnel(causeOf(error, signal), nameOf(request.method));
    async function* messages<T>(source: AsyncIterable<T>): AsyncGenerator<T> {
      try {
        yield* abortableItems(source, signal);
      } catch (error) {
        throw toError(error);
      }
    }
    const call = request.contextValues.get(callKey);
    if (call !== undefined) call.read = true;
    const inner = request.stream ? { ...request, message: inputs(request.message) } : request;
    try {
      const response = await abortable(next(inner), signal);
      return response.stream ? { ...response, message: messages(response.message) } : response;
    } catch (error) {
      throw toError(error);
    }
  };
}

/** The messages of a streaming request, which are read while its handler runs. */
async function* inputs<T>(messages: AsyncIterable<T>): AsyncGenerator<T> {
  try {
    yield* messages;
  } catch (error) {
    throw asInputFault(error);
  }
}

async function serve(
  options: RpcOptions,
  handler: UniversalHandler,
  request: ServerRequest,
  response: ServerResponse,
): Promise<void> {
  const { method } = handler;
  const startedAt = performance.now();
  const refuse = async (error: ConnectError, status?: number): Promise<void> => {
    measure(options, method, startedAt, error);
    const answer = httpAnswerOf(error);
    await writeAnswer({ ...answer, status: status ?? answer.status }, request, response);
  };
  try {
    const universal = universalRequestOf(request, response, startedAt);
    if (universal === undefined) return await refuse(addressInvalid());
    boundDeadline(universal.header, method.methodKind !== "unary", options.deadlines);
    const answer = await handler(universal);
    if (answer.body === undefined)
      return await refuse(unservable(handler, request, answer.status), answer.status);
    await discardBody(request, response);
    await universalResponseToNodeResponse(answer, response);
  } catch (error) {
    // What comes here is of the writing. Where the client has gone, the call's own signal has said so.
    if (!response.destroyed) options.funnel(error, nameOf(method));
    response.destroy();
  }
}

/** The request as the RPC library takes it; undefined where the host that it names makes no URL. */
function universalRequestOf(
  request: ServerRequest,
  response: ServerResponse,
  startedAt: number,
): UniversalServerRequest | undefined {
  const values = createContextValues();
  let universal: UniversalServerRequest;
  try {
    universal = universalRequestFromNodeRequest(request, response, undefined, values);
  } catch {
    return undefined;
  }
  const call: Call = { startedAt, client: universal.signal, signal: universal.signal, read: false };
  values.set(callKey, call);
  async function* body(): AsyncGenerator<Uint8Array> {
    yield* bodyChunks(universal.body as AsyncIterable<Uint8Array>, call.signal);
  }
  return { ...universal, body: body() };
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
