import { type DescMethod } from "@bufbuild/protobuf";
import {
  Code,
  type ConnectRouter,
  createConnectRouter,
  type HandlerContext,
  type Interceptor,
} from "@connectrpc/connect";
import { compressionBrotli, compressionGzip } from "@connectrpc/connect-node";
import { type Telemetry } from "#runtime/telemetry.ts";
import { type Tracer } from "#runtime/tracing.ts";
import { type Authorize, principalKey } from "../auth/auth.ts";
import { type BodyBudget, createBodyBudget } from "./body-budget.ts";
import { createCallDeadlines } from "./call-deadlines.ts";
import { abortable, abortableItems, causeOf, type DeadlineLimits } from "./deadlines.ts";
import { asInputFault, type ErrorFunnel } from "../error-funnel.ts";
import { JSON_OPTIONS, toConnectError } from "../errors.ts";
import { type ServerRequest, type ServerResponse } from "./listener.ts";
import { boundQuery } from "./message-bound.ts";
import { startRpcSpan } from "./request-span.ts";
import { serveCall } from "./rpc-adapter.ts";
import { callKey, measureCall, methodName, onAbort, outcomeOf } from "./rpc-call.ts";
import { methodAccess } from "../auth/scopes.ts";
import { isPlainUnary, serveUnary, type UnaryMethod, unaryMethods } from "./unary.ts";

/** What all RPC methods share. */
export interface RpcOptions {
  /** Registers the services. */
  readonly routes: (router: ConnectRouter) => void;
  readonly authorize: Authorize;
  readonly funnel: ErrorFunnel;
  readonly telemetry: Telemetry;
  /** Makes a span for every call of a method that is not open. */
  readonly tracer?: Tracer | undefined;
  /** The largest message that is read, before and after decompression. */
  readonly readLimitBytes: number;
  /**
   * What bodies may hold while they are read. Those of methods that need no token have a tenth of it for themselves, so
   * that strangers never take the room of those who have one.
   */
  readonly bodies: BodyBudget;
  readonly deadlines: DeadlineLimits;
  /**
   * How many streams may be open at once. Those of methods that need no token have a tenth of them, so that strangers
   * never take the streams of those who have one.
   */
  readonly maxStreams: number;
  /** Raised, with an error of toConnectError's, when the server begins to stop: streams would not end by themselves. */
  readonly streamsEnd: AbortSignal;
  /** Streaming methods that end in good order by themselves when streamsEnd is raised; any other is ended then. */
  readonly drains?: readonly DescMethod[];
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
    onAbort(signal, () => {
      call.held.release();
      measureCall(options, method, call, outcomeOf(call, signal));
    });
    try {
      const needed = access.get(method);
      if (needed === undefined) throw new Error("A method was added after the boot");
      if (needed !== "open") {
        const header = context.requestHeader.get("authorization");
        const authorization = await abortable(options.authorize(header, needed), signal);
        if (!authorization.ok) throw toConnectError(authorization.failure);
        values.set(principalKey, authorization.caller.principal);
      }
      if (context.requestMethod === "GET") {
        await boundQuery(context.url, method.input, options.readLimitBytes, call.held.hold);
      }
      if (method.methodKind === "unary") return;
      const mine = needed === "open" ? streams.open : streams.scoped;
      if (mine.count >= mine.limit) throw streamCapacity(mine.limit);
      mine.count += 1;
      onAbort(signal, () => (mine.count -= 1));
    } catch (error) {
      throw options.funnel(error, methodName(method));
    }
  };

  const router = createConnectRouter({
    acceptCompression: [compressionGzip, compressionBrotli],
    readMaxBytes: options.readLimitBytes,
    jsonOptions: JSON_OPTIONS,
    // Nobody reads them here, and each would cost an object.
    binaryOptions: { readUnknownFields: false },
    shutdownSignal: options.shutdown,
    requestGate: gate,
    interceptors: [guard(options)],
  });
  const unary = new Map<DescMethod, UnaryMethod>();
  options.routes(noting(router, (method) => unary.set(method.method, method), options.readLimitBytes));
  const access = methodAccess(router.handlers.map(({ method }) => method));
  const openOptions = { ...options, bodies: createBodyBudget(Math.ceil(options.bodies.limitBytes / 10)) };
  const unaryOptions = { ...options, withDeadline: createCallDeadlines(options.shutdown) };
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]));

  return {
    serve(request, response) {
      const handler = handlers.get((request.url ?? "").split("?", 1)[0] ?? "");
      if (handler === undefined) return false;
      const { method } = handler;
      const span =
        options.tracer === undefined || access.get(method) === "open"
          ? undefined
          : startRpcSpan(options.tracer, methodName(method), request);
      const [plain, needed] = [unary.get(method), access.get(method)];
      if (plain !== undefined && needed !== undefined && needed !== "open" && isPlainUnary(request)) {
        void serveUnary(unaryOptions, plain, needed, span, request, response);
      } else void serveCall(needed === "open" ? openOptions : options, handler, request, response, span);
      return true;
    },
    get streams() {
      return streams.open.count + streams.scoped.count;
    },
  };
}

/** A router that also tells of every unary method that it is given. */
function noting(
  router: ConnectRouter,
  note: (method: UnaryMethod) => void,
  readLimitBytes: number,
): ConnectRouter {
  return {
    handlers: router.handlers,
    rpc(...args) {
      router.rpc(...args);
      return this;
    },
    service(service, implementation, own) {
      for (const method of unaryMethods(service, implementation, readLimitBytes)) note(method);
      router.service(service, implementation, own);
      return this;
    },
  };
}

function streamCapacity(limit: number): Error {
  return toConnectError({
    code: Code.Unavailable,
    reason: "STREAM_CAPACITY",
    message: `All ${String(limit)} streams that such calls may have on this server are in use. Try again, or close one.`,
    metadata: { limit: String(limit), setting: "WEIR_MAX_STREAMS" },
    retryAfterMs: 1_000,
  });
}

/** Holds the deadline whatever the handler does, ends streams when the server stops, and sends errors through the funnel. */
function guard({ funnel, streamsEnd, drains = [] }: RpcOptions): Interceptor {
  return (next) => async (request) => {
    const endsItself = request.method.methodKind === "unary" || drains.includes(request.method);
    const signal = endsItself ? request.signal : AbortSignal.any([request.signal, streamsEnd]);
    const toError = (error: unknown): Error => funnel(causeOf(error, signal), methodName(request.method));
    async function* messages<T>(source: AsyncIterable<T>): AsyncGenerator<T> {
      try {
        yield* abortableItems(source, signal);
      } catch (error) {
        throw toError(error);
      }
    }
    const call = request.contextValues.get(callKey);
    if (call !== undefined) {
      call.read = true;
      if (request.method.methodKind === "unary") call.held.release();
    }
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
