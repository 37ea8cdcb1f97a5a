import { type Client, createClient } from "@connectrpc/connect";
import { IngestService } from "./gen/weir/v1/ingest_pb.ts";
import { SearchService } from "./gen/weir/v1/search_pb.ts";
import { createPublisher, type Publisher, type PublisherOptions } from "./publisher.ts";
import { createTransport, type WeirClientOptions } from "./transport.ts";

export { type WeirClientOptions } from "./transport.ts";

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
  const transport = createTransport(options);
  const ingest = createClient(IngestService, transport);
  return {
    ingest,
    search: createClient(SearchService, transport),
    publisher: (publisherOptions) => createPublisher(ingest, publisherOptions),
  };
}
