import { type Client, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { IngestService } from "./gen/weir/v1/ingest_pb.ts";
import { SearchService } from "./gen/weir/v1/search_pb.ts";
import { createPublisher, type Publisher, type PublisherOptions } from "./publisher.ts";

/** What a client of Weir needs. */
export interface WeirClientOptions {
  /** Where Weir answers: an absolute http or https URL, such as "http://127.0.0.1:8080"; a path in it is kept. */
  readonly baseUrl: string;
  /** The bearer token, or what gives one: it is asked before every call, so it can hand out a fresh one. */
  readonly token: string | (() => string | Promise<string>);
  /** How long a call may take, in milliseconds; 10,000 by default. For one call: `{ timeoutMs }` after its request. */
  readonly timeoutMs?: number | undefined;
}

/** Weir's services. Every method of the contract is a function: `weir.search.getEvent({ name })`. */
export interface WeirClient {
  /** Takes events in: createEvent, batchCreateEvents, validateEvent. For many of them, a publisher does it best. */
  readonly ingest: Client<typeof IngestService>;
  /** Finds stored events: searchEvents, getEvent. */
  readonly search: Client<typeof SearchService>;
  /**
   * A publisher, which gathers events into batches, keeps their order by key and repeats what may be repeated. It is to be
   * closed. Throws a RangeError for a limit below 1.
   *
   * @example
   * ```ts
   * await using publisher = weir.publisher();
   * const receipt = await publisher.publish(cloudEvent({ id: "1", source: "/shop", type: "t", time: new Date() }));
   * ```
   */
  publisher(options?: PublisherOptions): Publisher;
}

/**
 * A client of Weir for Node.js (20 or later) and browsers: the Connect protocol in protobuf over fetch. Nothing is sent
 * until a method is called, and but for publishers there is nothing to close. A call that fails rejects with a
 * ConnectError, which `weirErrorOf` reads; nothing is tried again by itself but by a publisher.
 *
 * Throws a TypeError where baseUrl is not an absolute http or https URL.
 *
 * @example
 * ```ts
 * const weir = createWeirClient({ baseUrl: "http://127.0.0.1:8080", token });
 * const { receipt } = await weir.ingest.createEvent({
 *   event: cloudEvent({ id: "1", source: "/shop", type: "com.acme.order.placed", time: new Date() }),
 * });
 * ```
 */
export function createWeirClient(options: WeirClientOptions): WeirClient {
  if (!URL.canParse(options.baseUrl) || !/^https?:$/.test(new URL(options.baseUrl).protocol)) {
    throw new TypeError(`baseUrl must be an absolute http or https URL, not "${options.baseUrl}"`);
  }
  const transport = createConnectTransport({
    baseUrl: options.baseUrl,
    useBinaryFormat: true,
    interceptors: [bearer(options.token)],
    defaultTimeoutMs: options.timeoutMs ?? 10_000,
  });
  const ingest = createClient(IngestService, transport);
  return {
    ingest,
    search: createClient(SearchService, transport),
    publisher: (publisherOptions) => createPublisher(ingest, publisherOptions),
  };
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
