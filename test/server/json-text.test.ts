import { once } from "node:events";
import * as http2 from "node:http2";
import { gzipSync } from "node:zlib";
import { type ConnectRouter } from "@connectrpc/connect";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { IngestService } from "#gen/weir/v1/ingest_pb.ts";
import { SearchService } from "#gen/weir/v1/search_pb.ts";

import { createToken, type RpcServer, startRpcServer } from "../support/rpc-server.ts";

// JSON that cannot be read whole is refused, by every way in: what is guessed or left out is acknowledged and lost.

let server: RpcServer;
let headers: Readonly<Record<string, string>>;
const seen: string[] = [];

beforeAll(async () => {
  server = await startRpcServer({ routes });
  headers = { authorization: `Bearer ${await createToken("events.write events.read")}` };
});
afterAll(() => server[Symbol.asyncDispose]());
beforeEach(() => void (seen.length = 0));

function routes(router: ConnectRouter): void {
  router.service(IngestService, {
    createEvent({ event }) {
      seen.push(event?.id ?? "");
      return {};
    },
    async *streamEvents(requests) {
      for await (const { event } of requests) seen.push(event?.id ?? "");
      yield {};
    },
  });
  router.service(SearchService, {
    getEvent({ name }) {
      seen.push(name);
      return {};
    },
  });
}

const CREATE = "/weir.v1.IngestService/CreateEvent";
const STREAM = "/weir.v1.IngestService/StreamEvents";
const GET = "/weir.v1.SearchService/GetEvent";

/** Everything that the server says: headers, body and trailers, on HTTP/2. */
async function send(head: http2.OutgoingHttpHeaders, body?: Uint8Array): Promise<string> {
  const session = http2.connect(server.url);
  try {
    const stream = session.request({ ...headers, ...head });
    let told = "";
    const note = (name: string, value: unknown): void => void (told += `${name}: ${String(value)}\n`);
    stream.on("trailers", (fields) => Object.entries(fields).forEach(([name, value]) => note(name, value)));
    const responded = once(stream, "response") as Promise<[http2.IncomingHttpHeaders]>;
    stream.end(body);
    for await (const chunk of stream) told += Buffer.from(chunk as Uint8Array).toString("latin1");
    Object.entries((await responded)[0]).forEach(([name, value]) => note(name, value));
    return told.replaceAll("%20", " ").replaceAll("%2C", ",").replaceAll("%22", '"');
  } finally {
    session.destroy();
  }
}

function frame(message: Uint8Array, flags = 0): Uint8Array {
  const head = Buffer.alloc(5);
  head[0] = flags;
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

type Ways = Readonly<
  Record<
    string,
    { type: string; path?: string; more?: Record<string, string>; wrap: (m: Buffer) => Uint8Array }
  >
>;

const WAYS: Ways = {
  "a plain call of Connect": { type: "application/json", wrap: (m) => m },
  "a call of Connect that the library serves": {
    type: "application/json",
    more: { "content-encoding": "identity" },
    wrap: (m) => m,
  },
  "a large call of Connect": {
    type: "application/json",
    wrap: (m) => Buffer.concat([m, Buffer.alloc(400_000, " ")]),
  },
  "a call of Connect in gzip": {
    type: "application/json",
    more: { "content-encoding": "gzip" },
    wrap: (m) => gzipSync(m),
  },
  "a stream of Connect": { type: "application/connect+json", path: STREAM, wrap: (m) => frame(m) },
  "a stream of Connect in gzip": {
    type: "application/connect+json",
    path: STREAM,
    more: { "connect-content-encoding": "gzip" },
    wrap: (m) => frame(gzipSync(m), 1),
  },
  gRPC: { type: "application/grpc+json", wrap: (m) => frame(m) },
  "gRPC in gzip": {
    type: "application/grpc+json",
    more: { "grpc-encoding": "gzip" },
    wrap: (m) => frame(gzipSync(m), 1),
  },
  "gRPC-Web": { type: "application/grpc-web+json", wrap: (m) => frame(m) },
};

describe.each(Object.entries(WAYS))("by %s", (_, { type, path = CREATE, more, wrap }) => {
  const call = async (text: string): Promise<string> => {
    const body = wrap(Buffer.from(text, "latin1"));
    const length = { "content-length": String(body.byteLength) };
    return await send({ ":method": "POST", ":path": path, "content-type": type, ...length, ...more }, body);
  };
  const refused = /invalid_argument|grpc-status: ?3/;

  it("UTF-8 is taken", async () => {
    expect(await call('{"event":{"id":"order-\xc3\xa9"}}')).not.toMatch(refused);
    expect(seen).toEqual(["order-é"]);
  });

  it("what is not UTF-8 is refused, and never becomes another text", async () => {
    const told = await call('{"event":{"id":"order-\xe9"}}');
    expect(told).toMatch(refused);
    expect(told).toContain("is not UTF-8, which JSON must be");
    expect(seen).toEqual([]);
  });

  it("a field that nobody knows is refused by its name", async () => {
    const told = await call('{"event":{"id":"a","texData":"lost"}}');
    expect(told).toMatch(refused);
    expect(told).toContain("texData");
    expect(seen).toEqual([]);
  });

  it("an enum's name that nobody knows is refused", async () => {
    const field =
      path === STREAM ? '"event":{"attributes":{"a":{"ceBool":true}}}' : '"waitFor":"STAGE_STOERD"';
    expect(await call(`{${field}}`)).toMatch(refused);
    expect(seen).toEqual([]);
  });
});

describe("by a GET of Connect", () => {
  const get = async (query: string): Promise<string> => await send({ ":path": `${GET}?connect=v1&${query}` });
  const base64 = (bytes: Uint8Array): string => encodeURIComponent(Buffer.from(bytes).toString("base64"));

  it("UTF-8 is taken", async () => {
    await get("encoding=json&message=%7B%22name%22%3A%22%C3%A9%22%7D");
    await get(`encoding=json&base64=1&message=${base64(Buffer.from('{"name":"é"}'))}`);
    expect(seen).toEqual(["é", "é"]);
  });

  it.each([
    ["percent-encoded", "encoding=json&message=%7B%22name%22%3A%22%E9%22%7D"],
    ["in base64", `encoding=json&base64=1&message=${base64(Buffer.from('{"name":"\xe9"}', "latin1"))}`],
    [
      "in gzip",
      `encoding=json&base64=1&compression=gzip&message=${base64(gzipSync(Buffer.from('"\xe9"', "latin1")))}`,
    ],
  ])("what is not UTF-8 is refused: %s", async (_, query) => {
    expect(await get(query)).toContain("is not UTF-8, which JSON must be");
    expect(seen).toEqual([]);
  });

  it("a message of too many parts is refused, however small it travels", async () => {
    const many = gzipSync(Buffer.from(`{"name":[${"1,".repeat(200_000)}1]}`));
    expect(await get(`encoding=json&base64=1&compression=gzip&message=${base64(many)}`)).toContain(
      "TOO_LARGE",
    );
  });
});
