import { type MessageInitShape } from "@bufbuild/protobuf";
import { type ConnectError } from "@connectrpc/connect";
import { type Fault } from "#core/reason.ts";
import {
  type MissingSummarySchema,
  type SearchEventsResponseSchema,
  Summary,
} from "#gen/weir/v1/search_pb.ts";
import { type Database } from "#postgres/pool.ts";
import { countEvents, type FacetField, facetEvents, histogramEvents } from "#postgres/summaries.ts";
import { type ErrorFunnel } from "../error-funnel.ts";
import { reasonOf } from "../errors.ts";
import { adviceFor } from "./advice.ts";
import { type Question } from "./question.ts";
import { type InReadTurn, type Read } from "./reads.ts";
import { toFacetMessage, toHistogramMessage } from "./summary-wire.ts";

/** A summary that can be asked for. */
export type Wanted = typeof Summary.FACETS | typeof Summary.HISTOGRAM | typeof Summary.TOTAL;

const ALL: readonly Wanted[] = [Summary.FACETS, Summary.HISTOGRAM, Summary.TOTAL];

const KNOWN: readonly Summary[] = [...ALL, Summary.NONE];

const FACET_FIELDS: readonly FacetField[] = ["type", "source", "subject", "severity", "tags"];
/** How many values a facet has, and of how many events it is. */
const FACET_VALUES = 20;
const FACET_CANDIDATES = 50_000;
/** How far a total is counted. */
const TOTAL_LIMIT = 10_001;

/** Which summaries a request wants, and every fault of it. Without any said: all on a first page, else none. */
export function readSummaries(
  asked: readonly Summary[],
  isFirstPage: boolean,
): { readonly wanted: readonly Wanted[]; readonly faults: readonly Fault[] } {
  const faults = asked.flatMap((each, index): Fault[] => {
    if (KNOWN.includes(each)) return [];
    const description = `There is no summary ${each}: give SUMMARY_FACETS, SUMMARY_HISTOGRAM, SUMMARY_TOTAL or SUMMARY_NONE.`;
    return [{ field: `summaries[${index}]`, reason: "INVALID_REQUEST", description }];
  });
  if (asked.length === 0) return { wanted: isFirstPage ? ALL : [], faults };
  return { wanted: ALL.filter((each) => asked.includes(each)), faults };
}

/** What summaries need. */
export interface SummariesOptions {
  /** For reading alone. */
  readonly database: Database;
  readonly inReadTurn: InReadTurn;
  readonly funnel: ErrorFunnel;
  /** The extension attributes that have a facet. */
  readonly facetExtensions: readonly string[];
}

/** What an answer says of all events that match. */
export type SummariesMessage = Pick<
  MessageInitShape<typeof SearchEventsResponseSchema>,
  "facets" | "histogram" | "total" | "missing"
>;

/**
 * Sums up what a question matches: a statement for each summary, all at once, each in a turn of its own behind those of
 * pages. One that fails is among `missing`, and leaves the others alone. Never rejects.
 */
export async function summarize(
  { database, inReadTurn, funnel, facetExtensions }: SummariesOptions,
  question: Pick<Question, "filter" | "now">,
  wanted: readonly Wanted[],
  signal: AbortSignal,
): Promise<SummariesMessage> {
  const missing: MessageInitShape<typeof MissingSummarySchema>[] = [];
  const attempt = async <T>(
    summary: Wanted,
    method: Read["method"],
    work: () => Promise<T>,
  ): Promise<T | undefined> => {
    if (!wanted.includes(summary)) return undefined;
    try {
      return await inReadTurn({ method, signal, urgency: "later", advice: adviceFor(question) }, work);
    } catch (cause) {
      const error: ConnectError = funnel(cause, `weir.v1.SearchService/SearchEvents ${method}`);
      missing.push({ summary, reason: reasonOf(error) ?? "INTERNAL", message: error.rawMessage });
      return undefined;
    }
  };
  const fields: readonly FacetField[] = [
    ...FACET_FIELDS,
    ...facetExtensions.map((name) => `ext.${name}` as const),
  ];
  const [facets, histogram, count] = await Promise.all([
    attempt(Summary.FACETS, "facets", () =>
      facetEvents(
        database,
        { ...question, fields, candidates: FACET_CANDIDATES, values: FACET_VALUES },
        signal,
      ),
    ),
    attempt(Summary.HISTOGRAM, "histogram", () => histogramEvents(database, question, signal)),
    attempt(Summary.TOTAL, "total", () => countEvents(database, { ...question, limit: TOTAL_LIMIT }, signal)),
  ]);
  return {
    facets: facets?.map(toFacetMessage) ?? [],
    ...(histogram && { histogram: toHistogramMessage(histogram) }),
    ...(count !== undefined && { total: { count: BigInt(count), capped: count === TOTAL_LIMIT } }),
    missing: missing.toSorted((a, b) => (a.summary ?? 0) - (b.summary ?? 0)),
  };
}
