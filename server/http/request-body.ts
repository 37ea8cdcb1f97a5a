import * as http from "node:http";
import * as http2 from "node:http2";
import { type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Code } from "@connectrpc/connect";
import { type BodyBudget, type HeldBody } from "./body-budget.ts";
import { abortableItems, causeOf, clientGone, endOf } from "./deadlines.ts";
import { messageTooLarge, toConnectError } from "../errors.ts";
import { askForBody, isBodyHeld } from "./expect-continue.ts";
import { type Coding, inflate, isCoding } from "./inflate.ts";
import { type ServerRequest, type ServerResponse } from "./listener.ts";

/**
 * A body's bytes as they come, until the signal is raised: a client that stops sending holds no call beyond its
 * deadline. A connection that fails ends it as CANCELLED.
 */
export async function* bodyChunks(
  body: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const chunks = abortableItems(body, signal);
  try {
    yield* chunks;
  } catch (error) {
    const cause = causeOf(error, signal);
    throw cause === error && !signal.aborted ? clientGone(error) : cause;
  }
}

/** How much is read. */
export interface BodyBounds {
  readonly maxBytes: number;
  /** What all bodies that are being read may hold together. */
  readonly bodies: BodyBudget;
}

/**
 * Reads the whole body of a plain HTTP request, inflated where it is compressed (gzip, br).
 *
 * @throws ConnectError: MESSAGE_TOO_LARGE beyond `maxBytes`, compressed or not; UNSUPPORTED_MEDIA_TYPE for another
 * coding; INVALID_REQUEST for what does not inflate; BODY_CAPACITY; the signal's.
 */
export async function readBody(
  request: ServerRequest,
  { maxBytes, bodies }: BodyBounds,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const coding = codingOf(request.headers["content-encoding"]);
  const announced = Number(request.headers["content-length"] ?? 0);
  if (announced > maxBytes) throw messageTooLarge(maxBytes, announced);
  const held = bodies.open();
  try {
    const body = await collectBody(request, maxBytes, held, signal);
    return coding === undefined ? body : await inflate(coding, body, maxBytes, held.hold);
  } finally {
    held.release();
  }
}

/** By events, since an async iterator costs promises and listeners at every step. */
function collectBody(
  request: ServerRequest,
  maxBytes: number,
  held: HeldBody,
  signal: AbortSignal,
): Promise<Uint8Array> {
  if (request.destroyed) return Promise.reject(clientGone());
  return new Promise((resolve, reject) => {
    const chunks: Uint8Array[] = [];
    let size = 0;
    /** At once, and not after a promise: a request closes right after its end, and that is no loss. */
    const settled = (): void => {
      request.off("data", onData).off("end", onEnd).off("error", onLost).off("close", onLost);
      signal.removeEventListener("abort", onAbort);
      // What is left is discardBody's.
      request.pause();
    };
    const onData = (chunk: Uint8Array): void => {
      size += chunk.byteLength;
      chunks.push(chunk);
      const refusal = size > maxBytes ? messageTooLarge(maxBytes) : held.hold(size);
      if (refusal === undefined) return;
      settled();
      reject(refusal);
    };
    const onEnd = (): void => {
      settled();
      resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks));
    };
    const onLost = (error?: Error): void => {
      settled();
      reject(clientGone(error));
    };
    const onAbort = (): void => {
      settled();
      reject(endOf(signal));
    };
    request.on("data", onData).once("end", onEnd).once("error", onLost).once("close", onLost);
    signal.addEventListener("abort", onAbort);
    if (signal.aborted) onAbort();
    else askForBody(request);
  });
}

function codingOf(coding: string | undefined): Coding | undefined {
  // In any case (RFC 9110 section 8.4.1).
  const known = coding?.toLowerCase() ?? "";
  if (known === "" || known === "identity") return undefined;
  if (isCoding(known)) return known;
  throw toConnectError({
    code: Code.InvalidArgument,
    reason: "UNSUPPORTED_MEDIA_TYPE",
    message: `The content-encoding "${known.slice(0, 64)}" is not supported: use gzip, br or none.`,
  });
}

const MAX_DISCARDED_BYTES = 256 * 1024;
const DISCARD_MS = 250;
const LINGER_MS = 500;

/**
 * Settles what is left of an HTTP/1.1 request's body before its answer is written, where the answer came before the
 * whole body. Many clients read the answer only once they have sent everything: a little is read and thrown away; for
 * more than that, or for a client that does not send, the connection ends after the answer, with time to read it.
 */
export async function discardBody(request: ServerRequest, response: ServerResponse): Promise<void> {
  if (!(request instanceof http.IncomingMessage) || !(response instanceof http.ServerResponse)) return;
  if (request.complete || request.destroyed) return;
  if (!isBodyHeld(request)) {
    const giveUp = new AbortController();
    const timer = sleep(DISCARD_MS, undefined, { signal: giveUp.signal, ref: false }).catch(() => undefined);
    await Promise.race([discard(request), timer]);
    giveUp.abort();
    if (request.complete) return;
  }
  response.shouldKeepAlive = false;
  lingerAtEnd(request.socket);
}

/**
 * Gives the client time to read the last answer on the connection: closing with unread bytes would make TCP drop it.
 * `destroySoon` is what Node calls once that answer is written.
 */
export function lingerAtEnd(socket: Socket): void {
  socket.destroySoon = () => {
    socket.end(() => setTimeout(() => socket.destroy(), LINGER_MS).unref());
  };
}

async function discard(request: http.IncomingMessage): Promise<void> {
  let size = 0;
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      size += (chunk as Uint8Array).byteLength;
      if (size > MAX_DISCARDED_BYTES) return;
    }
  } catch {
    // The client has gone: there is nobody to answer.
  }
}

/** On HTTP/2: asks a client that still sends its body to stop, once the answer is written (RFC 9113 section 8.1). */
export function stopSending(request: ServerRequest): void {
  if (!(request instanceof http2.Http2ServerRequest) || request.complete) return;
  const { stream } = request;
  // The answer's last frame is written in a setImmediate of Node's own, after this event; a reset before it drops it.
  stream.once("wantTrailers", () => {
    setImmediate(() => {
      if (!stream.destroyed && stream.state.remoteClose === 0) stream.close(http2.constants.NGHTTP2_NO_ERROR);
    });
  });
}
