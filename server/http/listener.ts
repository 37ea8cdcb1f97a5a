import * as http from "node:http";
import * as http2 from "node:http2";
import * as net from "node:net";
import * as tls from "node:tls";
import { type connectNodeAdapter } from "@connectrpc/connect-node";
import { type Logger } from "#runtime/log.ts";
import { OperatorError } from "#runtime/service.ts";
import { answerClientErrors, expectationFailed, hostMissing } from "./client-errors.ts";
import { holdBody } from "./expect-continue.ts";
import { createHeaderWatch } from "./header-blocks.ts";
import { writeAnswer } from "./http-answer.ts";

/** Answers a request that came in over either protocol. Never throws. */
export type RequestHandler = ReturnType<typeof connectNodeAdapter>;

/** A request of either protocol. */
export type ServerRequest = Parameters<RequestHandler>[0];

/** The response to it. */
export type ServerResponse = Parameters<RequestHandler>[1];

/** Where to listen, and what a client may take. Times are milliseconds. */
export interface ListenerOptions {
  readonly host: string;
  /** 0 lets the system choose. */
  readonly port: number;
  /** Certificate chain and key in PEM: TLS, with ALPN for both protocols. */
  readonly tls: { readonly certificate: string; readonly key: string } | undefined;
  readonly maxConnections: number;
  /** The largest headers of a request. On HTTP/2 each counts 32 bytes more (RFC 9113 section 6.5.2). */
  readonly maxHeaderBytes: number;
  /** For a TLS handshake, an HTTP/2 preface with its first request, and the headers of every request. */
  readonly headerTimeoutMs: number;
  /** For a whole HTTP/1.1 request with its body. On HTTP/2 the deadline of the call does this. */
  readonly requestTimeoutMs: number;
  /** For a connection between requests; default 75 s, above what load balancers use. */
  readonly idleTimeoutMs?: number;
  readonly log: Logger;
}

/** A port that is served. */
export interface Listener {
  readonly port: number;
  /** Connections that are open, by protocol. */
  readonly connections: Readonly<Record<"http/1.1" | "h2", number>>;
  /**
   * Takes no more connections, tells clients that the open ones end (GOAWAY, `Connection: close`), and lets requests in
   * flight finish for `deadlineMs`; then destroys what is left. Resolves when every connection is gone.
   */
  close(deadlineMs: number): Promise<void>;
}

const IDLE_TIMEOUT_MS = 75_000;
const CHECK_INTERVAL_MS = 1_000;
const REFUSALS_INTERVAL_MS = 10_000;
const MAX_CONCURRENT_STREAMS = 256;
/** One connection carries many calls, so its window must not be that of one. */
const CONNECTION_WINDOW_BYTES = 1024 * 1024;
/** Enough for its streams' windows (64 KiB each) beside what is being sent; Node's unit is the megabyte. */
const MAX_SESSION_MEMORY_MB = 64;
/** How HTTP/2's preface begins (RFC 9113 section 3.4); no HTTP/1.1 method does. */
const PREFACE_START = "PRI";

/**
 * Serves Connect, gRPC, gRPC-Web and plain HTTP on one port, over HTTP/1.1 and HTTP/2, in the clear (h2c with prior
 * knowledge) or in TLS: the first three bytes of a connection say which protocol it speaks.
 *
 * @throws Error, with a line for the operator, where the port or the certificate cannot be used.
 */
export async function listen(options: ListenerOptions, handler: RequestHandler): Promise<Listener> {
  const h1 = createHttp1(options, handler);
  const h2 = createHttp2(options, handler);
  const sockets = new Set<net.Socket>();
  const undecided = new Set<net.Socket>();

  const decide = (socket: net.Socket): void => {
    undecided.add(socket);
    const timer = setTimeout(() => socket.destroy(), options.headerTimeoutMs);
    const settled = (): void => {
      clearTimeout(timer);
      undecided.delete(socket);
    };
    const onError = (): void => void socket.destroy();
    socket.on("error", onError).once("close", settled);
    const sniff = (): void => {
      const start = socket.read(PREFACE_START.length) as Buffer | null;
      if (start === null) {
        if (socket.readableEnded) socket.destroy();
        else socket.once("readable", sniff);
        return;
      }
      settled();
      socket.off("error", onError).off("close", settled);
      socket.unshift(start);
      (start.toString("latin1") === PREFACE_START ? h2.server : h1.server).emit("connection", socket);
    };
    sniff();
  };

  const front =
    options.tls === undefined
      ? net.createServer(SOCKET_OPTIONS, decide)
      : createTls(options, options.tls, decide);
  front.maxConnections = options.maxConnections;
  front.on("drop", warnOfRefusals(options));
  front.on("connection", (socket: net.Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  await bind(front, options);
  // A server that does not listen itself checks its timeouts only once it believes that it does.
  h1.server.emit("listening");

  return {
    port: (front.address() as net.AddressInfo).port,
    get connections() {
      return { "http/1.1": sockets.size - undecided.size - h2.connections, h2: h2.connections };
    },
    async close(deadlineMs) {
      const closed = new Promise<void>((resolve) => front.close(() => resolve()));
      for (const socket of undecided) socket.destroy();
      h1.drain();
      h2.drain();
      const timer = setTimeout(() => {
        if (sockets.size > 0)
          options.log.warn("Connections were cut at the end of the drain", { connections: sockets.size });
        for (const socket of sockets) socket.destroy();
      }, deadlineMs);
      await closed;
      clearTimeout(timer);
      h1.server.close();
    },
  };
}

/** Says that connections are refused, at most every ten seconds: each refusal would be a line that a stranger causes. */
function warnOfRefusals({ log, maxConnections }: ListenerOptions): () => void {
  let refused = 0;
  return () => {
    refused += 1;
    if (refused > 1) return;
    setTimeout(() => {
      log.warn("Connections were refused: as many as WEIR_MAX_CONNECTIONS are open", {
        refused,
        maxConnections,
      });
      refused = 0;
    }, REFUSALS_INTERVAL_MS).unref();
  };
}

/**
 * Half-open, as Node's own HTTP servers have it, since they see to a client that ends its side: on HTTP/2 what is being
 * answered finishes; on HTTP/1.1 it counts as gone, as it cannot be told from one that has closed the connection.
 */
const SOCKET_OPTIONS = {
  noDelay: true,
  allowHalfOpen: true,
  // A client that vanishes without a word, while there is nothing that could be sent to it.
  keepAlive: true,
  keepAliveInitialDelay: 30_000,
} as const;

function createTls(
  options: ListenerOptions,
  { certificate, key }: { readonly certificate: string; readonly key: string },
  onConnection: (socket: net.Socket) => void,
): tls.Server {
  try {
    const server = tls.createServer({
      ...SOCKET_OPTIONS,
      cert: certificate,
      key,
      ALPNProtocols: ["h2", "http/1.1"],
      handshakeTimeout: options.headerTimeoutMs,
    });
    server.on("secureConnection", onConnection);
    server.on("tlsClientError", (error, socket) => {
      options.log.debug("A TLS handshake failed", { error });
      socket.destroy();
    });
    return server;
  } catch (cause) {
    throw new OperatorError(`The TLS certificate and key cannot be used: ${(cause as Error).message}`, {
      cause,
    });
  }
}

async function bind(front: net.Server, { host, port }: ListenerOptions): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    front.once("error", (cause: NodeJS.ErrnoException) =>
      reject(new OperatorError(bindFault(cause, host, port), { cause })),
    );
    front.listen(port, host, resolve);
  });
  front.removeAllListeners("error");
}

function bindFault(error: NodeJS.ErrnoException, host: string, port: number): string {
  const place = `${host}:${String(port)}`;
  if (error.code === "EADDRINUSE")
    return `Cannot listen on ${place}: another process does (WEIR_PORT chooses another port)`;
  if (error.code === "EADDRNOTAVAIL")
    return `Cannot listen on ${place}: this machine has no such address (WEIR_HOST)`;
  if (error.code === "EACCES")
    return `Cannot listen on ${place}: this user may not (WEIR_PORT above 1023 needs no rights)`;
  return `Cannot listen on ${place}: ${error.message}`;
}

/** One protocol's server, fed with connections by hand. */
interface Fed<S> {
  readonly server: S;
  /** Ends idle connections now and each other one once its requests are answered. */
  drain(): void;
}

function createHttp1(options: ListenerOptions, handler: RequestHandler): Fed<http.Server> {
  const open = new Set<http.ServerResponse>();
  let draining = false;
  const server = http.createServer({
    headersTimeout: options.headerTimeoutMs,
    requestTimeout: options.requestTimeoutMs,
    keepAliveTimeout: options.idleTimeoutMs ?? IDLE_TIMEOUT_MS,
    connectionsCheckingInterval: Math.min(CHECK_INTERVAL_MS, options.headerTimeoutMs),
    maxHeaderSize: options.maxHeaderBytes,
    // Refused here, with words.
    requireHostHeader: false,
  });
  // What is above a count Node drops without a word; the size bounds them.
  server.maxHeadersCount = 0;
  answerClientErrors(server, options.maxHeaderBytes);
  onRequest<http.IncomingMessage, http.ServerResponse>(server, (request, response) => {
    if (draining) response.shouldKeepAlive = false;
    open.add(response);
    response.once("close", () => {
      open.delete(response);
      if (draining) setImmediate(() => server.closeIdleConnections());
    });
    if (request.headers.host === undefined && request.httpVersion === "1.1")
      void writeAnswer(hostMissing(), request, response);
    else {
      toOriginForm(request);
      handler(request, response);
    }
  });
  return {
    server,
    drain() {
      draining = true;
      for (const response of open) response.shouldKeepAlive = false;
      server.closeIdleConnections();
    },
  };
}

/** A target that names its host, as to a proxy, is taken as well, and its host in place of the Host header (RFC 9112 section 3.2.2). */
function toOriginForm(request: http.IncomingMessage): void {
  const [, host, target = ""] = /^https?:\/\/([^/?]+)(.*)$/is.exec(request.url ?? "") ?? [];
  if (host === undefined) return;
  request.url = target.startsWith("/") ? target : `/${target}`;
  request.headers.host = host;
}

/** Takes the requests of either protocol, with those that wait for the server before they send their body. */
function onRequest<Q extends ServerRequest, R extends ServerResponse>(
  server: NodeJS.EventEmitter,
  handler: (request: Q, response: R) => void,
): void {
  server.on("request", handler);
  server.on("checkContinue", (request: Q, response: R) => {
    holdBody(request, response);
    handler(request, response);
  });
  server.on("checkExpectation", (request: Q, response: R) => {
    void writeAnswer(expectationFailed(), request, response);
  });
}

function createHttp2(
  options: ListenerOptions,
  handler: RequestHandler,
): Fed<http2.Http2Server> & { readonly connections: number } {
  const sessions = new Set<http2.ServerHttp2Session>();
  const headers = createHeaderWatch(options.headerTimeoutMs);
  const server = http2.createServer({
    settings: { maxConcurrentStreams: MAX_CONCURRENT_STREAMS, maxHeaderListSize: options.maxHeaderBytes },
    maxSessionMemory: MAX_SESSION_MEMORY_MB,
  });
  onRequest(server, handler);
  server.on("sessionError", (error) => options.log.debug("An HTTP/2 connection failed", { error }));
  server.on("session", (session) => {
    sessions.add(session);
    session.setLocalWindowSize(CONNECTION_WINDOW_BYTES);
    headers.add(session);
    endWhenLeft(session, options.headerTimeoutMs);
    endWhenIdle(session, options.headerTimeoutMs, options.idleTimeoutMs ?? IDLE_TIMEOUT_MS);
    session.once("close", () => sessions.delete(session));
  });
  return {
    server,
    get connections() {
      return sessions.size;
    },
    drain() {
      for (const session of sessions) session.close();
    },
  };
}

/**
 * A client that leaves without a GOAWAY ends its side of the connection and no more: Node would keep the session, as one
 * that may still be answered. What is being answered may finish. A request whose body is not whole never will be, and
 * would hold what it has of it until its deadline: it is cancelled (RFC 9113 section 8.1.1). One that has said GOAWAY and leaves
 * before its streams have ended wants none of them. Nor can a client say any more that
 * it has read what it was sent: an answer that waits for that, and of which nothing goes out for a while, is ended too.
 */
function endWhenLeft(session: http2.ServerHttp2Session, stalledMs: number): void {
  const open = new Set<http2.ServerHttp2Stream>();
  session.on("stream", (stream) => {
    open.add(stream);
    stream.once("close", () => open.delete(stream));
  });
  let isTakingLeave = false;
  session.once("goaway", () => (isTakingLeave = true));
  session.socket.once("end", () => {
    if (isTakingLeave) return session.destroy();
    for (const stream of open) {
      if (stream.state.remoteClose === 0) stream.close(http2.constants.NGHTTP2_CANCEL);
    }
    session.close();
    let written: number | undefined;
    const check = setInterval(() => {
      const { bytesWritten } = session.socket;
      for (const stream of open) {
        if (bytesWritten === written && stream.writableLength > 0) stream.destroy();
      }
      written = bytesWritten;
    }, stalledMs);
    session.once("close", () => clearInterval(check));
  });
}

/** Node keeps a session for ever that sends half a preface, half a header block, or nothing any more. */
function endWhenIdle(session: http2.ServerHttp2Session, firstMs: number, idleMs: number): void {
  let streams = 0;
  let timer = setTimeout(() => session.destroy(), firstMs);
  session.on("stream", (stream) => {
    streams += 1;
    clearTimeout(timer);
    stream.once("close", () => {
      streams -= 1;
      if (streams > 0 || session.closed) return;
      timer = setTimeout(() => {
        session.close();
        // A peer that reads no more would hold a session that ends in good order.
        timer = setTimeout(() => session.destroy(), firstMs);
      }, idleMs);
    });
  });
  session.once("close", () => clearTimeout(timer));
}
