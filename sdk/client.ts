import { type CallOptions, type Client, createClient } from "@connectrpc/connect";
import { IngestService } from "./gen/weir/v1/ingest_pb.ts";
import { type Event } from "./gen/weir/v1/event_pb.ts";
import { SearchService, Summary } from "./gen/weir/v1/search_pb.ts";
import { createPublisher, type Publisher, type PublisherOptions } from "./publisher.ts";
import { createTransport, type WeirClientOptions } from "./transport.ts";

export { type WeirClientOptions } from "./transport.ts";

/** Which events, and in what order, as the request of searchEvents has them. */
export interface EventQuery {
  /** Weir's filter language; all events without it. */
  readonly filter?: string;
  /** "time desc" (the default: newest first) or "time". */
  readonly orderBy?: string;
  /** How many events a page has; 50 by default, 500 at most. */
  readonly pageSize?: number;
}

/** Weir's services. Every method of the contract is a function: `weir.search.getEvent({ name })`. */
export interface WeirClient {
  /** Takes events in: createEvent, batchCreateEvents, validateEvent. For many of them, a publisher does it best. */
  readonly ingest: Client<typeof IngestService>;
  /** Finds events: searchEvents, getEvent, exportEvents; getEventJourney tells where one is, stored or not. */
  readonly search: Client<typeof SearchService>;
  /**
   * The events that match, without their data, however many pages of searchEvents they take: each is asked for when it is
   * come to. To have them with their data, use `search.exportEvents`.
   *
   * @example
   * ```ts
   * for await (const { name } of weir.events({ filter: "severity >= ERROR time >= now-1h" })) console.log(name);
   * ```
   */
  events(query?: EventQuery, options?: CallOptions): AsyncIterable<Event>;
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
 * Throws a TypeError where baseUrl is not an absolute http or https URL, and where the token cannot stand in a header.
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
  const search = createClient(SearchService, transport);
  return {
    ingest,
    search,
    async *events(query, callOptions) {
      let pageToken = "";
      do {
        const request = { ...query, pageToken, summaries: [Summary.NONE] };
        const { events, nextPageToken } = await search.searchEvents(request, callOptions);
        yield* events;
        pageToken = nextPageToken;
      } while (pageToken !== "");
    },
    publisher: (publisherOptions) =>
      createPublisher(ingest, publisherOptions, typeof options.token === "function"),
  };
}
