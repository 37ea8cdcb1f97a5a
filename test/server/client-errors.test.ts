import { once } from "node:events";
import * as http2 from "node:http2";
import * as net from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { type ConnectRouter } from "@connectrpc/connect";
import { IngestService } from "#gen/weir/v1/ingest_pb.ts";
import { jsonAnswer } from "../../server/http/http-answer.ts";
import { type HttpRoute } from "../../server/http/http-routes.ts";
import { createToken, type RpcServer, type RpcServerOptions, startRpcServer } from "../support/rpc-server.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

async function start(options: RpcServerOptions): Promise<RpcServer> {
  return stack.use(await startRpcServer(options));
}

const RPC = "/weir.v1.IngestService/CreateEvent";

/** A server whose answers wait until `finish` is called, and that says what it published. */
async function held(): Promise<{
  server: RpcServer;
  published: string[];
  called: Promise<void>;
  finish: () => void;
}> {
  const called = Promise.withResolvers<void>();
  const finish = Promise.withResolvers<void>();
  const published: string[] = [];
  const publish = async (text: string): Promise<void> => {
    called.resolve();
    await finish.promise;
    published.push(text);
  };
  const route: HttpRoute = {
    method: "POST",
    path: "/v1/events",
    scope: "events.write",
    maxBodyBytes: 10_000,
    async handle({ body }) {
      await publish(Buffer.from(body).toString());
      return jsonAnswer(200, { published: Buffer.from(body).toString() });
    },
  };
  const routes = (router: ConnectRouter): unknown =>
    router.service(IngestService, {
      async createEvent() {
        await publish("by RPC");
        return { receipt: { name: "by RPC" } };
      },
    });
  const server = await start({ httpRoutes: [route], routes: (router) => void routes(router) });
  return { server, published, called: called.promise, finish: () => finish.resolve() };
}

interface Spoken {
  readonly socket: net.Socket;
  /** All that the server says until it closes. */
  readonly told: Promise<string>;
}

function speak({ port }: RpcServer, text: string): Spoken {
  const socket = net.connect({ host: "127.0.0.1", port });
  stack.defer(() => void socket.destroy());
  let told = "";
  socket.on("data", (chunk: Buffer) => (told += chunk.toString("latin1")));
  socket.on("error", () => undefined);
  socket.write(Buffer.from(text, "latin1"));
  return { socket, told: once(socket, "close").then(() => told) };
}

async function post(path: string, headers: string, body: string): Promise<string> {
  const token = await createToken("events.write");
  return `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n${headers}\r\n${body}`;
}

function statuses(told: string): string[] {
  return [...told.matchAll(/HTTP\/1\.1 (\d+) /g)].map(([, status = ""]) => status);
}

describe("bytes that are no HTTP, behind a request that is being served,", () => {
  const JSON_TYPE = "Content-Type: application/json\r\n";
  const plain = (): Promise<string> => post("/v1/events", "Content-Length: 3\r\n", "abc");
  const rpc = (more = ""): Promise<string> => post(RPC, `${JSON_TYPE}${more}Content-Length: 2\r\n`, "{}");

  it.each<[name: string, text: () => Promise<string>, published: string[]]>([
    ["a body longer than its length", async () => `${await plain()}def`, ["abc"]],
    [
      "garbage after two good requests",
      async () => `${await plain()}${await plain()}!!!\r\n\r\n`,
      ["abc", "abc"],
    ],
    [
      "headers that are too large",
      async () => `${await plain()}GET / HTTP/1.1\r\na: ${"x".repeat(70_000)}`,
      ["abc"],
    ],
    ["garbage after an RPC", async () => `${await rpc()}!!!`, ["by RPC"]],
    [
      "garbage after an RPC that the library serves",
      async () => `${await rpc("Content-Encoding: identity\r\n")}!!!`,
      ["by RPC"],
    ],
  ])("do not take its answer: %s", async (_, text, expected) => {
    const { server, published, called, finish } = await held();
    const { told } = speak(server, await text());
    await called;
    finish();
    const answer = await told;
    expect(published).toEqual(expected);
    expect(statuses(answer)).toEqual(expected.map(() => "200"));
    for (const each of expected) expect(answer).toContain(each);
    expect(server.errors).toEqual([]);
  });

  it("get a 400 of their own once nothing else is due", async () => {
    const { server, finish } = await held();
    finish();
    const { socket, told } = speak(server, await plain());
    await once(socket, "data");
    socket.write("!!!\r\n\r\n");
    const answer = await told;
    expect(statuses(answer)).toEqual(["200", "400"]);
    expect(answer).toContain("INVALID_REQUEST");
  });

  it("in a chunked body are that request's own fault, behind the answers that are due", async () => {
    const { server, published, called, finish } = await held();
    const bad = await post("/v1/events", "Transfer-Encoding: chunked\r\n", "3\r\nabc\r\nnot a chunk\r\n");
    const { told } = speak(server, `${await plain()}${bad}`);
    await called;
    finish();
    const answer = await told;
    expect(published).toEqual(["abc"]);
    expect(statuses(answer)).toEqual(["200", "400"]);
    expect(answer).toContain("INVALID_REQUEST");
    expect(server.errors).toEqual([]);
  });

  it("in the body of an RPC that the library serves end that call", async () => {
    const { server, published } = await held();
    const headers = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
    const { told } = speak(server, await post(RPC, headers, "3\r\nabc\r\nnot a chunk\r\n"));
    expect(statuses(await told)).toEqual(["400"]);
    expect(published).toEqual([]);
    expect(server.errors).toEqual([]);
  });

  it("in a body that was refused by its headers get no second answer", async () => {
    const { server } = await held();
    const text = `POST /v1/events HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n`;
    const { socket, told } = speak(server, text);
    await once(socket, "data");
    socket.write("not a chunk\r\n");
    expect(statuses(await told)).toEqual(["401"]);
  });
});

describe("the error model holds for what Node's parser refuses:", () => {
  it.each<[name: string, text: string, status: number, code: string, reason: string]>([
    ["no HTTP", "!!!\r\n\r\n", 400, "invalid_argument", "INVALID_REQUEST"],
    ["a header without a name", "GET / HTTP/1.1\r\n: x\r\n\r\n", 400, "invalid_argument", "INVALID_REQUEST"],
    ["no host", "GET /healthz HTTP/1.1\r\n\r\n", 400, "invalid_argument", "INVALID_REQUEST"],
    [
      "headers that are too large",
      `GET / HTTP/1.1\r\nHost: x\r\na: ${"x".repeat(70_000)}\r\n\r\n`,
      431,
      "resource_exhausted",
      "MESSAGE_TOO_LARGE",
    ],
    [
      "headers that do not come",
      "GET / HTTP/1.1\r\nHost: x\r\n",
      408,
      "deadline_exceeded",
      "DEADLINE_EXCEEDED",
    ],
    [
      "extensions of a chunk",
      `POST /v1/events HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3;${"x".repeat(20_000)}`,
      413,
      "resource_exhausted",
      "MESSAGE_TOO_LARGE",
    ],
    [
      "another expectation",
      "POST /v1/events HTTP/1.1\r\nHost: x\r\nExpect: a-wonder\r\nContent-Length: 0\r\n\r\n",
      417,
      "invalid_argument",
      "INVALID_REQUEST",
    ],
  ])("%s", async (_, text, status, code, reason) => {
    const server = await start({ listener: { headerTimeoutMs: 300 } });
    const { socket, told } = speak(server, text);
    void told;
    const [answer = ""] = ((await once(socket, "data")) as [Buffer]).map(String);
    const [head = "", body = ""] = answer.split("\r\n\r\n");
    expect(head).toMatch(new RegExp(`^HTTP/1\\.1 ${status} \\w`));
    expect(head.toLowerCase()).toContain("content-type: application/json");
    expect(JSON.parse(body)).toMatchObject({
      code,
      message: expect.stringMatching(/\.$/) as string,
      details: [{ type: "google.rpc.ErrorInfo", debug: { reason, domain: "weir" } }],
    });
  });

  it("another expectation over HTTP/2", async () => {
    const { url } = await start({});
    const session = http2.connect(url);
    stack.defer(() => session.destroy());
    const stream = session.request({ ":method": "POST", ":path": "/v1/events", expect: "a-wonder" });
    let body = "";
    stream.on("data", (chunk: Buffer) => (body += chunk.toString()));
    const [headers] = (await once(stream, "response")) as [http2.IncomingHttpHeaders];
    await once(stream, "end");
    expect(headers[":status"]).toBe(417);
    expect(body).toContain("INVALID_REQUEST");
  });
});

describe("large headers", () => {
  const route: HttpRoute = {
    method: "POST",
    path: "/v1/events",
    scope: "events.write",
    maxBodyBytes: 100,
    handle: ({ headers }) =>
      jsonAnswer(200, { bytes: headers.flat().join("").length, count: headers.length }),
  };

  it("are taken up to the limit, over either protocol, and none of them is dropped", async () => {
    const { url } = await start({ httpRoutes: [route], listener: { maxHeaderBytes: 128 * 1024 } });
    const authorization = `Bearer ${await createToken("events.write")}`;
    const large = Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`ce-a${at}`, "x".repeat(4_000)]));
    const h1 = await fetch(`${url}/v1/events`, { method: "POST", headers: { authorization, ...large } });
    expect(((await h1.json()) as { bytes: number }).bytes).toBeGreaterThan(120_000);

    const many = Object.fromEntries(Array.from({ length: 3_000 }, (_, at) => [`ce-b${at}`, "x"]));
    const counted = await fetch(`${url}/v1/events`, { method: "POST", headers: { authorization, ...many } });
    expect(((await counted.json()) as { count: number }).count).toBeGreaterThan(3_000);

    const session = http2.connect(url, { maxSendHeaderBlockLength: 256 * 1024 });
    stack.defer(() => session.destroy());
    const stream = session.request({ ":method": "POST", ":path": "/v1/events", authorization, ...large });
    stream.end();
    let body = "";
    for await (const chunk of stream) body += String(chunk);
    expect((JSON.parse(body) as { bytes: number }).bytes).toBeGreaterThan(120_000);
  });
});

describe("a client that waits for `100 Continue`", () => {
  const EXPECT = "Expect: 100-continue\r\n";

  it.each(["/v1/events", RPC])("is refused by its token before it sends the body: %s", async (path) => {
    const { server } = await held();
    const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${EXPECT}Content-Length: 9\r\n\r\n`;
    expect(statuses(await speak(server, head).told)).toEqual(["401"]);
  });

  it.each<[string, string]>([
    ["/v1/events", ""],
    [RPC, ""],
    [RPC, "Content-Encoding: identity\r\n"],
  ])("is asked for its body where it may send it: %s %s", async (path, more) => {
    const { server, published, finish } = await held();
    finish();
    const headers = `Content-Type: application/json\r\n${EXPECT}${more}Content-Length: 2\r\n`;
    const { socket } = speak(server, await post(path, headers, ""));
    const [first] = (await once(socket, "data")) as [Buffer];
    expect(first.toString()).toBe("HTTP/1.1 100 Continue\r\n\r\n");
    socket.write("{}");
    const [second] = (await once(socket, "data")) as [Buffer];
    expect(statuses(second.toString())).toEqual(["200"]);
    expect(published).toHaveLength(1);
  });
});

describe("a request in a form for proxies", () => {
  it("is served where its target names the host", async () => {
    const { server, published, finish } = await held();
    finish();
    const url = `HTTP://weir.example:8080/v1/events?a=b`;
    const { told } = speak(server, await post(url, "Connection: close\r\nContent-Length: 5\r\n", "taken"));
    expect(await told).toMatch(/^HTTP\/1\.1 200 /);
    expect(published).toEqual(["taken"]);
    const rpc = await post(
      `http://weir.example${RPC}`,
      "Connection: close\r\nContent-Type: application/json\r\nContent-Length: 2\r\n",
      "{}",
    );
    expect(await speak(server, rpc).told).toMatch(/^HTTP\/1\.1 200 /);
    const root = speak(server, "GET http://weir.example?a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    expect(await root.told).toContain("There is nothing at /.");
  });

  it("is told that there is no tunnel, and its connection is closed", async () => {
    const { server } = await held();
    const { told } = speak(
      server,
      "CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\nbytes",
    );
    const answer = await told;
    expect(answer).toMatch(/^HTTP\/1\.1 501 Not Implemented\r\n/);
    expect(answer).toContain("this server is no proxy");
    expect(answer).toMatch(/connection: close/);
  });

  it("behind one that is being served closes the connection after the answer to that one", async () => {
    const { server, called, finish, published } = await held();
    const first = await post("/v1/events", "Content-Length: 5\r\n", "first");
    const connect = "CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\n";
    const { told } = speak(server, `${first}${connect}`);
    await called;
    finish();
    expect((await told).match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 200"]);
    expect(published).toEqual(["first"]);
  });
});
