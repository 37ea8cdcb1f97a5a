import { codeToString } from "@connectrpc/connect/protocol-connect";
import { type Telemetry } from "#runtime/telemetry.ts";
import { type TraceContext } from "#runtime/trace-context.ts";
import { type Tracer } from "#runtime/tracing.ts";
import { type Authorize } from "../auth/auth.ts";
import { type BodyBudget } from "./body-budget.ts";
import { createCallDeadlines } from "./call-deadlines.ts";
import { type ErrorFunnel } from "../error-funnel.ts";
import { httpAnswerOf, methodNotAllowed, reasonOf, toConnectError } from "../errors.ts";
import { type HttpAnswer, writeAnswer } from "./http-answer.ts";
import { type ServerRequest, type ServerResponse } from "./listener.ts";
import { type RequestSpan, startHttpSpan } from "./request-span.ts";
import { readBody } from "./request-body.ts";
import { routeAccess, type Scope } from "../auth/scopes.ts";

/** A plain HTTP request that may be served: its token is verified and its body read. */
export interface HttpCall {
  /** In their order, names in lower case, repeated ones as often as they came. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly query: URLSearchParams;
  /** Whole and inflated; empty where the route takes none. */
  readonly body: Uint8Array;
  /** The subject of the token; "" on an open route. */
  readonly principal: string;
  /** Raised at the deadline, when the client goes away, and at the end of a stop. */
  readonly signal: AbortSignal;
}

/** A plain HTTP route. HEAD is answered where GET is. */
export interface HttpRoute {
  readonly method: "GET" | "POST";
  /** Compared whole. */
  readonly path: string;
  /** What a token must carry; only the open paths (scopes.ts) have none. */
  readonly scope?: Scope;
  /** The largest body, before and after decompression; default: none is read. */
  readonly maxBodyBytes?: number;
  /** A throw of toConnectError's is answered as such; any other is an unexpected error. */
  readonly handle: (call: HttpCall) => Promise<HttpAnswer> | HttpAnswer;
}

/** What the routes share. */
export interface HttpRoutesOptions {
  readonly routes: readonly HttpRoute[];
  readonly authorize: Authorize;
  readonly funnel: ErrorFunnel;
  /** What bodies may hold while they are read. */
  readonly bodies: BodyBudget;
  readonly telemetry: Telemetry;
  /** Makes a span for every request of a route that is not open. */
  readonly tracer?: Tracer | undefined;
  /** The deadline of a request, in milliseconds. */
  readonly timeoutMs: number;
  /** Raised with an error of toConnectError's when what is in flight must end. */
  readonly shutdown: AbortSignal;
}

/** Serves the request if its path is one of the routes', and says whether it is. Never throws. */
export type HttpRoutes = (request: ServerRequest, response: ServerResponse) => boolean;

/**
 * The one registry of plain HTTP routes and their dispatcher: method, then token and scope, then the body, then the
 * handler, all within the deadline.
 *
 * @throws AccessError where a route has no scope and is not open by name.
 */
export function createHttpRoutes(options: HttpRoutesOptions): HttpRoutes {
  const access = routeAccess(options.routes);
  const withDeadline = createCallDeadlines(options.shutdown);
  const paths = Map.groupBy(options.routes, ({ path }) => path);
  return (request, response) => {
    const [path = "", query = ""] = (request.url ?? "").split(/\?(.*)/s, 2);
    const routes = paths.get(path);
    if (routes === undefined) return false;
    const method = request.method === "HEAD" ? "GET" : request.method;
    const route = routes.find((each) => each.method === method);
    const needed = route && access.get(route);
    const span =
      options.tracer === undefined || needed === undefined || needed === "open"
        ? undefined
        : startHttpSpan(options.tracer, path, request);
    const handle = async (): Promise<HttpAnswer> => {
      if (route === undefined || needed === undefined)
        throw methodNotAllowed(
          request.method ?? "",
          routes.map((each) => each.method),
        );
      return await withDeadline(options.timeoutMs, response, async (signal) => {
        const principal = needed === "open" ? "" : await principalOf(options.authorize, request, needed);
        const body =
          route.maxBodyBytes === undefined
            ? NO_BODY
            : await readBody(request, { maxBytes: route.maxBodyBytes, bodies: options.bodies }, signal);
        return await route.handle({
          headers: headersOf(request, span?.context),
          get query() {
            return new URLSearchParams(query);
          },
          body,
          principal,
          signal,
        });
      });
    };
    void answer(options, path, span, request, response, handle);
    return true;
  };
}

const NO_BODY = new Uint8Array();

async function principalOf(authorize: Authorize, request: ServerRequest, needed: Scope): Promise<string> {
  const authorization = await authorize(request.headers.authorization, needed);
  if (!authorization.ok) throw toConnectError(authorization.failure);
  return authorization.caller.principal;
}

/** Without HTTP/2's pseudo headers, and with the trace context of the request's span where there is one. */
function headersOf(request: ServerRequest, trace: TraceContext | undefined): HttpCall["headers"] {
  const { rawHeaders } = request;
  const headers: (readonly [string, string])[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const [name = "", value = ""] = [rawHeaders[i], rawHeaders[i + 1]];
    if (!name.startsWith(":")) headers.push([name.toLowerCase(), value]);
  }
  if (trace === undefined) return headers;
  const others = headers.filter(([name]) => name !== "traceparent" && name !== "tracestate");
  if (trace.traceParent !== undefined) others.push(["traceparent", trace.traceParent]);
  if (trace.traceState !== undefined) others.push(["tracestate", trace.traceState]);
  return others;
}

async function answer(
  { funnel, telemetry }: HttpRoutesOptions,
  path: string,
  span: RequestSpan | undefined,
  request: ServerRequest,
  response: ServerResponse,
  work: () => Promise<HttpAnswer>,
): Promise<void> {
  const startedAt = performance.now();
  const settled = await work().then(
    (value) => ({ value, error: undefined }),
    (caught: unknown) => {
      const error = funnel(caught, path);
      const reason = reasonOf(error);
      if (reason !== undefined && reason !== "CANCELLED")
        telemetry.count("weir.request.refusals", { method: path, reason });
      return { value: httpAnswerOf(error), error };
    },
  );
  const code = settled.error === undefined ? "ok" : codeToString(settled.error.code);
  telemetry.record("weir.request.duration", { method: path, code }, (performance.now() - startedAt) / 1000);
  span?.end({
    code: settled.error?.code,
    reason: settled.error && reasonOf(settled.error),
    status: settled.value.status,
  });
  await writeAnswer(settled.value, request, response);
}
