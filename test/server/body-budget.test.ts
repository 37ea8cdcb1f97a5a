import { randomBytes } from "node:crypto";
import { once } from "node:events";
import * as http2 from "node:http2";
import * as net from "node:net";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { type ConnectRouter } from "@connectrpc/connect";
import { afterEach, expect, it } from "vitest";
import { Health } from "#gen/health/v1/health_pb.ts";
import { IngestService } from "#gen/weir/v1/ingest_pb.ts";
import { jsonAnswer } from "../../server/http/http-answer.ts";
import { type HttpRoute } from "../../server/http/http-routes.ts";
import { createToken, type RpcServer, startRpcServer } from "../support/rpc-server.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

const ROUTE: HttpRoute = {
  method: "POST",
  path: "/v1/events",
  scope: "events.write",
  maxBodyBytes: 1_000_000,
  handle: () => jsonAnswer(200, {}),
};

function routes(router: ConnectRouter): void {
  router.service(IngestService, {
    createEvent: () => ({}),
    async *streamEvents(requests) {
      for await (const _ of requests) yield {};
    },
  });
  router.service(Health, { check: () => ({}) });
}

const LIMIT = 1_000_000;
const CREATE = "/weir.v1.IngestService/CreateEvent";

/** The head of a frame of so many bytes. */
function frameHead(size: number, flags = 0): Buffer {
  const head = Buffer.alloc(5, flags);
  head.writeUInt32BE(size, 1);
  return head;
}

interface Way {
  readonly path: string;
  readonly type: string;
  readonly isFramed?: boolean;
  /** The header that names the coding; default: content-encoding. */
  readonly encoding?: string;
  readonly bytes?: number;
}

const WAYS: Readonly<Record<string, Way>> = {
  HTTP: { path: "/v1/events", type: "application/cloudevents+json" },
  "a plain call of Connect": { path: CREATE, type: "application/proto", bytes: 240_000 },
  "a large call of Connect": { path: CREATE, type: "application/proto" },
  gRPC: { path: CREATE, type: "application/grpc", isFramed: true, encoding: "grpc-encoding" },
  "gRPC-Web": { path: CREATE, type: "application/grpc-web", isFramed: true, encoding: "grpc-encoding" },
  "a stream": {
    path: "/weir.v1.IngestService/StreamEvents",
    type: "application/connect+proto",
    isFramed: true,
    encoding: "connect-content-encoding",
  },
};

interface Begun {
  readonly socket: net.Socket;
  readonly stream: http2.ClientHttp2Stream;
  /** Headers, body and trailers of the answer. */
  readonly told: Promise<string>;
}

/** Begins a request over a connection of its own. */
function begin(
  server: RpcServer,
  token: string,
  { path, type }: Way,
  headers: http2.OutgoingHttpHeaders,
): Begun {
  const socket = net.connect({ host: "127.0.0.1", port: server.port });
  const session = http2.connect(server.url, { createConnection: () => socket });
  stack.defer(() => session.destroy());
  session.on("error", () => undefined);
  const stream = session.request({
    ":method": "POST",
    ":path": path,
    "content-type": type,
    authorization: `Bearer ${token}`,
    ...headers,
  });
  stream.on("error", () => undefined);
  let told = "";
  stream.on("response", (each) => (told += JSON.stringify(each)));
  stream.on("trailers", (each) => (told += JSON.stringify(each)));
  stream.on("data", (chunk: Buffer) => (told += chunk.toString("latin1")));
  return { socket, stream, told: once(stream, "end").then(() => told.replaceAll("%20", " ")) };
}

/** Begins a request that lacks the last byte of its body. */
function beginUnfinished(server: RpcServer, token: string, way: Way, bytes: number): Begun {
  const { isFramed = false } = way;
  const begun = begin(server, token, way, isFramed ? {} : { "content-length": String(bytes + 1) });
  if (isFramed) begun.stream.write(frameHead(bytes + 1));
  begun.stream.write(Buffer.alloc(bytes));
  return begun;
}

const brotli = (bytes: Buffer): Buffer =>
  brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } });

const REFUSAL = "Nothing was done with this one";

it.each(Object.entries(WAYS))("bodies that do not end hold no more than their budget: %s", async (_, way) => {
  const { type, bytes = 600_000 } = way;
  const server = stack.use(
    await startRpcServer({ routes, httpRoutes: [ROUTE], bodyMemoryBytes: LIMIT, readLimitBytes: LIMIT }),
  );
  const token = await createToken("events.write");
  const most = Math.floor(LIMIT / (bytes + 5));
  const held = Array.from({ length: most }, () => beginUnfinished(server, token, way, bytes));
  await expect.poll(() => server.bodies.heldBytes).toBeGreaterThanOrEqual(most * bytes);
  const told = await beginUnfinished(server, token, way, bytes).told;
  expect(told).toMatch(type.includes("grpc") ? /grpc-status"?: ?"?14/ : /"unavailable"/);
  expect(told).toContain(REFUSAL);
  expect(server.bodies.heldBytes).toBeLessThanOrEqual(LIMIT);
  for (const { stream } of held) stream.close(http2.constants.NGHTTP2_CANCEL);
  await expect.poll(() => server.bodies.heldBytes).toBe(0);
  expect(server.errors).toEqual([]);
});

it.each(
  Object.entries(WAYS).flatMap(([name, way]) => [
    [name, "gzip", way, gzipSync] as const,
    [name, "br", way, brotli] as const,
  ]),
)("a body counts as it came and inflated, together: %s in %s", async (_, coding, way, compress) => {
  const server = stack.use(
    await startRpcServer({ routes, httpRoutes: [ROUTE], bodyMemoryBytes: LIMIT, readLimitBytes: LIMIT }),
  );
  const token = await createToken("events.write");
  const answer = (inflated: Buffer): Promise<string> => {
    const message = compress(inflated);
    const header = way.encoding ?? "content-encoding";
    const { stream, told } = begin(server, token, way, { [header]: coding });
    if (way.isFramed === true) stream.write(frameHead(message.length, 1));
    stream.end(message);
    return told;
  };
  const zeros = Buffer.alloc(450_000);
  // 450 kB and a little as it comes, 900 kB inflated.
  expect(await answer(Buffer.concat([randomBytes(450_000), zeros]))).toContain(REFUSAL);
  await expect.poll(() => server.bodies.heldBytes).toBe(0);
  expect(await answer(Buffer.concat([zeros, zeros]))).not.toContain(REFUSAL);
  await expect.poll(() => server.bodies.heldBytes).toBe(0);
  expect(server.errors).toEqual([]);
});

it.each(Object.entries(WAYS))(
  "an HTTP/2 client that leaves in the middle of its body gives back its share, long before its deadline: %s",
  async (_, way) => {
    const { bytes = 600_000 } = way;
    const server = stack.use(await startRpcServer({ routes, httpRoutes: [ROUTE], readLimitBytes: LIMIT }));
    const { socket } = beginUnfinished(server, await createToken("events.write"), way, bytes);
    await expect.poll(() => server.bodies.heldBytes).toBeGreaterThanOrEqual(bytes);
    // What TCP says where a process ends: no GOAWAY, no reset.
    socket.end();
    await expect.poll(() => server.bodies.heldBytes).toBe(0);
    expect(server.errors).toEqual([]);
  },
);

async function post(server: RpcServer, path: string, body: string): Promise<number> {
  const headers = {
    "content-type": "application/json",
    authorization: `Bearer ${await createToken("events.write")}`,
  };
  return (await fetch(server.url + path, { method: "POST", headers, body })).status;
}

it("strangers take none of the room of those who have a token", async () => {
  const server = stack.use(await startRpcServer({ routes, bodyMemoryBytes: 10_000 }));
  for (let count = 0; count < 20; count += 1) {
    const socket = net.connect({ host: "127.0.0.1", port: server.port });
    stack.defer(() => void socket.destroy());
    socket.on("error", () => undefined);
    socket.write(
      `POST /grpc.health.v1.Health/Check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n${"x".repeat(900)}`,
    );
    if (count === 19) await once(socket, "data");
  }
  expect(server.bodies.heldBytes).toBe(0);
  expect(await post(server, "/grpc.health.v1.Health/Check", " ".repeat(500))).toBe(503);
  expect(await post(server, CREATE, `{}${" ".repeat(9_000)}`)).toBe(200);
});
