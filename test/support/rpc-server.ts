import { type ConnectRouter } from "@connectrpc/connect";
import { SignJWT } from "jose";
import { type LogFields, type Logger } from "#runtime/log.ts";
import { createTelemetry, type Telemetry } from "#runtime/telemetry.ts";
import { type Tracer } from "#runtime/tracing.ts";
import { createAuthorize } from "../../server/auth/auth.ts";
import { type BodyBudget, createBodyBudget } from "../../server/http/body-budget.ts";
import { createCors } from "../../server/http/cors.ts";
import { type DeadlineLimits } from "../../server/http/deadlines.ts";
import { createDispatch } from "../../server/http/dispatch.ts";
import { createErrorFunnel } from "../../server/error-funnel.ts";
import { createHttpRoutes, type HttpRoute } from "../../server/http/http-routes.ts";
import { createTokenKeys } from "../../server/auth/token-keys.ts";
import { listen, type ListenerOptions } from "../../server/http/listener.ts";
import { createRpc, type Rpc } from "../../server/http/rpc.ts";
import { silentLogger } from "./logger.ts";

/** What a server of a test serves, and what differs from the defaults. */
export interface RpcServerOptions {
  readonly routes?: (router: ConnectRouter) => void;
  readonly httpRoutes?: readonly HttpRoute[];
  readonly corsOrigins?: readonly string[];
  readonly readLimitBytes?: number;
  readonly bodyMemoryBytes?: number;
  readonly deadlines?: Partial<DeadlineLimits>;
  readonly maxStreams?: number;
  readonly httpTimeoutMs?: number;
  readonly listener?: Partial<ListenerOptions>;
  readonly tracer?: Tracer | undefined;
}

/** A server that listens, put together as the real one is, with services of the test's own. */
export interface RpcServer extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly rpc: Rpc;
  readonly bodies: BodyBudget;
  readonly telemetry: Telemetry;
  /** What was logged of unexpected errors. */
  readonly errors: readonly (LogFields | undefined)[];
  readonly streamsEnd: AbortController;
  readonly shutdown: AbortController;
}

const SECRET = "a secret of the tests, sixty-four bytes long, and of no other use";

/** A token for the server, with these scopes. */
export async function createToken(scope: string, claims: Record<string, unknown> = {}): Promise<string> {
  return new SignJWT({ sub: "alice", scope, ...claims })
    .setProtectedHeader({ alg: "HS256" })
    .setExpirationTime("1h")
    .sign(Buffer.from(SECRET));
}

/** Listens on a port of the system's choice. */
export async function startRpcServer(options: RpcServerOptions): Promise<RpcServer> {
  const errors: (LogFields | undefined)[] = [];
  const log: Logger = { ...silentLogger, error: (_, fields) => void errors.push(fields) };
  const telemetry = createTelemetry(log);
  const streamsEnd = new AbortController();
  const shutdown = new AbortController();
  const readLimitBytes = options.readLimitBytes ?? 1024 * 1024;
  const bodies = createBodyBudget(options.bodyMemoryBytes ?? 256 * 1024 * 1024);
  const shared = {
    authorize: createAuthorize({
      algorithm: "HS256",
      keys: createTokenKeys({ source: { kind: "secret", secret: SECRET }, algorithm: "HS256", log }),
      issuer: undefined,
      audience: undefined,
      leewayMs: 30_000,
    }),
    funnel: createErrorFunnel(log, readLimitBytes),
    bodies,
    telemetry,
    tracer: options.tracer,
    shutdown: shutdown.signal,
  };
  const rpc = createRpc({
    ...shared,
    routes: options.routes ?? (() => undefined),
    readLimitBytes,
    deadlines: { defaultMs: 10_000, maxMs: 20_000, maxStreamMs: 20_000, ...options.deadlines },
    maxStreams: options.maxStreams ?? 100,
    streamsEnd: streamsEnd.signal,
  });
  const httpRoutes = createHttpRoutes({
    ...shared,
    routes: options.httpRoutes ?? [],
    timeoutMs: options.httpTimeoutMs ?? 10_000,
  });
  const listener = await listen(
    {
      host: "127.0.0.1",
      port: 0,
      tls: undefined,
      maxConnections: 1_000,
      maxHeaderBytes: 64 * 1024,
      headerTimeoutMs: 5_000,
      requestTimeoutMs: 20_000,
      log,
      ...options.listener,
    },
    createDispatch(createCors(options.corsOrigins ?? []), httpRoutes, rpc),
  );
  const scheme = options.listener?.tls === undefined ? "http" : "https";
  return {
    url: `${scheme}://127.0.0.1:${String(listener.port)}`,
    port: listener.port,
    rpc,
    bodies,
    telemetry,
    errors,
    streamsEnd,
    shutdown,
    async [Symbol.asyncDispose]() {
      await listener.close(0);
      await telemetry[Symbol.asyncDispose]();
    },
  };
}
