import { Code, type ConnectError, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import { parseEventName } from "#core/event-name.ts";
import { quote } from "#core/faults.ts";
import { type Fault } from "#core/reason.ts";
import {
  type GetEventRequest,
  type SearchEventsRequest,
  type SearchService,
} from "#gen/weir/v1/search_pb.ts";
import { type Database } from "#postgres/pool.ts";
import { type EventKey, exportEvents, getEvent, searchEvents } from "#postgres/search.ts";
import { type Telemetry } from "#runtime/telemetry.ts";
import { type ErrorFunnel } from "./error-funnel.ts";
import { failureOf, toConnectError } from "./errors.ts";
import { endOf } from "./http/deadlines.ts";
import { toReadError } from "./read-errors.ts";
import { type SchemaWatch } from "./schema-watch.ts";
import { adviceFor } from "./search/advice.ts";
import { createGetEventJourney, type JourneyOptions } from "./search/journey.ts";
import { exportCapacityReached, exportMessages } from "./search/export.ts";
import { type Question, readQuestion } from "./search/question.ts";
import { createInReadTurn } from "./search/reads.ts";
import { readSummaries, summarize, type Wanted } from "./search/summaries.ts";
import { type Turns } from "./turns.ts";
import { fromMicros, toEventMessage, toMicros, viewOf } from "./wire.ts";

/** What SearchService needs. */
export interface SearchServiceOptions {
  /** For reading alone, with a bound on every statement. */
  readonly database: Database;
  /** As `database`, for exports, which have connections of their own. */
  readonly exportDatabase: Database;
  readonly schema: Pick<SchemaWatch, "behind">;
  /** How many reads may run at once and wait: one for each connection of `database`. */
  readonly turns: Turns;
  /** How many exports may run at once: one for each connection of `exportDatabase`. */
  readonly exportTurns: Turns;
  /** The extension attributes that have a facet. */
  readonly facetExtensions: readonly string[];
  readonly telemetry: Telemetry;
  readonly funnel: ErrorFunnel;
  /** The log, and the consumer group that stores it: for journeys. */
  readonly log: Pick<JourneyOptions, "admin" | "topic" | "partitions" | "group">;
}

const DEFAULT_PAGE_SIZE = 50;
const MAX_PAGE_SIZE = 500;

/** weir.v1.SearchService over the store. A page is one statement, and so is each of its summaries. */
export function createSearchService(options: SearchServiceOptions): ServiceImpl<typeof SearchService> {
  const { database, exportDatabase, schema, exportTurns } = options;
  const inReadTurn = createInReadTurn(options);
  const summaries = { ...options, inReadTurn };
  return {
    async searchEvents(request, context) {
      const { question, size, wanted } = readSearch(request);
      using work = abortable(context.signal);
      const { signal } = work;
      const page = inReadTurn({ method: "search", signal, advice: adviceFor(question) }, () =>
        // One more than asked for says whether there is a page after this one.
        searchEvents(database, { ...question, limit: size + 1 }, signal),
      );
      // The page has asked for its turn by now, so none of its summaries goes before it.
      const summed = summarize(summaries, question, wanted, signal);
      const found = await page;
      const events = found.slice(0, size);
      const last = found.length > size ? events.at(-1) : undefined;
      return {
        events: events.map((event) => toEventMessage(event)),
        nextPageToken: last === undefined ? "" : question.tokenAfter(last),
        ...(await summed),
      };
    },

    async getEvent(request, context) {
      const key = readKey(request);
      const { signal } = context;
      const found = await inReadTurn({ method: "get", signal }, async () => {
        const event = isStorable(key) ? await getEvent(database, key, signal) : undefined;
        if (event === undefined) throw notFound(request);
        return event;
      });
      return {
        event: toEventMessage(viewOf(found.event), speaksJson(context)),
        otherTimes: found.otherTimes.map(fromMicros),
      };
    },

    getEventJourney: createGetEventJourney({ ...options.log, database, inReadTurn }),

    async *exportEvents(request, context) {
      const asked = readQuestion(request);
      if (!asked.ok) throw refusal(asked.faults);
      const { value: question } = asked;
      const { signal } = context;
      try {
        using turn = await exportTurns.take(signal);
        if (turn === undefined) throw exportCapacityReached();
        yield* exportMessages(exportEvents(exportDatabase, question, signal), question, speaksJson(context));
      } catch (cause) {
        if (signal.aborted) throw endOf(signal);
        throw toReadError(cause, schema.behind, adviceFor(question)) ?? cause;
      }
    },
  };
}

/** A signal that is raised with another one, and when it is disposed of: what still runs then is wanted no more. */
function abortable(signal: AbortSignal): Disposable & { readonly signal: AbortSignal } {
  const controller = new AbortController();
  return {
    signal: AbortSignal.any([signal, controller.signal]),
    [Symbol.dispose]: () => controller.abort(),
  };
}

interface Search {
  readonly question: Question;
  /** Events on the page at most. */
  readonly size: number;
  readonly wanted: readonly Wanted[];
}

/** @throws ConnectError with every fault of the request. */
function readSearch(request: SearchEventsRequest): Search {
  const { pageSize, pageToken } = request;
  const question = readQuestion(request);
  const { wanted, faults } = readSummaries(request.summaries, pageToken === "");
  const sizeFaults: Fault[] = [];
  if (pageSize < 0) {
    const description = `A page cannot have ${pageSize} events: give 1 to ${MAX_PAGE_SIZE}, or 0 for ${DEFAULT_PAGE_SIZE}.`;
    sizeFaults.push({ field: "page_size", reason: "INVALID_PAGE_SIZE", description });
  }
  const all = [...(question.ok ? [] : question.faults), ...sizeFaults, ...faults];
  if (!question.ok || all.length > 0) throw refusal(all);
  const size = Math.min(pageSize === 0 ? DEFAULT_PAGE_SIZE : pageSize, MAX_PAGE_SIZE);
  return { question: question.value, size, wanted };
}

/** @throws ConnectError with every fault of the request. */
function readKey({ name, time }: GetEventRequest): EventKey {
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
export function speaksJson({ requestHeader, requestMethod, url }: HandlerContext): boolean {
  if (requestMethod === "GET") return new URL(url).searchParams.get("encoding") === "json";
  return /[/+]json\b/.test(requestHeader.get("content-type") ?? "");
}
