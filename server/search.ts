import { Code, ConnectError, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import { parseEventName } from "#core/event-name.ts";
import { quote } from "#core/faults.ts";
import { decodePageToken, encodePageToken, type PageQuestion } from "#core/page-token.ts";
import { type Fault, type Reason } from "#core/reason.ts";
import { severityOf } from "#core/severity.ts";
import { tagsOf } from "#core/tags.ts";
import {
  type GetEventRequest,
  type SearchEventsRequest,
  type SearchService,
} from "#gen/weir/v1/search_pb.ts";
import { occurredAt } from "#postgres/events.ts";
import { type Database } from "#postgres/pool.ts";
import {
  type EventKey,
  type EventOrder,
  getEvent,
  type SearchQuery,
  searchEvents,
} from "#postgres/search.ts";
import { type Telemetry } from "#runtime/telemetry.ts";
import { endOf } from "./http/deadlines.ts";
import { failureOf, reasonOf, toConnectError } from "./errors.ts";
import { toReadError } from "./read-errors.ts";
import { type SchemaWatch } from "./schema-watch.ts";
import { type Turns } from "./turns.ts";
import { fromMicros, toEventMessage, toMicros } from "./wire.ts";

/** What SearchService needs. */
export interface SearchServiceOptions {
  /** For reading alone, with a bound on every statement. */
  readonly database: Database;
  readonly schema: Pick<SchemaWatch, "behind">;
  /** How many reads may run at once and wait. */
  readonly turns: Turns;
  readonly telemetry: Telemetry;
}

const DEFAULT_PAGE_SIZE = 50;
const MAX_PAGE_SIZE = 500;
const RETRY_AFTER_MS = 1_000;

/** weir.v1.SearchService over the store. A page is one statement. */
export function createSearchService(
  options: SearchServiceOptions,
): Partial<ServiceImpl<typeof SearchService>> {
  const { database } = options;
  return {
    async searchEvents(request, { signal }) {
      const { order, after, size } = toPageQuery(request);
      const found = await read(options, "search", signal, () =>
        // One more than asked for says whether there is a page after this one.
        searchEvents(database, { order, after, limit: size + 1 }),
      );
      const events = found.slice(0, size);
      const last = found.length > size ? events.at(-1) : undefined;
      const nextPageToken =
        last && encodePageToken({ ...last.position, time: occurredAt(last) }, toQuestion(order));
      return { events: events.map((event) => toEventMessage(event)), nextPageToken: nextPageToken ?? "" };
    },

    async getEvent(request, context) {
      const key = toEventKey(request);
      const found = await read(options, "get", context.signal, async () => {
        const event = isStorable(key) ? await getEvent(database, key) : undefined;
        if (event === undefined) throw notFound(request);
        return event;
      });
      const { event, dataSize, otherTimes } = found;
      const computed = { dataSize, severity: severityOf(event.event), tags: tagsOf(event.event) };
      return {
        event: toEventMessage({ ...event, ...computed }, speaksJson(context)),
        otherTimes: otherTimes.map(fromMicros),
      };
    },
  };
}

interface PageQuery extends Omit<SearchQuery, "limit"> {
  /** Events on the page at most. */
  readonly size: number;
}

const DEFAULT_ORDER = "time desc";
const ORDERS: readonly EventOrder[] = ["time desc", "time"];

/** Only the empty filter is served yet. */
function toQuestion(order: EventOrder): PageQuestion {
  return { filter: "", order };
}

/** @throws ConnectError with every fault of the request. */
function toPageQuery({ filter, orderBy, pageSize, pageToken }: SearchEventsRequest): PageQuery {
  const faults: Fault[] = [];
  if (filter.trim() !== "") {
    const description = "Filters are not served yet: leave it empty, which lists all events.";
    faults.push({ field: "filter", reason: "FILTER_UNSUPPORTED", description });
  }
  const wanted = orderBy.trim().replace(/\s+/g, " ") || DEFAULT_ORDER;
  const order = ORDERS.find((each) => each === wanted);
  if (order === undefined) {
    const description = `${quote(orderBy)} is no order: give "time desc" (the default: newest first) or "time".`;
    faults.push({ field: "order_by", reason: "INVALID_ORDER_BY", description });
  }
  if (pageSize < 0) {
    const description = `A page cannot have ${pageSize} events: give 1 to ${MAX_PAGE_SIZE}, or 0 for ${DEFAULT_PAGE_SIZE}.`;
    faults.push({ field: "page_size", reason: "INVALID_PAGE_SIZE", description });
  }
  // Beside an order that is none, a token may belong to any.
  const cursors = (order === undefined ? ORDERS : [order]).map((each) =>
    pageToken === "" ? undefined : decodePageToken(pageToken, toQuestion(each)),
  );
  const cursor = cursors.find((each) => each?.ok !== false) ?? cursors[0];
  if (cursor?.ok === false) faults.push(...cursor.faults);
  if (order === undefined || cursor?.ok === false || faults.length > 0) throw refusal(faults);
  return {
    order,
    after: cursor && { ...cursor.value, occurredAt: cursor.value.time },
    size: Math.min(pageSize === 0 ? DEFAULT_PAGE_SIZE : pageSize, MAX_PAGE_SIZE),
  };
}

/** @throws ConnectError with every fault of the request. */
function toEventKey({ name, time }: GetEventRequest): EventKey {
  const identity = parseEventName(name);
  const faults: Fault[] = identity.ok ? [] : [...identity.faults];
  const micros = time && toMicros(time);
  if (time !== undefined && micros === undefined) {
    const description = "The time must lie in the years 0001 to 9999, with nanos from 0 to 999,999,999.";
    faults.push({ field: "time", reason: "INVALID_REQUEST", description });
  }
  if (!identity.ok || faults.length > 0) throw refusal(faults);
  return { ...identity.value, time: micros };
}

/** @param faults at least one */
function refusal(faults: readonly Fault[]): ConnectError {
  return toConnectError(failureOf(faults as [Fault, ...Fault[]]));
}

/** PostgreSQL has no text with a NUL, and no event has one either. */
function isStorable({ source, id }: EventKey): boolean {
  return !source.includes("\0") && !id.includes("\0");
}

function notFound({ name, time }: GetEventRequest): ConnectError {
  const which = time === undefined ? "" : " and this time";
  return toConnectError({
    code: Code.NotFound,
    reason: "EVENT_NOT_FOUND",
    message: `No event with the name ${quote(name)}${which} is stored. One that was accepted a moment ago may be stored in the next.`,
  });
}

/**
 * Whether the answer goes out as JSON, by the rules of Connect, gRPC and gRPC-Web for a request's media type and of
 * Connect for a GET.
 */
function speaksJson({ requestHeader, requestMethod, url }: HandlerContext): boolean {
  if (requestMethod === "GET") return new URL(url).searchParams.get("encoding") === "json";
  return /[/+]json\b/.test(requestHeader.get("content-type") ?? "");
}

/** Waits for a turn, reads, and measures both; a read that fails is measured too. */
async function read<T>(
  { turns, schema, telemetry }: SearchServiceOptions,
  method: "search" | "get",
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  const startedAt = performance.now();
  const measure = (outcome: "ok" | Reason): void =>
    telemetry.record("weir.search.duration", { method, outcome }, (performance.now() - startedAt) / 1000);
  try {
    const turn = await turns.take(signal);
    if (turn === undefined) throw capacityReached();
    try {
      const value = await work();
      measure("ok");
      return value;
    } finally {
      turn[Symbol.dispose]();
    }
  } catch (cause) {
    const error = signal.aborted ? endOf(signal) : (toReadError(cause, schema.behind) ?? cause);
    measure(error instanceof ConnectError ? (reasonOf(error) ?? "DEADLINE_EXCEEDED") : "INTERNAL");
    throw error;
  }
}

function capacityReached(): ConnectError {
  return toConnectError({
    code: Code.Unavailable,
    reason: "SEARCH_CAPACITY",
    message: "As many reads run and wait as this server allows. Try again.",
    metadata: { setting: "WEIR_SEARCH_CONCURRENCY" },
    retryAfterMs: RETRY_AFTER_MS,
  });
}
