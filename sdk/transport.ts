import { Code, ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { isWellFormed } from "./cloud-event.ts";
import { markUnsent } from "./unsent.ts";

/** What a client of Weir needs. */
export interface WeirClientOptions {
  /** Where Weir answers: an absolute http or https URL, such as "http://127.0.0.1:8080"; a path in it is kept. */
  readonly baseUrl: string;
  /** The bearer token, or what gives one: it is asked before every call, so it can hand out a fresh one. */
  readonly token: string | (() => string | Promise<string>);
  /** How long a call may take, in milliseconds; 10,000 by default. For one call: `{ timeoutMs }` after its request. */
  readonly timeoutMs?: number | undefined;
}

/**
 * The Connect protocol in protobuf over fetch, with the token on every call.
 *
 * Throws a TypeError where baseUrl is not an absolute http or https URL, and where the token cannot stand in a header.
 */
export function createTransport(options: WeirClientOptions): Transport {
  if (!URL.canParse(options.baseUrl) || !/^https?:$/.test(new URL(options.baseUrl).protocol)) {
    throw new TypeError(`baseUrl must be an absolute http or https URL, not "${options.baseUrl}"`);
  }
  if (typeof options.token === "string" && /[^\t -~]/.test(options.token.trim())) {
    throw new TypeError("token must be one line of ASCII, as a header carries it");
  }
  return createConnectTransport({
    baseUrl: options.baseUrl,
    useBinaryFormat: true,
    interceptors: [bearer(options.token)],
    defaultTimeoutMs: options.timeoutMs ?? 10_000,
  });
}

function bearer(token: WeirClientOptions["token"]): Interceptor {
  return (next) => async (request) => {
    try {
      if (!request.stream && !isWellFormed(request.message)) {
        throw new ConnectError(
          "The request holds a lone surrogate, which has no UTF-8.",
          Code.InvalidArgument,
        );
      }
      const value = typeof token === "string" ? token : await beforeAbort(token, request.signal);
      request.header.set("authorization", `Bearer ${value}`);
    } catch (error) {
      throw markUnsent(error);
    }
    return next(request);
  };
}

/** Connect's deadline raises the signal but does not end an interceptor: a token that never comes must not hang a call. */
async function beforeAbort(token: () => string | Promise<string>, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted();
  let abort = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason as Error);
    signal.addEventListener("abort", abort);
  });
  try {
    return await Promise.race([token(), aborted]);
  } finally {
    // Where `token` throws, nobody listens to `aborted`: then it must not reject.
    signal.removeEventListener("abort", abort);
  }
}
