import * as http from "node:http";
import { type Socket } from "node:net";
import { type Duplex } from "node:stream";
import { Code, type ConnectError } from "@connectrpc/connect";
import { httpAnswerOf, toConnectError } from "../errors.ts";
import { type HttpAnswer } from "./http-answer.ts";
import { lingerAtEnd } from "./request-body.ts";

/**
 * Answers what Node's HTTP/1.1 parser refuses, and CONNECT, in the error model of everything else, and closes the connection.
 *
 * Node itself would write a bare 400 in place of whatever answer is due: bytes that are no request, behind a request that
 * is being served, would tell the sender of an event that is taken that it was not. Here answers that are due are given
 * and then the connection closes; only the very request that is at fault is answered with its fault.
 *
 * @param maxHeaderBytes the server's maxHeaderSize.
 */
export function answerClientErrors(server: http.Server, maxHeaderBytes: number): void {
  const latest = new WeakMap<Duplex, http.ServerResponse>();
  const failed = new WeakSet<Duplex>();
  const note = (request: http.IncomingMessage, response: http.ServerResponse): void =>
    void latest.set(request.socket, response);
  for (const event of ["request", "checkContinue", "checkExpectation"]) server.prependListener(event, note);

  // Node has let go of the socket by then.
  server.on("connect", (_, stream) => {
    const socket = stream as Socket;
    socket.on("error", () => void socket.destroy());
    socket.resume();
    lingerAtEnd(socket);
    const response = latest.get(socket);
    if (response === undefined || response.writableFinished) {
      socket.end(rawAnswer(connectUnserved()), () => socket.destroySoon());
    } else endAfter(response, socket);
  });

  server.on("clientError", (error: ParserError, stream) => {
    const socket = stream as Socket;
    // What else comes on the connection fails too.
    if (failed.has(socket)) return;
    failed.add(socket);
    const isRefusal = error.code?.startsWith("HPE_") === true || error.code === "ERR_HTTP_REQUEST_TIMEOUT";
    if (!isRefusal || !socket.writable) return void socket.destroy();
    const refusal = (): HttpAnswer => refusalOf(error, maxHeaderBytes);
    lingerAtEnd(socket);
    const response = latest.get(socket);
    if (response === undefined || (response.req.complete && response.writableFinished)) {
      socket.end(rawAnswer(refusal()), () => socket.destroySoon());
    } else if (response.req.complete || response.writableEnded) endAfter(response, socket);
    else if (response.headersSent) socket.destroy();
    else {
      const { status, headers, body } = refusal();
      response.writeHead(status, {
        ...headers,
        "content-length": Buffer.byteLength(body),
        connection: "close",
      });
      response.end(body);
    }
  });
}

interface ParserError extends Error {
  readonly code?: string;
  /** What the parser says, a fixed text. */
  readonly reason?: string;
}

/** Ends the connection once the answer, which is the last of those that are due, is written. */
function endAfter(response: http.ServerResponse, socket: Socket): void {
  if (response.writableFinished) socket.destroySoon();
  else if (response.headersSent) response.once("finish", () => socket.destroySoon());
  else response.shouldKeepAlive = false;
}

function refusalOf({ code, reason }: ParserError, maxHeaderBytes: number): HttpAnswer {
  switch (code) {
    case "HPE_HEADER_OVERFLOW":
      return answerOf(
        431,
        toConnectError({
          code: Code.ResourceExhausted,
          reason: "MESSAGE_TOO_LARGE",
          message: `The headers are larger than the ${String(maxHeaderBytes)} bytes that are read.`,
          metadata: { limit: String(maxHeaderBytes), unit: "bytes", setting: "WEIR_MAX_HEADER_SIZE" },
        }),
      );
    case "HPE_CHUNK_EXTENSIONS_OVERFLOW":
      return answerOf(
        413,
        toConnectError({
          code: Code.ResourceExhausted,
          reason: "MESSAGE_TOO_LARGE",
          message: "The extensions of a chunk of the body are larger than what is read: leave them out.",
        }),
      );
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return answerOf(
        408,
        toConnectError({
          code: Code.DeadlineExceeded,
          reason: "DEADLINE_EXCEEDED",
          message: "The request did not arrive in time: send its headers and its body without a pause.",
        }),
      );
    default:
      return answerOf(
        400,
        toConnectError({
          code: Code.InvalidArgument,
          reason: "INVALID_REQUEST",
          message: `The request is not HTTP/1.1 that can be read: ${reason ?? "it is cut off"}.`,
        }),
      );
  }
}

/** The answer to the method CONNECT (RFC 9110 section 9.3.6), which would make this server a tunnel. */
function connectUnserved(): HttpAnswer {
  return answerOf(
    501,
    toConnectError({
      code: Code.Unimplemented,
      reason: "UNIMPLEMENTED",
      message: "CONNECT is not served: this server is no proxy.",
    }),
  );
}

/** The answer to a request with an Expect header other than 100-continue (RFC 9110 section 10.1.1). */
export function expectationFailed(): HttpAnswer {
  return answerOf(
    417,
    toConnectError({
      code: Code.InvalidArgument,
      reason: "INVALID_REQUEST",
      message: "The only expectation that is met is `Expect: 100-continue`.",
    }),
  );
}

/** The answer to an HTTP/1.1 request that names no host (RFC 9112 section 3.2). */
export function hostMissing(): HttpAnswer {
  return answerOf(
    400,
    toConnectError({
      code: Code.InvalidArgument,
      reason: "INVALID_REQUEST",
      message: "The request must name its host: send the Host header.",
    }),
  );
}

function answerOf(status: number, error: ConnectError): HttpAnswer {
  return { ...httpAnswerOf(error), status };
}

/** An answer where no request was read that Node would write it for. */
function rawAnswer({ status, headers, body }: HttpAnswer): Uint8Array {
  const fields = Object.entries({
    ...headers,
    "content-length": String(Buffer.byteLength(body)),
    date: new Date().toUTCString(),
    connection: "close",
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = `HTTP/1.1 ${String(status)} ${http.STATUS_CODES[status] ?? ""}\r\n${fields.join("")}\r\n`;
  return Buffer.concat([Buffer.from(head, "latin1"), Buffer.from(body)]);
}
