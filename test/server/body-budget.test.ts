import { once } from "node:events";
import * as http2 from "node:http2";
import * as net from "node:net";
import { type ConnectRouter } from "@connectrpc/connect";
import { afterEach, expect, it } from "vitest";
import { Health } from "#gen/health/v1/health_pb.ts";
import { IngestService } from "#gen/weir/v1/ingest_pb.ts";
import { jsonAnswer } from "../../server/http-answer.ts";
import { type HttpRoute } from "../../server/http-routes.ts";
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
function frameHead(size: number): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(size, 1);
  return head;
}

interface Way {
  readonly path: string;
  readonly type: string;
  readonly isFramed?: boolean;
  readonly bytes?: number;
}

const WAYS: Readonly<Record<string, Way>> = {
  HTTP: { path: "/v1/events", type: "application/cloudevents+json" },
  "a plain call of Connect": { path: CREATE, type: "application/proto", bytes: 240_000 },
  "a large call of Connect": { path: CREATE, type: "application/proto" },
  gRPC: { path: CREATE, type: "application/grpc", isFramed: true },
  "gRPC-Web": { path: CREATE, type: "application/grpc-web", isFramed: true },
  "a stream": {
    path: "/weir.v1.IngestService/StreamEvents",
    type: "application/connect+proto",
    isFramed: true,
  },
};

it.each(Object.entries(WAYS))(
  "bodies that do not end hold no more than their budget: %s",
  async (_, { path, type, isFramed = false, bytes = 600_000 }) => {
    const server = stack.use(
      await startRpcServer({ routes, httpRoutes: [ROUTE], bodyMemoryBytes: LIMIT, readLimitBytes: LIMIT }),
    );
    const token = await createToken("events.write");
    const begin = (): { told: Promise<string>; stream: http2.ClientHttp2Stream } => {
      const session = http2.connect(server.url);
      stack.defer(() => session.destroy());
      session.on("error", () => undefined);
      const stream = session.request({
        ":method": "POST",
        ":path": path,
        "content-type": type,
        authorization: `Bearer ${token}`,
        ...(!isFramed && { "content-length": String(bytes + 1) }),
      });
      stream.on("error", () => undefined);
      let told = "";
      stream.on("response", (headers) => (told += JSON.stringify(headers)));
      stream.on("trailers", (headers) => (told += JSON.stringify(headers)));
      stream.on("data", (chunk: Buffer) => (told += chunk.toString("latin1")));
      if (isFramed) stream.write(frameHead(bytes + 1));
      stream.write(Buffer.alloc(bytes));
      return { told: once(stream, "end").then(() => told), stream };
    };
    const most = Math.floor(LIMIT / (bytes + 5));
    const held = Array.from({ length: most }, begin);
    await expect.poll(() => server.bodies.heldBytes).toBeGreaterThanOrEqual(most * bytes);
    const told = await begin().told;
    expect(told).toMatch(type.includes("grpc") ? /grpc-status"?: ?"?14/ : /"unavailable"/);
    expect(told.replaceAll("%20", " ")).toContain("Nothing was done with this one");
    expect(server.bodies.heldBytes).toBeLessThanOrEqual(LIMIT);
    for (const { stream } of held) stream.close(http2.constants.NGHTTP2_CANCEL);
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
