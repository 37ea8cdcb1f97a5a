import { once } from "node:events";
import * as http2 from "node:http2";
import * as net from "node:net";
import { afterEach } from "vitest";
import {
  type Listener,
  listen,
  type ListenerOptions,
  type RequestHandler,
} from "../../server/http/listener.ts";
import { silentLogger } from "../support/logger.ts";

// A listener for each test, and clients that say byte by byte what they send.

export const HEADER_TIMEOUT_MS = 400;
export const REQUEST_TIMEOUT_MS = 900;

export let stack: AsyncDisposableStack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

export const echo: RequestHandler = (request, response) => {
  response.writeHead(200, { "content-type": "text/plain" });
  response.end(`HTTP/${request.httpVersion} ${request.url ?? ""}`);
};

export async function serve(
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

export function connect(port: number): net.Socket {
  const socket = net.connect({ host: "127.0.0.1", port });
  socket.on("error", () => undefined);
  stack.defer(() => void socket.destroy());
  return socket;
}

export function connectH2(url: string, options?: http2.SecureClientSessionOptions): http2.ClientHttp2Session {
  const session = http2.connect(url, options);
  session.on("error", () => undefined);
  stack.defer(() => session.destroy());
  return session;
}

export async function getH2(session: http2.ClientHttp2Session, path: string): Promise<string> {
  const stream = session.request({ ":path": path });
  stream.setEncoding("utf8");
  let body = "";
  for await (const chunk of stream) body += chunk as string;
  return body;
}

/** Everything that the server sends until it closes the connection, and after how many milliseconds it does. */
export async function untilClosed(socket: net.Socket): Promise<{ text: string; ms: number }> {
  const startedAt = performance.now();
  let text = "";
  socket.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
  await once(socket, "close");
  return { text, ms: performance.now() - startedAt };
}

export const PREFACE: Buffer = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
export const SETTINGS: Buffer = frame(4, 0, 0, Buffer.alloc(0));

export function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}
