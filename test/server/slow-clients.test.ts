import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { type RequestHandler } from "../../server/http/listener.ts";
import { createCertificate } from "../support/certificate.ts";
import {
  HEADER_TIMEOUT_MS,
  REQUEST_TIMEOUT_MS,
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
