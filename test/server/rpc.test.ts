import { once } from "node:events";
import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
} from "@connectrpc/connect-node";
import { afterEach, describe, expect, it } from "vitest";
import { ErrorInfoSchema, RetryInfoSchema } from "#gen/google/rpc/error_details_pb.ts";
import { Health } from "#gen/health/v1/health_pb.ts";
import { IngestService } from "#gen/weir/v1/ingest_pb.ts";
import { SearchService } from "#gen/weir/v1/search_pb.ts";
import { principalKey } from "../../server/auth/auth.ts";
import { toConnectError } from "../../server/errors.ts";
import { shuttingDown } from "../../server/http/serving.ts";
import { createToken, type RpcServer, type RpcServerOptions, startRpcServer } from "../support/rpc-server.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

async function start(options: RpcServerOptions): Promise<RpcServer> {
  return stack.use(await startRpcServer(options));
}

type Protocol = "Connect, HTTP/1.1" | "Connect, HTTP/2" | "gRPC" | "gRPC-Web, HTTP/1.1" | "gRPC-Web, HTTP/2";

const PROTOCOLS: readonly Protocol[] = [
  "Connect, HTTP/1.1",
  "Connect, HTTP/2",
  "gRPC",
  "gRPC-Web, HTTP/1.1",
  "gRPC-Web, HTTP/2",
];

function transportOf(protocol: Protocol, baseUrl: string): Transport {
  switch (protocol) {
    case "Connect, HTTP/1.1":
      return createConnectTransport({ baseUrl, httpVersion: "1.1" });
    case "Connect, HTTP/2":
      return createConnectTransport({ baseUrl, httpVersion: "2" });
    case "gRPC":
      return createGrpcTransport({ baseUrl });
    case "gRPC-Web, HTTP/1.1":
      return createGrpcWebTransport({ baseUrl, httpVersion: "1.1" });
    case "gRPC-Web, HTTP/2":
      return createGrpcWebTransport({ baseUrl, httpVersion: "2" });
  }
}

async function authorization(
  scope = "events.write events.read",
): Promise<{ headers: { authorization: string } }> {
  return { headers: { authorization: `Bearer ${await createToken(scope)}` } };
}

/** What a call is refused with. */
async function refusalOf(
  call: Promise<unknown>,
): Promise<{ code: string; reason: string; error: ConnectError }> {
  const error = await call.then(
    (answer) => expect.fail(`answered ${JSON.stringify(answer)}`),
    (reason: unknown) => ConnectError.from(reason),
  );
  return { code: Code[error.code], reason: error.findDetails(ErrorInfoSchema)[0]?.reason ?? "none", error };
}

const never = new Promise<never>(() => undefined);

describe.each(PROTOCOLS)("%s", (protocol) => {
  it("calls, with the principal of the token", async () => {
    const { url } = await start({
      routes: (router) =>
        router.service(SearchService, {
          getEvent: (_, context) => ({ event: { name: context.values.get(principalKey) } }),
        }),
    });
    const client = createClient(SearchService, transportOf(protocol, url));
    const { event } = await client.getEvent({ name: "x" }, await authorization());
    expect(event?.name).toBe("alice");
  });

  it("refuses without a token, with a bad one, and without the scope", async () => {
    let called = 0;
    const { url, telemetry } = await start({
      routes: (router) =>
        router.service(IngestService, {
          validateEvent: () => {
            called += 1;
            return { valid: true };
          },
        }),
    });
    const client = createClient(IngestService, transportOf(protocol, url));
    const missing = await refusalOf(client.validateEvent({}));
    expect(missing).toMatchObject({ code: "Unauthenticated", reason: "TOKEN_MISSING" });
    expect(missing.error.metadata.get("www-authenticate")).toBe('Bearer realm="weir"');
    const bad = await refusalOf(client.validateEvent({}, { headers: { authorization: "Bearer a.b.c" } }));
    expect(bad).toMatchObject({ code: "Unauthenticated", reason: "TOKEN_INVALID" });
    const poor = await refusalOf(client.validateEvent({}, await authorization("events.read")));
    expect(poor).toMatchObject({ code: "PermissionDenied", reason: "SCOPE_MISSING" });
    expect(poor.error.rawMessage).toContain("events.write");
    expect(called).toBe(0);
    const { body } = await telemetry.page();
    const labels = 'method="weir.v1.IngestService/ValidateEvent"';
    expect(body).toContain(`weir_request_refusals_total{${labels},reason="SCOPE_MISSING"} 1`);
    expect(body).toMatch(new RegExp(`weir_request_duration\\w*_count{${labels},code="unauthenticated"} 2\n`));
  });

  it("holds the deadline though the handler ignores its signal", async () => {
    const { url, telemetry } = await start({
      routes: (router) => router.service(IngestService, { validateEvent: () => never }),
      deadlines: { defaultMs: 200, maxMs: 300 },
    });
    // The client has no deadline of its own, or one that the server brings forward.
    for (const [timeout, ms] of [
      [undefined, 200],
      ["9999999", 300],
    ] as const) {
      const client = createClient(IngestService, transportOf(protocol, url));
      const options = await authorization();
      const grpc = protocol.startsWith("gRPC");
      const headers = timeout && {
        [grpc ? "grpc-timeout" : "connect-timeout-ms"]: `${timeout}${grpc ? "S" : ""}`,
      };
      const startedAt = performance.now();
      const refusal = await refusalOf(
        client.validateEvent({}, { headers: { ...options.headers, ...headers } }),
      );
      expect(refusal).toMatchObject({ code: "DeadlineExceeded", reason: "DEADLINE_EXCEEDED" });
      expect(performance.now() - startedAt).toBeGreaterThan(ms - 20);
      expect(performance.now() - startedAt).toBeLessThan(ms + 600);
    }
    expect((await telemetry.page()).body).toContain('code="deadline_exceeded"} 2');
  });

  it("passes on what a handler that heeds its signal knows", async () => {
    const { url } = await start({
      routes: (router) =>
        router.service(IngestService, {
          async createEvent(_, { signal }) {
            await once(signal, "abort");
            throw toConnectError({
              code: Code.Unavailable,
              reason: "PUBLISH_OUTCOME_UNKNOWN",
              message: "",
              retryAfterMs: 1,
            });
          },
        }),
      deadlines: { defaultMs: 100 },
    });
    const client = createClient(IngestService, transportOf(protocol, url));
    const refusal = await refusalOf(client.createEvent({}, await authorization()));
    expect(refusal).toMatchObject({ code: "Unavailable", reason: "PUBLISH_OUTCOME_UNKNOWN" });
    expect(refusal.error.findDetails(RetryInfoSchema)).toHaveLength(1);
  });

  it("hides an unexpected error behind a correlation id and logs it", async () => {
    const { url, errors } = await start({
      routes: (router) =>
        router.service(IngestService, {
          validateEvent: () => {
            throw new TypeError("the password is hunter2");
          },
        }),
    });
    const client = createClient(IngestService, transportOf(protocol, url));
    const { code, reason, error } = await refusalOf(client.validateEvent({}, await authorization()));
    expect({ code, reason }).toEqual({ code: "Internal", reason: "INTERNAL" });
    expect(JSON.stringify([error, error.message, [...error.metadata]])).not.toContain("hunter2");
    const id = error.findDetails(ErrorInfoSchema)[0]?.metadata["correlationId"];
    expect(errors).toMatchObject([{ correlationId: id, method: "weir.v1.IngestService/ValidateEvent" }]);
    expect(errors[0]?.["error"]).toBeInstanceOf(TypeError);
  });

  it("bounds messages, compressed or not", async () => {
    const { url } = await start({
      routes: (router) => router.service(SearchService, { getEvent: () => ({}) }),
      readLimitBytes: 2_000,
    });
    const client = createClient(SearchService, transportOf(protocol, url));
    const options = await authorization();
    await client.getEvent({ name: "x".repeat(1_500) }, options);
    const refusal = await refusalOf(client.getEvent({ name: "x".repeat(2_000) }, options));
    expect(refusal).toMatchObject({ code: "ResourceExhausted", reason: "MESSAGE_TOO_LARGE" });
    expect(refusal.error.findDetails(ErrorInfoSchema)[0]?.metadata).toMatchObject({
      limit: "2000",
      unit: "bytes",
    });
    expect(refusal.error.rawMessage).toMatch(/^The message .* 2000 bytes that are read\.$/);
  });

  it("says its reason for a method that is not there", async () => {
    const { url } = await start({ routes: (router) => router.service(SearchService, {}) });
    const options = await authorization();
    const bare = await refusalOf(
      createClient(SearchService, transportOf(protocol, url)).getEvent({}, options),
    );
    expect(bare).toMatchObject({ code: "Unimplemented", reason: "UNIMPLEMENTED" });
    const unknown = createClient(IngestService, transportOf(protocol, url));
    expect(await refusalOf(unknown.validateEvent({}, options))).toMatchObject({ code: "Unimplemented" });
  });

  it("ends streams when the server stops, and bounds how many there are", async () => {
    let released = 0;
    const { url, rpc, streamsEnd } = await start({
      routes: (router) =>
        router.service(Health, {
          async *watch(_, { signal }) {
            signal.addEventListener("abort", () => (released += 1));
            yield { status: 1 };
            await never;
          },
        }),
      // A tenth of them for methods that need no token.
      maxStreams: 20,
    });
    const client = createClient(Health, transportOf(protocol, url));
    const open = async (signal?: AbortSignal): Promise<AsyncIterator<unknown>> => {
      const stream = client.watch({}, signal && { signal })[Symbol.asyncIterator]();
      await stream.next();
      return stream;
    };
    const first = await open();
    const leaving = new AbortController();
    const second = await open(leaving.signal);
    const third = await refusalOf(open());
    expect(third).toMatchObject({ code: "Unavailable", reason: "STREAM_CAPACITY" });
    expect(third.error.findDetails(RetryInfoSchema)).toHaveLength(1);
    expect(third.error.findDetails(ErrorInfoSchema)[0]?.metadata).toMatchObject({ limit: "2" });

    leaving.abort();
    await refusalOf(second.next());
    await expect.poll(() => rpc.streams).toBe(1);
    expect(released).toBe(1);

    const ended = refusalOf(first.next());
    streamsEnd.abort(shuttingDown());
    expect(await ended).toMatchObject({ code: "Unavailable", reason: "SHUTTING_DOWN" });
    await expect.poll(() => rpc.streams).toBe(0);
    expect(released).toBe(2);
  });

  it("tells calls that are still in flight at the end of the drain", async () => {
    const called = Promise.withResolvers<void>();
    const { url, shutdown } = await start({
      routes: (router) =>
        router.service(IngestService, {
          validateEvent: () => {
            called.resolve();
            return never;
          },
        }),
    });
    const call = refusalOf(
      createClient(IngestService, transportOf(protocol, url)).validateEvent({}, await authorization()),
    );
    await called.promise;
    shutdown.abort(shuttingDown());
    expect(await call).toMatchObject({ code: "Unavailable", reason: "SHUTTING_DOWN" });
  });

  it("raises the signal of a call whose client has gone", async () => {
    const called = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    const { url, telemetry } = await start({
      routes: (router) =>
        router.service(IngestService, {
          validateEvent: (_, { signal }) => {
            signal.addEventListener("abort", () => ended.resolve());
            called.resolve();
            return never;
          },
        }),
    });
    const leaving = new AbortController();
    const client = createClient(IngestService, transportOf(protocol, url));
    const options = { ...(await authorization()), signal: leaving.signal };
    const call = refusalOf(client.validateEvent({}, options));
    await called.promise;
    leaving.abort();
    expect(await call).toMatchObject({ code: "Canceled" });
    await ended.promise;
    const { body } = await telemetry.page();
    expect(body).toContain('code="canceled"} 1');
    // The client's own doing refuses nothing.
    expect(body).not.toContain('reason="CANCELLED"');
  });
});
