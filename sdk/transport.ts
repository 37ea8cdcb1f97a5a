import { type Interceptor, type Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";

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
 * Throws a TypeError where baseUrl is not an absolute http or https URL.
 */
export function createTransport(options: WeirClientOptions): Transport {
  if (!URL.canParse(options.baseUrl) || !/^https?:$/.test(new URL(options.baseUrl).protocol)) {
    throw new TypeError(`baseUrl must be an absolute http or https URL, not "${options.baseUrl}"`);
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
    const value = typeof token === "string" ? token : await beforeAbort(token, request.signal);
    request.header.set("authorization", `Bearer ${value}`);
    return next(request);
  };
}

/** Connect's deadline raises the signal but does not end an interceptor: a token that never comes must not hang a call. */
async function beforeAbort(token: () => string | Promise<string>, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted();
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
  });
  return Promise.race([token(), aborted]);
}
