import { once } from "node:events";
import * as http from "node:http";
import * as http2 from "node:http2";
import * as https from "node:https";
import * as net from "node:net";
import * as tls from "node:tls";
import { describe, expect, it } from "vitest";
import { type RequestHandler } from "../../server/http/listener.ts";
import { createCertificate } from "../support/certificate.ts";
import {
  stack,
  echo,
  serve,
  connect,
  connectH2,
  getH2,
  untilClosed,
  PREFACE,
  SETTINGS,
  frame,
} from "./listening.ts";

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
