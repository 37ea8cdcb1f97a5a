import { once } from "node:events";
import * as http2 from "node:http2";
import * as net from "node:net";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { create, toBinary } from "@bufbuild/protobuf";
import { type ConnectRouter } from "@connectrpc/connect";
import { afterEach, describe, expect, it } from "vitest";
import { IngestService, ValidateEventRequestSchema } from "#gen/weir/v1/ingest_pb.ts";
import { SearchService } from "#gen/weir/v1/search_pb.ts";
import { addReflection } from "../../server/http/reflection.ts";
import { createToken, type RpcServer, type RpcServerOptions, startRpcServer } from "../support/rpc-server.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

async function start(options: RpcServerOptions): Promise<RpcServer> {
  return stack.use(await startRpcServer(options));
}

async function authorization(
  scope = "events.write events.read",
): Promise<{ headers: { authorization: string } }> {
  return { headers: { authorization: `Bearer ${await createToken(scope)}` } };
}

const validate = { validateEvent: () => ({ valid: true }) };

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
    [
      "br with more behind its end",
      {
        body: Buffer.concat([brotliCompressSync("{}"), Buffer.from("more")]),
        headers: { "content-encoding": "br" },
      },
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

  it("holds the deadline over HTTP/1.1 though the body does not come", async () => {
    const { port } = await start({ routes, deadlines: { defaultMs: 200 } });
    const { headers } = await authorization();
    const startedAt = performance.now();
    const socket = net.connect({ host: "127.0.0.1", port });
    stack.defer(() => void socket.destroy());
    socket.write(
      `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: ${headers.authorization}\r\nContent-Length: 100\r\n\r\n{`,
    );
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 504 /);
    expect(answer.toString()).toMatch(/DEADLINE_EXCEEDED/);
    expect(performance.now() - startedAt).toBeLessThan(1_500);
  });

  it("holds the deadline over HTTP/2 though the body does not come", async () => {
    const { url } = await start({ routes, deadlines: { defaultMs: 200 } });
    const { headers } = await authorization();
    const startedAt = performance.now();
    const session = http2.connect(url);
    stack.defer(() => session.destroy());
    const head = {
      ":method": "POST",
      ":path": path,
      "content-type": "application/grpc+proto",
      te: "trailers",
    };
    const stream = session.request({ ...head, ...headers });
    stream.resume();
    const [trailers] = (await once(stream, "trailers")) as [http2.IncomingHttpHeaders];
    expect(trailers["grpc-status"]).toBe("4");
    expect(performance.now() - startedAt).toBeLessThan(1_500);
  });

  it("serves GET for methods without side effects, and for no others", async () => {
    const { url } = await start({
      routes(router) {
        const write = (): never => expect.fail("written by GET");
        router.service(IngestService, { ...validate, createEvent: write, batchCreateEvents: write });
        router.service(SearchService, { getEvent: ({ name }) => ({ event: { name } }) });
      },
    });
    const options = await authorization();
    const query = `?connect=v1&encoding=json&message=${encodeURIComponent('{"name":"x"}')}`;
    const read = await fetch(`${url}/weir.v1.SearchService/GetEvent${query}`, options);
    expect(await read.json()).toEqual({ event: { name: "x" } });
    const open = await fetch(`${url}/weir.v1.SearchService/GetEvent${query}`);
    expect(open.status).toBe(401);
    for (const method of ["CreateEvent", "BatchCreateEvents"]) {
      const path = `/weir.v1.IngestService/${method}?connect=v1&encoding=json&message={}`;
      const write = await fetch(`${url}${path}`, options);
      expect(write.status).toBe(405);
      expect(write.headers.get("allow")).toBe("POST");
      expect(await write.json()).toMatchObject({ details: [{ debug: { reason: "METHOD_NOT_ALLOWED" } }] });
    }
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
  });
});
