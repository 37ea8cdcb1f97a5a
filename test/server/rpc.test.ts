import { once } from "node:events";
import * as http2 from "node:http2";
import * as net from "node:net";
import { gzipSync } from "node:zlib";
import { create, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, type ConnectRouter, createClient, type Transport } from "@connectrpc/connect";
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
} from "@connectrpc/connect-node";
import { afterEach, describe, expect, it } from "vitest";
import { ErrorInfoSchema, RetryInfoSchema } from "#gen/google/rpc/error_details_pb.ts";
import { Health } from "#gen/health/v1/health_pb.ts";
import {
  CreateEventRequestSchema,
  IngestService,
  ValidateEventRequestSchema,
} from "#gen/weir/v1/ingest_pb.ts";
import { SearchService } from "#gen/weir/v1/search_pb.ts";
import { principalKey } from "../../server/auth.ts";
import { toConnectError } from "../../server/errors.ts";
import { addReflection } from "../../server/reflection.ts";
import { shuttingDown } from "../../server/serving.ts";
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
const validate = { validateEvent: () => ({ valid: true }) };

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
    expect(refusal.error.findDetails(ErrorInfoSchema)[0]?.metadata).toEqual({ limit: "2000", unit: "bytes" });
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
      maxStreams: 2,
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
    expect((await telemetry.page()).body).toContain('code="canceled"} 1');
  });
});

interface Sent {
  readonly body?: string | Uint8Array<ArrayBuffer>;
  readonly headers?: Readonly<Record<string, string>>;
}

describe("the wire", () => {
  const path = "/weir.v1.IngestService/ValidateEvent";
  const routes = (router: ConnectRouter): ConnectRouter => router.service(IngestService, validate);

  async function post(url: string, init: Sent): Promise<Response> {
    const { headers } = await authorization();
    const body = init.body ?? "{}";
    return fetch(url + path, {
      method: "POST",
      body,
      headers: { "content-type": "application/json", ...headers, ...init.headers },
    });
  }

  it("refuses a gzip bomb", async () => {
    const { url } = await start({ routes, readLimitBytes: 100_000 });
    const bomb = gzipSync(Buffer.alloc(50_000_000, 0x20));
    expect(bomb.length).toBeLessThan(100_000);
    const response = await post(url, { body: bomb, headers: { "content-encoding": "gzip" } });
    expect(response.status).toBe(429);
    expect(await response.json()).toMatchObject({
      code: "resource_exhausted",
      details: [{ debug: { reason: "MESSAGE_TOO_LARGE", domain: "weir" } }],
    });
  });

  it("takes gzip and br, and answers in them", async () => {
    const { url } = await start({
      routes: (router) =>
        router.service(IngestService, {
          validateEvent: () => ({ valid: false, violations: [{ description: "x".repeat(5_000) }] }),
        }),
    });
    for (const coding of ["gzip", "br"]) {
      const response = await post(url, {
        body: gzipSync("{}"),
        headers: { "content-encoding": "gzip", "accept-encoding": coding },
      });
      expect(response.headers.get("content-encoding")).toBe(coding);
      expect(await response.json()).toMatchObject({ violations: [{}] });
    }
  });

  it.each<[name: string, init: Sent, status: number, reason: string]>([
    ["a body that is no JSON", { body: "{" }, 400, "INVALID_REQUEST"],
    ["a field of another type", { body: '{"event":[]}' }, 400, "INVALID_REQUEST"],
    [
      "bytes that are no protobuf",
      { body: "\xff", headers: { "content-type": "application/proto" } },
      400,
      "INVALID_REQUEST",
    ],
    [
      "gzip that ends too soon",
      { body: gzipSync("{}").subarray(0, 15), headers: { "content-encoding": "gzip" } },
      400,
      "INVALID_REQUEST",
    ],
    ["a coding that is unknown", { headers: { "content-encoding": "zstd" } }, 501, "UNIMPLEMENTED"],
    ["a coding that is not the body's", { headers: { "content-encoding": "gzip" } }, 400, "INVALID_REQUEST"],
    ["a timeout that is none", { headers: { "connect-timeout-ms": "soon" } }, 400, "INVALID_REQUEST"],
    ["a content type of no RPC", { headers: { "content-type": "text/xml" } }, 415, "UNSUPPORTED_MEDIA_TYPE"],
  ])("refuses %s with its reason", async (_, init, status, reason) => {
    const { url, errors } = await start({ routes });
    const response = await post(url, init);
    expect(await response.json()).toMatchObject({
      details: [{ type: "google.rpc.ErrorInfo", debug: { reason } }],
    });
    expect(response.status).toBe(status);
    expect(errors).toEqual([]);
  });

  it.each([
    ["/weir.v1.IngestService/ValidateEvent", "\x00\x00\x00\x00\x01\xff", "3"],
    ["/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "\x00\x00\x00\x00\x01\xff", "3"],
    ["/weir.v1.IngestService/ValidateEvent", "\x01\x00\x00\x00\x01\xff", "3"],
    ["/weir.v1.IngestService/ValidateEvent", "\x00\x7f\xff\xff\xff", "8"],
    ["/weir.v1.IngestService/ValidateEvent", "", "12"],
  ])("takes the bytes of a gRPC request to %s (%j) for the client's fault", async (method, bytes, status) => {
    const { url, errors } = await start({
      routes(router) {
        routes(router);
        addReflection(router);
      },
    });
    const { headers } = await authorization();
    const session = http2.connect(url);
    stack.defer(() => session.destroy());
    const head = {
      ":method": "POST",
      ":path": method,
      "content-type": "application/grpc+proto",
      te: "trailers",
    };
    const stream = session.request({ ...head, ...headers });
    stream.resume();
    stream.end(Buffer.from(bytes, "latin1"));
    const [trailers] = (await once(stream, "trailers")) as [http2.IncomingHttpHeaders];
    expect(trailers["grpc-status"]).toBe(status);
    expect(trailers["grpc-status-details-bin"]).toBeDefined();
    expect(errors).toEqual([]);
  });

  it("verifies the token before the body is there", async () => {
    const { port } = await start({ routes });
    const socket = net.connect({ host: "127.0.0.1", port });
    stack.defer(() => void socket.destroy());
    socket.write(
      `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer a.b.c\r\nContent-Length: 1000000\r\n\r\n{`,
    );
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 401 /);
    await once(socket, "close");
  });

  it("verifies the token before the body is inflated or parsed", async () => {
    const { url } = await start({ routes });
    const headers = { authorization: "Bearer a.b.c", "content-encoding": "gzip" };
    const response = await post(url, { body: "neither gzip nor JSON", headers });
    expect(response.status).toBe(401);
  });

  it("answers a client that sends a whole large body before it reads", async () => {
    const { port } = await start({ routes });
    const socket = net.connect({ host: "127.0.0.1", port });
    stack.defer(() => void socket.destroy());
    const size = 200_000;
    socket.write(
      `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${size}\r\n\r\n`,
    );
    await new Promise<void>((resolve) => socket.write(Buffer.alloc(size, 0x20), () => resolve()));
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 401 /);
    expect(answer.toString()).not.toMatch(/connection: close/i);
  });

  it.each(["HTTP/1.1", "HTTP/2"])(
    "holds the deadline over %s though the body does not come",
    async (version) => {
      const { url, port } = await start({ routes, deadlines: { defaultMs: 200 } });
      const { headers } = await authorization();
      const startedAt = performance.now();
      if (version === "HTTP/1.1") {
        const socket = net.connect({ host: "127.0.0.1", port });
        stack.defer(() => void socket.destroy());
        socket.write(
          `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: ${headers.authorization}\r\nContent-Length: 100\r\n\r\n{`,
        );
        const [answer] = (await once(socket, "data")) as [Buffer];
        expect(answer.toString()).toMatch(/^HTTP\/1\.1 504 /);
        expect(answer.toString()).toMatch(/DEADLINE_EXCEEDED/);
      } else {
        const session = http2.connect(url);
        stack.defer(() => session.destroy());
        const stream = session.request({
          ":method": "POST",
          ":path": path,
          "content-type": "application/grpc+proto",
          te: "trailers",
          ...headers,
        });
        stream.resume();
        const [trailers] = (await once(stream, "trailers")) as [http2.IncomingHttpHeaders];
        expect(trailers["grpc-status"]).toBe("4");
      }
      expect(performance.now() - startedAt).toBeLessThan(1_500);
    },
  );

  it("serves GET for methods without side effects, and for no others", async () => {
    const { url } = await start({
      routes(router) {
        router.service(IngestService, { ...validate, createEvent: () => expect.fail("written by GET") });
        router.service(SearchService, { getEvent: ({ name }) => ({ event: { name } }) });
      },
    });
    const options = await authorization();
    const query = `?connect=v1&encoding=json&message=${encodeURIComponent('{"name":"x"}')}`;
    const read = await fetch(`${url}/weir.v1.SearchService/GetEvent${query}`, options);
    expect(await read.json()).toEqual({ event: { name: "x" } });
    const open = await fetch(`${url}/weir.v1.SearchService/GetEvent${query}`);
    expect(open.status).toBe(401);
    const write = await fetch(
      `${url}/weir.v1.IngestService/CreateEvent?connect=v1&encoding=json&message={}`,
      options,
    );
    expect(write.status).toBe(405);
    expect(write.headers.get("allow")).toBe("POST");
    expect(await write.json()).toMatchObject({ details: [{ debug: { reason: "METHOD_NOT_ALLOWED" } }] });
  });

  it("needs HTTP/2 for streams both ways, and says so", async () => {
    const { url } = await start({ routes: addReflection });
    const response = await fetch(`${url}/grpc.reflection.v1.ServerReflection/ServerReflectionInfo`, {
      method: "POST",
      headers: { "content-type": "application/connect+json" },
      body: "",
    });
    expect(response.status).toBe(505);
    expect(await response.json()).toMatchObject({
      message: "This method streams both ways, so it needs HTTP/2.",
    });
  });

  it.each([
    "GET /weir.v1.SearchService/GetEvent HTTP/1.0\r\n\r\n",
    "GET /weir.v1.SearchService/GetEvent HTTP/1.1\r\nHost: [\r\n\r\n",
    "GET //weir.v1.SearchService/GetEvent HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET http://[/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
  ])("survives the request %j", async (request) => {
    const { url, port, errors } = await start({ routes: (router) => router.service(SearchService, {}) });
    const socket = net.connect({ host: "127.0.0.1", port });
    stack.defer(() => void socket.destroy());
    socket.write(request);
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 40[04] /);
    expect((await fetch(`${url}/`)).status).toBe(404);
    expect(errors).toEqual([]);
  });

  it("speaks protobuf in Connect as well", async () => {
    const { url } = await start({ routes });
    const body = toBinary(ValidateEventRequestSchema, create(ValidateEventRequestSchema, {}));
    const response = await post(url, {
      body: new Uint8Array(body),
      headers: { "content-type": "application/proto" },
    });
    expect([...new Uint8Array(await response.arrayBuffer())]).toEqual([8, 1]);
    expect(CreateEventRequestSchema.typeName).toBe("weir.v1.CreateEventRequest");
  });
});
