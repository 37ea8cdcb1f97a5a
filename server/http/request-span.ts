import { Code } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import { type Reason } from "#core/reason.ts";
import { type TraceContext, traceContextOf } from "#runtime/trace-context.ts";
import { type Tracer } from "#runtime/tracing.ts";
import { type ServerRequest } from "./listener.ts";

/** The span of one request, where there is one. */
export interface RequestSpan {
  /** What goes on to whatever the request leads to, in place of the trace context that came with it. */
  readonly context: TraceContext;
  /** Ends the span, with the answer's code and reason where it is an error; `status` is that of HTTP. */
  end(answer: {
    readonly code: Code | undefined;
    readonly reason: Reason | undefined;
    readonly status?: number;
  }): void;
}

/** The codes that are the server's fault (OpenTelemetry, semantic conventions for gRPC); others are its work. */
const SERVER_ERRORS: ReadonlySet<Code> = new Set([
  Code.Unknown,
  Code.DeadlineExceeded,
  Code.Unimplemented,
  Code.Internal,
  Code.Unavailable,
  Code.DataLoss,
]);

/** Begins the span of an RPC call, where it is recorded. */
export function startRpcSpan(tracer: Tracer, name: string, request: ServerRequest): RequestSpan | undefined {
  const isGrpc = (request.headers["content-type"] ?? "").startsWith("application/grpc");
  const span = tracer.start("rpc", {
    name,
    attributes: { "rpc.system.name": isGrpc ? "grpc" : "connectrpc", "rpc.method": name },
    parent: parentOf(request),
  });
  return (
    span && {
      context: span.context,
      end({ code, reason }) {
        const status = isGrpc ? grpcStatus(code) : code && codeToString(code);
        if (status !== undefined) span.set({ "rpc.status_code": status });
        if (reason !== undefined) span.set({ "weir.reason": reason });
        span.end(code !== undefined && SERVER_ERRORS.has(code) ? status : undefined);
      },
    }
  );
}

/** The name of a code in gRPC, which writes it in capitals and CANCELLED with two L. */
function grpcStatus(code: Code | undefined): string {
  if (code === undefined) return "OK";
  return code === Code.Canceled ? "CANCELLED" : codeToString(code).toUpperCase();
}

/** Begins the span of a plain HTTP request, where it is recorded. */
export function startHttpSpan(tracer: Tracer, path: string, request: ServerRequest): RequestSpan | undefined {
  const { method = "", headers, socket } = request;
  const scheme = headers[":scheme"] ?? ("encrypted" in socket ? "https" : "http");
  const span = tracer.start("http", {
    name: `${method} ${path}`,
    attributes: {
      "http.request.method": method,
      "http.route": path,
      "url.path": path,
      "url.scheme": scheme === "https" ? "https" : "http",
    },
    parent: parentOf(request),
  });
  return (
    span && {
      context: span.context,
      end({ reason, status = 0 }) {
        span.set({ "http.response.status_code": status });
        if (reason !== undefined) span.set({ "weir.reason": reason });
        span.end(status >= 500 ? String(status) : undefined);
      },
    }
  );
}

function parentOf({ headers }: ServerRequest): TraceContext {
  return traceContextOf((name) => {
    const value = headers[name];
    return typeof value === "string" ? value : undefined;
  });
}
