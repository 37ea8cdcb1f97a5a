import { Code, ConnectError } from "@connectrpc/connect";
import { reasonOf, toConnectError } from "../errors.ts";

/** How long calls may last, in milliseconds. */
export interface DeadlineLimits {
  /** The deadline of a unary call that brings none. */
  readonly defaultMs: number;
  /** The longest deadline of a unary call; a later one is brought forward to it. */
  readonly maxMs: number;
  /** The longest life of a stream, and the deadline of one that brings none. */
  readonly maxStreamMs: number;
}

/** A timer of Node's cannot be set further ahead. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Gives every call a deadline: rewrites the timeout that the request's headers bring (`connect-timeout-ms`,
 * `grpc-timeout`) to one within the limits. A timeout that cannot be read is left alone, for the RPC library to refuse.
 */
export function boundDeadline(headers: Headers, stream: boolean, limits: DeadlineLimits): void {
  const most = Math.min(stream ? limits.maxStreamMs : limits.maxMs, MAX_TIMER_MS);
  const fallback = Math.min(stream ? limits.maxStreamMs : limits.defaultMs, most);
  const grpc = headers.get("content-type")?.startsWith("application/grpc") === true;
  const name = grpc ? "grpc-timeout" : "connect-timeout-ms";
  const text = headers.get(name);
  const asked = text === null ? fallback : grpc ? grpcTimeout(text) : connectTimeout(text);
  if (asked === undefined || (text !== null && asked <= most)) return;
  const granted = Math.min(asked, most);
  headers.set(name, grpc ? grpcTimeoutText(granted) : String(granted));
}

function connectTimeout(text: string): number | undefined {
  return /^\d{1,10}$/.test(text) ? Number(text) : undefined;
}

const GRPC_UNITS: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
};

function grpcTimeout(text: string): number | undefined {
  const [, digits, unit] = /^(\d{1,8})([HMSmun])$/.exec(text) ?? [];
  const scale = GRPC_UNITS[unit ?? ""];
  return scale === undefined ? undefined : Number(digits) * scale;
}

/** gRPC allows eight digits. */
function grpcTimeoutText(ms: number): string {
  return ms < 1e8 ? `${String(ms)}m` : `${String(Math.floor(ms / 1000))}S`;
}

/** Why a call was ended by its signal: its deadline, a stop of the server, or the client's going away. */
export function endOf(signal: AbortSignal): ConnectError {
  const reason: unknown = signal.reason;
  if (!(reason instanceof ConnectError)) return clientGone();
  if (reason.code === Code.DeadlineExceeded) return deadlineExceeded();
  // Anything else of the RPC library's says how the connection broke.
  return reasonOf(reason) === undefined ? clientGone() : reason;
}

/** The error of a call whose client has gone away; nobody reads it but the metrics. */
export function clientGone(cause?: unknown): ConnectError {
  return toConnectError(
    { code: Code.Canceled, reason: "CANCELLED", message: "The client ended the call." },
    cause,
  );
}

/** The error of a call that did not finish in time. */
export function deadlineExceeded(): ConnectError {
  return toConnectError({
    code: Code.DeadlineExceeded,
    reason: "DEADLINE_EXCEEDED",
    message: "The call did not finish before its deadline.",
  });
}

/** How long a handler that heeds its signal has to say itself how far it came, in milliseconds. */
export const GRACE_MS = 50;

/**
 * The promise, or a rejection with endOf(signal) soon after the signal is raised, whatever the promise does: it is
 * waited for a moment longer, since it may know more (an event was sent and its acknowledgement not seen).
 */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    const onAbort = (): void => {
      timer = setTimeout(() => reject(endOf(signal)), GRACE_MS);
    };
    const settled = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", onAbort);
    };
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort);
    promise.then(resolve, reject).finally(settled);
  });
}

/**
 * What an error thrown by the work of a signal stands for: once the signal is raised, an error that gives no reason of
 * its own is but a sign of that.
 */
export function causeOf(error: unknown, signal: AbortSignal): unknown {
  const expected = error instanceof ConnectError && reasonOf(error) !== undefined;
  return signal.aborted && !expected ? endOf(signal) : error;
}

/**
 * The items, or a rejection with endOf(signal) soon after the signal is raised, whatever the source does. The item that
 * was waited for just then still passes.
 */
export async function* abortableItems<T>(
  items: AsyncIterable<T>,
  signal: AbortSignal,
): AsyncGenerator<T, void, void> {
  const source = items[Symbol.asyncIterator]();
  let done = false;
  try {
    while (!signal.aborted) {
      const next = await abortable(source.next(), signal);
      done = next.done === true;
      if (next.done === true) return;
      yield next.value;
    }
    throw endOf(signal);
  } finally {
    // Not awaited: a source that hangs would hold the answer.
    if (!done) void Promise.resolve(source.return?.()).catch(() => undefined);
  }
}
