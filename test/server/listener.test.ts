import { once } from "node:events";
import * as http from "node:http";
import * as http2 from "node:http2";
import * as https from "node:https";
import * as net from "node:net";
import * as tls from "node:tls";
import { afterEach, describe, expect, it } from "vitest";
import { type Listener, listen, type ListenerOptions, type RequestHandler } from "../../server/listener.ts";
import { createCertificate } from "../support/certificate.ts";
import { silentLogger } from "../support/logger.ts";

const HEADER_TIMEOUT_MS = 400;
const REQUEST_TIMEOUT_MS = 900;

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

const echo: RequestHandler = (request, response) => {
  response.writeHead(200, { "content-type": "text/plain" });
  response.end(`HTTP/${request.httpVersion} ${request.url ?? ""}`);
};

async function serve(
  handler: RequestHandler = echo,
  options: Partial<ListenerOptions> = {},
): Promise<Listener> {
  const listener = await listen(
    {
      host: "127.0.0.1",
      port: 0,
      tls: undefined,
      maxConnections: 100,
      maxHeaderBytes: 64 * 1024,
      headerTimeoutMs: HEADER_TIMEOUT_MS,
      requestTimeoutMs: REQUEST_TIMEOUT_MS,
      log: silentLogger,
      ...options,
    },
    handler,
  );
  stack.defer(() => listener.close(0));
  return listener;
}

function connect(port: number): net.Socket {
  const socket = net.connect({ host: "127.0.0.1", port });
  socket.on("error", () => undefined);
  stack.defer(() => void socket.destroy());
  return socket;
}

function connectH2(url: string, options?: http2.SecureClientSessionOptions): http2.ClientHttp2Session {
  const session = http2.connect(url, options);
  session.on("error", () => undefined);
  stack.defer(() => session.destroy());
  return session;
}

async function getH2(session: http2.ClientHttp2Session, path: string): Promise<string> {
  const stream = session.request({ ":path": path });
  stream.setEncoding("utf8");
  let body = "";
  for await (const chunk of stream) body += chunk as string;
  return body;
}

/** Everything that the server sends until it closes the connection, and after how many milliseconds it does. */
async function untilClosed(socket: net.Socket): Promise<{ text: string; ms: number }> {
  const startedAt = performance.now();
  let text = "";
  socket.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
  await once(socket, "close");
  return { text, ms: performance.now() - startedAt };
}

const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
const SETTINGS = frame(4, 0, 0, Buffer.alloc(0));

function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

describe("one port", () => {
  it("serves HTTP/1.1 and HTTP/2 in the clear", async () => {
    const { port } = await serve();
    const h1 = await fetch(`http://127.0.0.1:${port}/one`);
    expect(await h1.text()).toBe("HTTP/1.1 /one");
    const session = connectH2(`http://127.0.0.1:${port}`);
    expect(await getH2(session, "/two")).toBe("HTTP/2.0 /two");
  });

  it("tells the protocols apart where the first bytes come one by one", async () => {
    const { port } = await serve();
    const socket = connect(port).setNoDelay(true);
    const closed = untilClosed(socket);
    for (const byte of "POST /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n") {
      socket.write(byte);
      await new Promise(setImmediate);
    }
    expect((await closed).text).toContain("HTTP/1.1 /slow");
  });

  it("serves both in TLS, by ALPN", async () => {
    const { certificate, key } = createCertificate();
    const { port } = await serve(echo, { tls: { certificate, key } });
    const request = https.get({ host: "127.0.0.1", port, ca: certificate, path: "/one", agent: false });
    const [response] = (await once(request, "response")) as [http.IncomingMessage];
    let h1 = "";
    for await (const chunk of response) h1 += String(chunk);
    expect(h1).toBe("HTTP/1.1 /one");
    const session = connectH2(`https://127.0.0.1:${port}`, { ca: certificate });
    expect(await getH2(session, "/two")).toBe("HTTP/2.0 /two");
    expect(session.alpnProtocol).toBe("h2");
  });

  it("listens on the configured address alone", async () => {
    const { port } = await serve();
    const other = net.connect({ host: "127.0.0.2", port });
    const [error] = (await once(other, "error")) as [NodeJS.ErrnoException];
    expect(error.code).toBe("ECONNREFUSED");
  });

  it("says which port is taken", async () => {
    const { port } = await serve();
    await expect(serve(echo, { port })).rejects.toThrow(
      `Cannot listen on 127.0.0.1:${port}: another process does (WEIR_PORT chooses another port)`,
    );
  });

  it("says that a certificate and a key cannot be used", async () => {
    const { certificate } = createCertificate();
    const { key } = createCertificate();
    await expect(serve(echo, { tls: { certificate, key } })).rejects.toThrow(
      "The TLS certificate and key cannot be used",
    );
  });

  it("refuses connections beyond the limit, and takes one again when one has gone", async () => {
    const listener = await serve(echo, { maxConnections: 2 });
    const first = connectH2(`http://127.0.0.1:${listener.port}`);
    await getH2(first, "/");
    const second = connectH2(`http://127.0.0.1:${listener.port}`);
    await getH2(second, "/");
    expect(listener.connections).toEqual({ "http/1.1": 0, h2: 2 });
    await expect(fetch(`http://127.0.0.1:${listener.port}/`)).rejects.toThrow("fetch failed");
    first.close();
    await once(first, "close");
    await expect.poll(() => listener.connections.h2).toBe(1);
    const third = await fetch(`http://127.0.0.1:${listener.port}/`);
    expect(third.status).toBe(200);
  });
});

describe("slow clients", () => {
  it.each([
    ["sends nothing", []],
    ["sends a part of a method", ["P"]],
    ["sends a part of HTTP/2's preface", ["PRI * HT"]],
    ["opens HTTP/2 and no stream", [PREFACE, SETTINGS]],
    ["begins HTTP/2 headers and never ends them", [PREFACE, SETTINGS, frame(1, 0, 1, Buffer.from([0x82]))]],
  ])("closes a connection that %s", async (_, writes) => {
    const { port } = await serve();
    const socket = connect(port);
    for (const write of writes) socket.write(write);
    const { ms } = await untilClosed(socket);
    expect(ms).toBeGreaterThan(HEADER_TIMEOUT_MS - 50);
    expect(ms).toBeLessThan(HEADER_TIMEOUT_MS * 3);
  });

  const GET = Buffer.from([0x82, 0x84, 0x86, 0x41, 0x01, 0x61]);
  const FIRST = Buffer.concat([PREFACE, SETTINGS, frame(1, 0x5, 1, GET)]);
  const never: RequestHandler = (_, response) => {
    response.writeHead(200);
    response.write("open");
  };

  it.each<[name: string, handler: RequestHandler, write: Buffer]>([
    ["a header block without an end", echo, frame(1, 0x1, 3, GET.subarray(0, 2))],
    ["a header block without an end beside an open stream", never, frame(1, 0x1, 3, GET.subarray(0, 2))],
    ["a part of a HEADERS frame beside an open stream", never, frame(1, 0x5, 3, GET).subarray(0, 11)],
  ])("closes an HTTP/2 connection that sends, after its first request, %s", async (_, handler, write) => {
    const { port } = await serve(handler);
    const socket = connect(port);
    socket.write(FIRST);
    await once(socket, "data");
    socket.write(write);
    const { ms } = await untilClosed(socket);
    expect(ms).toBeGreaterThan(HEADER_TIMEOUT_MS - 50);
    expect(ms).toBeLessThan(HEADER_TIMEOUT_MS * 4);
  });

  it("closes an HTTP/2 connection whose header block drips", async () => {
    const { port } = await serve(never);
    const socket = connect(port);
    socket.write(Buffer.concat([FIRST, frame(1, 0x5, 3, Buffer.alloc(1_000, GET)).subarray(0, 10)]));
    const drip = setInterval(() => socket.write(GET.subarray(0, 1)), 20);
    stack.defer(() => clearInterval(drip));
    const { ms } = await untilClosed(socket);
    expect(ms).toBeGreaterThan(HEADER_TIMEOUT_MS - 50);
    expect(ms).toBeLessThan(HEADER_TIMEOUT_MS * 4);
  });

  it("keeps an HTTP/2 connection with a request whose headers are whole and refused", async () => {
    const { port } = await serve(never);
    const socket = connect(port);
    let isClosed = false;
    socket.once("close", () => (isClosed = true));
    const pings: Buffer[] = [];
    const asked = Promise.withResolvers<void>();
    socket.on("data", (chunk: Buffer) => {
      for (let at = 0; at + 9 <= chunk.length; at += 9 + chunk.readUIntBE(at, 3)) {
        if (chunk[at + 3] !== 6 || chunk[at + 4] !== 0) continue;
        pings.push(chunk.subarray(at + 9, at + 17));
        socket.write(frame(6, 1, 0, pings.at(-1)!));
        asked.resolve();
      }
    });
    // The second request has a method and no path.
    socket.write(Buffer.concat([FIRST, frame(1, 0x5, 3, GET.subarray(0, 1))]));
    await asked.promise;
    // Longer than it would be kept without the answer, and it is asked once.
    await new Promise((resolve) => setTimeout(resolve, HEADER_TIMEOUT_MS * 3));
    expect(isClosed).toBe(false);
    expect(pings).toHaveLength(1);
  });

  it("closes a TLS connection that does not shake hands", async () => {
    const { port } = await serve(echo, { tls: createCertificate() });
    const { ms } = await untilClosed(connect(port));
    expect(ms).toBeLessThan(HEADER_TIMEOUT_MS * 3);
  });

  it("answers 408 to HTTP/1.1 headers that drip, however alive the client is", async () => {
    const { port } = await serve();
    const socket = connect(port);
    socket.write("POST / HTTP/1.1\r\nHost: x\r\n");
    const drip = setInterval(() => socket.write("X-Drip: 1\r\n"), 20);
    stack.defer(() => clearInterval(drip));
    const { text, ms } = await untilClosed(socket);
    expect(text).toMatch(/^HTTP\/1\.1 408 /);
    expect(ms).toBeLessThan(HEADER_TIMEOUT_MS * 3);
  });

  it("answers 408 to an HTTP/1.1 body that drips", async () => {
    const { port } = await serve((request, response) => {
      request.resume();
      request.once("end", () => response.end("done"));
    });
    const socket = connect(port);
    socket.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
    const drip = setInterval(() => socket.write("x"), 20);
    stack.defer(() => clearInterval(drip));
    const { text, ms } = await untilClosed(socket);
    expect(text).toMatch(/^HTTP\/1\.1 408 /);
    expect(ms).toBeLessThan(REQUEST_TIMEOUT_MS * 3);
  });

  it("closes an HTTP/2 connection that is idle, though it pings", async () => {
    const idleTimeoutMs = 300;
    const { port } = await serve(echo, { idleTimeoutMs });
    const session = connectH2(`http://127.0.0.1:${port}`);
    await getH2(session, "/");
    const startedAt = performance.now();
    const ping = setInterval(() => session.closed || session.destroyed || session.ping(() => undefined), 50);
    stack.defer(() => clearInterval(ping));
    await once(session, "close");
    expect(performance.now() - startedAt).toBeGreaterThan(idleTimeoutMs - 50);
    expect(performance.now() - startedAt).toBeLessThan(idleTimeoutMs * 4);
  });

  it("keeps an HTTP/2 connection with a stream in use", async () => {
    const finish = Promise.withResolvers<void>();
    const { port } = await serve(
      (_request, response) => {
        response.writeHead(200);
        response.write("a");
        void finish.promise.then(() => response.end("b"));
      },
      { idleTimeoutMs: 100 },
    );
    const session = connectH2(`http://127.0.0.1:${port}`);
    const stream = session.request({ ":path": "/" });
    const [first] = (await once(stream, "data")) as [Buffer];
    expect(first.toString()).toBe("a");
    // Longer than what would end a connection without streams.
    await new Promise((resolve) => setTimeout(resolve, HEADER_TIMEOUT_MS * 2));
    finish.resolve();
    const [second] = (await once(stream, "data")) as [Buffer];
    expect(second.toString()).toBe("b");
  });
});

describe("close", () => {
  /** A handler that answers when it is told to, and says when it was called. */
  function held(): { handler: RequestHandler; called: Promise<void>; finish: () => void } {
    const called = Promise.withResolvers<void>();
    const finish = Promise.withResolvers<void>();
    const handler: RequestHandler = (request, response) => {
      called.resolve();
      void finish.promise.then(() => response.end(`finished ${request.httpVersion}`));
    };
    return { handler, called: called.promise, finish: finish.resolve };
  }

  it("lets an HTTP/1.1 request finish and then closes its connection", async () => {
    const { handler, called, finish } = held();
    const listener = await serve(handler);
    const agent = new http.Agent({ keepAlive: true });
    stack.defer(() => agent.destroy());
    const request = http.get({ host: "127.0.0.1", port: listener.port, agent });
    await called;
    const closed = listener.close(10_000);
    await expect(fetch(`http://127.0.0.1:${listener.port}/`)).rejects.toThrow("fetch failed");
    finish();
    const [response] = (await once(request, "response")) as [http.IncomingMessage];
    expect(response.headers.connection).toBe("close");
    response.resume();
    await closed;
  });

  it("lets an HTTP/2 stream finish after its GOAWAY", async () => {
    const { handler, called, finish } = held();
    const listener = await serve(handler);
    const session = connectH2(`http://127.0.0.1:${listener.port}`);
    const body = getH2(session, "/");
    await called;
    const goaway = once(session, "goaway");
    const closed = listener.close(10_000);
    expect((await goaway)[0]).toBe(http2.constants.NGHTTP2_NO_ERROR);
    finish();
    expect(await body).toBe("finished 2.0");
    await closed;
  });

  it("closes idle connections of both protocols at once", async () => {
    const listener = await serve();
    const agent = new http.Agent({ keepAlive: true });
    stack.defer(() => agent.destroy());
    const request = http.get({ host: "127.0.0.1", port: listener.port, agent });
    const [response] = (await once(request, "response")) as [http.IncomingMessage];
    response.resume();
    await once(response, "end");
    const session = connectH2(`http://127.0.0.1:${listener.port}`);
    await getH2(session, "/");
    connect(listener.port);
    await expect.poll(() => listener.connections).toEqual({ "http/1.1": 1, h2: 1 });
    const startedAt = performance.now();
    await listener.close(10_000);
    expect(performance.now() - startedAt).toBeLessThan(1_000);
  });

  it("cuts what does not finish in time", async () => {
    const { handler, called } = held();
    const listener = await serve(handler);
    const cut = fetch(`http://127.0.0.1:${listener.port}/`).catch((error: unknown) => String(error));
    await called;
    const startedAt = performance.now();
    await listener.close(300);
    expect(performance.now() - startedAt).toBeGreaterThan(250);
    expect(performance.now() - startedAt).toBeLessThan(2_000);
    expect(await cut).toContain("fetch failed");
  });

  it("ends TLS connections too", async () => {
    const { certificate, key } = createCertificate();
    const listener = await serve(echo, { tls: { certificate, key } });
    const socket = tls.connect({ host: "127.0.0.1", port: listener.port, ca: certificate });
    stack.defer(() => void socket.destroy());
    await once(socket, "secureConnect");
    const closed = once(socket, "close");
    socket.resume();
    await listener.close(200);
    await closed;
    expect(socket.destroyed).toBe(true);
  });
});

describe("an HTTP/2 client that leaves without a word", () => {
  it("gives its connection back at once", async () => {
    const listener = await serve(echo, { headerTimeoutMs: 30_000, requestTimeoutMs: 30_000 });
    const socket = connect(listener.port);
    // GET / of the authority "a", by HPACK's static table.
    const get = Buffer.from([0x82, 0x84, 0x86, 0x41, 0x01, 0x61]);
    socket.write(Buffer.concat([PREFACE, SETTINGS, frame(1, 0x5, 1, get)]));
    let received = "";
    socket.on("data", (chunk: Buffer) => (received += chunk.toString("latin1")));
    await expect.poll(() => received).toContain("HTTP/2.0 /");
    expect(listener.connections.h2).toBe(1);
    socket.end();
    await expect.poll(() => listener.connections.h2).toBe(0);
  });
});
