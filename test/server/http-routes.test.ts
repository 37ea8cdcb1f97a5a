import { once } from "node:events";
import * as http2 from "node:http2";
import * as net from "node:net";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { afterEach, describe, expect, it } from "vitest";
import { jsonAnswer, textAnswer } from "../../server/http/http-answer.ts";
import { type HttpCall, type HttpRoute } from "../../server/http/http-routes.ts";
import { AccessError } from "../../server/auth/scopes.ts";
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

const LIMIT = 10_000;

/** A route that says what it was called with. */
const echo: HttpRoute = {
  method: "POST",
  path: "/v1/echo",
  scope: "events.write",
  maxBodyBytes: LIMIT,
  handle: ({ headers, query, body, principal }) =>
    jsonAnswer(200, { headers, query: [...query], body: Buffer.from(body).toString("latin1"), principal }),
};

const open: HttpRoute = { method: "GET", path: "/healthz", handle: () => textAnswer(200, "well") };

async function authorization(): Promise<{ authorization: string }> {
  return { authorization: `Bearer ${await createToken("events.write")}` };
}

interface Told {
  readonly headers: HttpCall["headers"];
  readonly query: readonly string[];
  readonly body: string;
  readonly principal: string;
}

async function refusalOf(response: Response): Promise<{ status: number; code: string; reason: string }> {
  const { code, details } = (await response.json()) as {
    code: string;
    details: { debug: { reason: string } }[];
  };
  return { status: response.status, code, reason: details[0]?.debug.reason ?? "none" };
}

describe("a route", () => {
  it("gets the request whole, with the principal of the token", async () => {
    const { url } = await start({ httpRoutes: [echo] });
    const headers = { ...(await authorization()), "X-Text": "ä" };
    const response = await fetch(`${url}/v1/echo?a=1&a=2%20`, { method: "POST", headers, body: "hello" });
    expect(response.status).toBe(200);
    const told = (await response.json()) as Told;
    expect(told).toMatchObject({
      body: "hello",
      principal: "alice",
      query: [
        ["a", "1"],
        ["a", "2 "],
      ],
    });
    expect(told.headers).toContainEqual(["x-text", "ä"]);
  });

  it("gets repeated headers one by one, over either protocol", async () => {
    const { url, port } = await start({ httpRoutes: [echo] });
    const { authorization: token } = await authorization();
    const socket = net.connect({ host: "127.0.0.1", port });
    stack.defer(() => void socket.destroy());
    socket.write(
      `POST /v1/echo HTTP/1.1\r\nHost: x\r\nAuthorization: ${token}\r\nCE-A: 1\r\nce-a: 2\r\nContent-Length: 0\r\n\r\n`,
    );
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect(answer.toString()).toContain('["ce-a","1"],["ce-a","2"]');

    const session = http2.connect(url);
    stack.defer(() => session.destroy());
    const stream = session.request({
      ":method": "POST",
      ":path": "/v1/echo",
      authorization: token,
      "ce-a": ["1", "2"],
    });
    stream.end();
    let body = "";
    for await (const chunk of stream) body += String(chunk);
    const { headers } = JSON.parse(body) as Told;
    expect(headers.filter(([name]) => name === "ce-a")).toEqual([
      ["ce-a", "1"],
      ["ce-a", "2"],
    ]);
    expect(headers.filter(([name]) => name.startsWith(":"))).toEqual([]);
  });

  it.each([
    ["/v1/nope", { status: 404, code: "not_found", reason: "NOT_FOUND" }],
    ["/weir.v1.IngestService/Nope", { status: 404, code: "unimplemented", reason: "UNIMPLEMENTED" }],
  ])("is told from a method where there is none: %s", async (path, expected) => {
    const { url } = await start({ httpRoutes: [echo] });
    expect(await refusalOf(await fetch(url + path, { method: "POST" }))).toEqual(expected);
  });

  it("needs a scope, or the boot stops", async () => {
    const { scope: _, ...bare } = echo;
    await expect(start({ httpRoutes: [bare] })).rejects.toThrow(AccessError);
    await expect(start({ httpRoutes: [bare] })).rejects.toThrow("POST /v1/echo has no scope");
  });

  it("is not reached without a token, with a bad one, or without its scope", async () => {
    const { url } = await start({ httpRoutes: [{ ...echo, handle: () => expect.fail("reached") }] });
    const post = (headers: Record<string, string>): Promise<Response> =>
      fetch(`${url}/v1/echo`, { method: "POST", body: "x", headers });
    const missing = await post({});
    expect(missing.headers.get("www-authenticate")).toBe('Bearer realm="weir"');
    expect(await refusalOf(missing)).toEqual({
      status: 401,
      code: "unauthenticated",
      reason: "TOKEN_MISSING",
    });
    const bad = await post({ authorization: "Bearer a.b.c" });
    expect(await refusalOf(bad)).toEqual({ status: 401, code: "unauthenticated", reason: "TOKEN_INVALID" });
    const poor = await post({ authorization: `Bearer ${await createToken("events.read")}` });
    expect(poor.headers.get("www-authenticate")).toContain('scope="events.write"');
    expect(await refusalOf(poor)).toEqual({
      status: 403,
      code: "permission_denied",
      reason: "SCOPE_MISSING",
    });
  });

  it("is refused without a good token before the body is there", async () => {
    const { port } = await start({ httpRoutes: [echo] });
    const socket = net.connect({ host: "127.0.0.1", port });
    stack.defer(() => void socket.destroy());
    socket.write(
      "POST /v1/echo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a.b.c\r\nContent-Length: 9000\r\n\r\nx",
    );
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 401 /);
  });

  it("is open by name, and answers HEAD where it answers GET", async () => {
    const { url } = await start({ httpRoutes: [open] });
    expect(await (await fetch(`${url}/healthz`)).text()).toBe("well");
    const head = await fetch(`${url}/healthz`, { method: "HEAD" });
    expect([head.status, head.headers.get("content-length"), await head.text()]).toEqual([200, "4", ""]);
  });

  it("says which methods it takes", async () => {
    const { url } = await start({ httpRoutes: [echo] });
    const response = await fetch(`${url}/v1/echo`, { method: "DELETE" });
    expect(response.headers.get("allow")).toBe("POST");
    expect(await refusalOf(response)).toEqual({
      status: 405,
      code: "unimplemented",
      reason: "METHOD_NOT_ALLOWED",
    });
  });

  it.each(["/", "/v1/echo/", "/v1", "/favicon.ico"])(
    "is found by its whole path, not by %s",
    async (path) => {
      const { url } = await start({ httpRoutes: [echo] });
      const refusal = await refusalOf(await fetch(url + path));
      expect(refusal).toEqual({ status: 404, code: "not_found", reason: "NOT_FOUND" });
    },
  );

  it("hides an unexpected error, and counts it", async () => {
    const fail = (): never => {
      throw new Error("hunter2");
    };
    const { url, errors, telemetry } = await start({ httpRoutes: [{ ...open, handle: fail }] });
    const response = await fetch(`${url}/healthz`);
    const text = await response.text();
    expect(response.status).toBe(500);
    expect(text).not.toContain("hunter2");
    expect(errors).toMatchObject([{ method: "/healthz" }]);
    expect(text).toContain(String(errors[0]?.["correlationId"]));
    expect((await telemetry.page()).body).toContain(
      'weir_request_refusals_total{method="/healthz",reason="INTERNAL"} 1',
    );
  });
});

describe("a body", () => {
  const post = async (url: string, body: Uint8Array<ArrayBuffer>, coding?: string): Promise<Response> => {
    const headers = {
      ...(await authorization()),
      ...(coding !== undefined && { "content-encoding": coding }),
    };
    return fetch(`${url}/v1/echo`, { method: "POST", body, headers });
  };
  const text = "x".repeat(LIMIT);

  it.each([
    ["identity", Buffer.from(text)],
    ["Identity", Buffer.from(text)],
    ["gzip", gzipSync(text)],
    ["GZIP", gzipSync(text)],
    ["br", brotliCompressSync(text)],
  ])("is taken in %s, up to the limit", async (coding, body) => {
    const { url } = await start({ httpRoutes: [echo] });
    const response = await post(url, body, coding);
    expect(((await response.json()) as Told).body).toBe(text);
  });

  it.each([
    ["as it is", Buffer.from(`${text}x`), undefined, 413, "MESSAGE_TOO_LARGE"],
    ["in gzip", gzipSync(`${text}x`), "gzip", 413, "MESSAGE_TOO_LARGE"],
    ["in br", brotliCompressSync(Buffer.alloc(50_000_000)), "br", 413, "MESSAGE_TOO_LARGE"],
    ["in gzip that is none", Buffer.from(text), "gzip", 400, "INVALID_REQUEST"],
    ["in gzip that ends too soon", gzipSync(text).subarray(0, 20), "gzip", 400, "INVALID_REQUEST"],
    [
      "in br that ends too soon",
      brotliCompressSync("some text").subarray(0, 5),
      "br",
      400,
      "INVALID_REQUEST",
    ],
    [
      "in br with more behind its end",
      Buffer.concat([brotliCompressSync("some text"), Buffer.from("more")]),
      "br",
      400,
      "INVALID_REQUEST",
    ],
    [
      "in gzip with more behind its end",
      Buffer.concat([gzipSync("some text"), Buffer.alloc(3)]),
      "gzip",
      400,
      "INVALID_REQUEST",
    ],
    ["in deflate", deflateSync(text), "deflate", 415, "UNSUPPORTED_MEDIA_TYPE"],
    ["in two codings", gzipSync(text), "gzip, gzip", 415, "UNSUPPORTED_MEDIA_TYPE"],
  ] as const)("that is too large or unreadable %s is refused", async (_, body, coding, status, reason) => {
    const { url, errors } = await start({ httpRoutes: [echo] });
    expect(await refusalOf(await post(url, body, coding))).toMatchObject({ status, reason });
    expect(errors).toEqual([]);
  });

  it("that announces no length is bounded as it comes", async () => {
    const { port } = await start({ httpRoutes: [echo] });
    const socket = net.connect({ host: "127.0.0.1", port });
    stack.defer(() => void socket.destroy());
    const { authorization: token } = await authorization();
    socket.write(
      `POST /v1/echo HTTP/1.1\r\nHost: x\r\nAuthorization: ${token}\r\nTransfer-Encoding: chunked\r\n\r\n`,
    );
    const chunk = `400\r\n${"x".repeat(0x400)}\r\n`;
    const write = setInterval(() => socket.write(chunk), 2);
    stack.defer(() => clearInterval(write));
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 413 /);
    expect(answer.toString()).toMatch(/connection: close/i);
  });

  it("that does not come holds no deadline over HTTP/1.1", async () => {
    const { port } = await start({ httpRoutes: [echo], httpTimeoutMs: 200 });
    const { authorization: token } = await authorization();
    const startedAt = performance.now();
    const socket = net.connect({ host: "127.0.0.1", port });
    stack.defer(() => void socket.destroy());
    socket.write(
      `POST /v1/echo HTTP/1.1\r\nHost: x\r\nAuthorization: ${token}\r\nContent-Length: 10\r\n\r\nx`,
    );
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 504 /);
    expect(performance.now() - startedAt).toBeLessThan(1_500);
  });

  it("that does not come holds no deadline over HTTP/2, and its client is asked to stop", async () => {
    const { url } = await start({ httpRoutes: [echo], httpTimeoutMs: 200 });
    const startedAt = performance.now();
    const session = http2.connect(url);
    stack.defer(() => session.destroy());
    const stream = session.request({ ":method": "POST", ":path": "/v1/echo", ...(await authorization()) });
    stream.write("x");
    stream.resume();
    const [head] = (await once(stream, "response")) as [http2.IncomingHttpHeaders];
    expect(head[":status"]).toBe(504);
    await once(stream, "close");
    expect(stream.rstCode).toBe(http2.constants.NGHTTP2_NO_ERROR);
    expect(performance.now() - startedAt).toBeLessThan(1_500);
  });
});

describe("a request in flight", () => {
  it("ends at the deadline, though its handler ignores the signal", async () => {
    const { url } = await start({
      httpRoutes: [{ ...open, handle: () => new Promise(() => undefined) }],
      httpTimeoutMs: 150,
    });
    const refusal = await refusalOf(await fetch(`${url}/healthz`));
    expect(refusal).toEqual({ status: 504, code: "deadline_exceeded", reason: "DEADLINE_EXCEEDED" });
  });

  it("is told at the end of the drain", async () => {
    const called = Promise.withResolvers<void>();
    const hang: HttpRoute = {
      ...open,
      handle: () => {
        called.resolve();
        return new Promise(() => undefined);
      },
    };
    const { url, shutdown } = await start({ httpRoutes: [hang] });
    const response = fetch(`${url}/healthz`);
    await called.promise;
    shutdown.abort(shuttingDown());
    expect((await response).headers.get("retry-after")).toBe("1");
    expect(await refusalOf(await response)).toEqual({
      status: 503,
      code: "unavailable",
      reason: "SHUTTING_DOWN",
    });
  });

  it("hears that its client has gone", async () => {
    const called = Promise.withResolvers<AbortSignal>();
    const hang: HttpRoute = {
      ...open,
      handle: ({ signal }) => {
        called.resolve(signal);
        return new Promise(() => undefined);
      },
    };
    const { url, errors } = await start({ httpRoutes: [hang] });
    const leaving = new AbortController();
    const response = fetch(`${url}/healthz`, { signal: leaving.signal });
    response.catch(() => undefined);
    const signal = await called.promise;
    leaving.abort();
    await expect(response).rejects.toThrow("aborted");
    await expect.poll(() => signal.aborted).toBe(true);
    expect(errors).toEqual([]);
  });
});

describe("CORS", () => {
  const preflight = (url: string, origin: string): Promise<Response> =>
    fetch(`${url}/v1/echo`, {
      method: "OPTIONS",
      headers: {
        origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,ce-anything,connect-protocol-version",
      },
    });

  it("lets the configured origins call, with any header, and read what errors say", async () => {
    const { url } = await start({
      httpRoutes: [echo],
      corsOrigins: ["https://console.example", "http://localhost:5173"],
    });
    const asked = await preflight(url, "http://localhost:5173");
    expect(asked.status).toBe(204);
    expect(asked.headers.get("access-control-allow-origin")).toBe("http://localhost:5173");
    expect(asked.headers.get("access-control-allow-headers")).toContain("ce-anything");
    const headers = { ...(await authorization()), origin: "https://console.example" };
    const called = await fetch(`${url}/v1/echo`, { method: "POST", body: "", headers });
    expect(called.status).toBe(200);
    expect(called.headers.get("access-control-allow-origin")).toBe("https://console.example");
    expect(called.headers.get("vary")).toContain("Origin");
    expect(called.headers.get("access-control-expose-headers")?.toLowerCase()).toContain(
      "grpc-status-details-bin",
    );
    const refused = await fetch(`${url}/v1/echo`, {
      method: "POST",
      headers: { origin: "https://console.example" },
    });
    expect([refused.status, refused.headers.get("access-control-allow-origin")]).toEqual([
      401,
      "https://console.example",
    ]);
  });

  it.each([[["https://console.example"]], [[]]])(
    "lets no other origin call (configured: %j)",
    async (corsOrigins) => {
      const { url } = await start({ httpRoutes: [echo], corsOrigins });
      const asked = await preflight(url, "https://evil.example");
      expect(asked.headers.get("access-control-allow-origin")).toBeNull();
    },
  );
});
