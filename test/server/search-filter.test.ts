import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { type StoredEvent } from "#core/event.ts";
import { Severity } from "#gen/weir/v1/event_pb.ts";
import { type SearchEventsResponse, Summary } from "#gen/weir/v1/search_pb.ts";
import { insertEvents } from "#postgres/events.ts";
import { type Database } from "#postgres/pool.ts";
import { transaction } from "#postgres/tx.ts";

import { openDatabase, sketchEvent } from "../postgres/fixture.ts";
import { startWeir, type Weir } from "../support/weir.ts";
import { type Clients, createClients, PROTOCOLS, refusalOf } from "./clients.ts";

let weir: Weir;
let token: string;
let database: Database;
let clients: Clients;
beforeAll(async () => {
  weir = await startWeir({ env: { WEIR_SEARCH_FACET_EXTENSIONS: "tenant,region" } });
  token = await weir.token({ scope: "events.read" });
  database = openDatabase(weir.databaseUrl);
  clients = createClients(weir.baseUrl, token);
  await transaction(database, (tx) => insertEvents(tx, EVENTS));
});
afterAll(async () => {
  await database[Symbol.asyncDispose]();
  await weir[Symbol.asyncDispose]();
});

/** An hour ago; events are a second apart from then on. */
const START = Math.floor(Date.now() / 60_000) * 60_000 - 3_600_000;
const EVENTS: readonly StoredEvent[] = Array.from({ length: 60 }, (_, index) =>
  sketchEvent({
    id: `e${index}`,
    source: index % 2 === 0 ? "/even" : "/odd",
    type: index % 3 === 0 ? "com.acme.order.placed" : "com.acme.order.paid",
    subject: index < 4 ? `subject ${index}` : undefined,
    time: new Date(START + index * 1_000).toISOString(),
    datacontenttype: "application/json",
    data: new TextEncoder().encode(
      JSON.stringify({ amount: index, note: index === 7 ? "card declined" : "" }),
    ),
    extensions: new Map([
      ["tenant", index < 50 ? "acme" : "other"],
      ...(index % 10 === 0 ? [["severitytext", "ERROR"] as const] : []),
      ...(index % 5 === 0 ? [["tags", "eu, retail"] as const] : []),
    ]),
    offset: BigInt(index),
  }),
);

const ids = ({ events }: SearchEventsResponse): string[] => events.map(({ cloudEvent }) => cloudEvent!.id);
const found = async (filter: string): Promise<string[]> =>
  ids(await clients.search.searchEvents({ filter, pageSize: 500 }));

describe("SearchEvents with a filter", () => {
  test.each([
    ['type = "com.acme.*.paid" source = /odd data.amount < 12', ["e11", "e7", "e5", "e1"]],
    ['"card declined"', ["e7"]],
    ["severity >= WARN AND NOT ext.tenant = acme", ["e50"]],
    ["tags:eu -source:/odd data.amount >= 39.5", ["e50", "e40"]],
    ["subject:* time > now-2h", ["e3", "e2", "e1", "e0"]],
    ["time < now-2h", []],
  ])("finds what matches %s", async (filter, expected) => {
    expect(await found(filter)).toEqual(expected);
  });

  test("goes on page by page, however the filter is written, and with no other", async () => {
    const filter = "source = /even AND ext.tenant = acme";
    const first = await clients.search.searchEvents({ filter, pageSize: 10 });
    const { nextPageToken: pageToken } = first;
    const second = await clients.search.searchEvents({
      filter: '(source="/even") ext.tenant:"acme"',
      pageToken,
    });
    expect([...ids(first), ...ids(second)]).toEqual(Array.from({ length: 25 }, (_, at) => `e${48 - 2 * at}`));
    expect(second.nextPageToken).toBe("");
    for (const other of ["", "source = /even", "source = /even ext.tenant = other"]) {
      const refusal = await refusalOf(clients.search.searchEvents({ filter: other, pageToken }));
      expect(refusal).toMatchObject({ code: Code.InvalidArgument, reason: "INVALID_PAGE_TOKEN" });
    }
  });

  test("means by now the moment of the first page, on every page", async () => {
    // Of all events, those are within; a second later the oldest is no longer.
    const age = Math.ceil((Date.now() - START) / 1_000) + 1;
    const filter = `time >= now-${age}s`;
    const first = await clients.search.searchEvents({ filter, pageSize: 30 });
    await expect.poll(async () => (await found(filter)).includes("e0"), { timeout: 5_000 }).toBe(false);
    const rest = await clients.search.searchEvents({ filter, pageToken: first.nextPageToken });
    expect(ids(rest).at(-1)).toBe("e0");
  });

  test.each(PROTOCOLS)(
    "tells all that is wrong with a filter, and of other arguments, by %s",
    async (protocol) => {
      const { search } = createClients(weir.baseUrl, token, protocol);
      const filter = 'typ = "a" severity > BAD "unclosed';
      const refusal = await refusalOf(
        search.searchEvents({ filter, pageSize: -1, pageToken: "made-up", orderBy: "id" }),
      );
      expect(refusal).toMatchObject({ code: Code.InvalidArgument, reason: "INVALID_PAGE_SIZE" });
      expect(refusal.violations).toEqual([
        {
          field: "filter",
          reason: "INVALID_FILTER",
          description: expect.stringMatching(/^At 0: .*"typ".*Did you mean type\?/) as string,
        },
        {
          field: "filter",
          reason: "INVALID_FILTER",
          description: expect.stringMatching(/^At 21: .*"BAD".* Expected: TRACE, /) as string,
        },
        {
          field: "filter",
          reason: "INVALID_FILTER",
          description: expect.stringMatching(/^At 25: .*not closed/) as string,
        },
        expect.objectContaining({ field: "order_by" }),
        expect.objectContaining({ field: "page_token", reason: "INVALID_PAGE_TOKEN" }),
        expect.objectContaining({ field: "page_size" }),
      ]);
      const alone = await refusalOf(search.searchEvents({ filter: "type = a AND tags = b" }));
      expect(alone).toMatchObject({
        reason: "INVALID_FILTER",
        metadata: { position: "13", suggestion: "tags:b" },
      });
    },
  );
});

describe("the summaries of a search", () => {
  const filter = "ext.tenant = acme";
  /** Which of them there are. */
  const parts = ({ facets, histogram, total, missing }: SearchEventsResponse): unknown => {
    return { facets: facets.length, buckets: histogram?.buckets.length, total: total?.count, missing };
  };
  const NONE = { facets: 0, buckets: undefined, total: undefined, missing: [] };

  test("are all on a first page, none on a later one, unless it is said", async () => {
    const first = await clients.search.searchEvents({ filter, pageSize: 1 });
    expect(first.facets.map(({ field }) => field)).toEqual([
      "type",
      "source",
      "subject",
      "severity",
      "tags",
      "ext.tenant",
      "ext.region",
    ]);
    expect(parts(first)).toEqual({ facets: 7, buckets: 50, total: 50n, missing: [] });
    const later = { filter, pageSize: 1, pageToken: first.nextPageToken };
    const asked = async (request: object): Promise<unknown> =>
      parts(await clients.search.searchEvents(request));
    expect(await asked(later)).toEqual(NONE);
    expect(await asked({ ...later, summaries: [Summary.TOTAL] })).toEqual({ ...NONE, total: 50n });
    expect(await asked({ filter, summaries: [Summary.NONE] })).toEqual(NONE);
    const two = [Summary.HISTOGRAM, Summary.NONE, Summary.FACETS];
    expect(await asked({ filter, summaries: two })).toEqual({ ...NONE, facets: 7, buckets: 50 });
  });

  test("say which values are most frequent, each facet whatever the filter says of its own field", async () => {
    const { facets } = await clients.search.searchEvents({
      filter: `${filter} type = com.acme.order.placed`,
      pageSize: 1,
    });
    const values = Object.fromEntries(
      facets.map((facet) => [facet.field, facet.values.map(({ value, count }) => `${value} ${count}`)]),
    );
    expect(values).toEqual({
      type: ["com.acme.order.paid 33", "com.acme.order.placed 17"],
      source: ["/even 9", "/odd 8"],
      subject: ["subject 0 1", "subject 3 1"],
      severity: ["ERROR 2"],
      tags: ["eu 4", "retail 4"],
      "ext.tenant": ["acme 17", "other 3"],
      "ext.region": [],
    });
    expect(facets.every(({ capped }) => !capped)).toBe(true);
    // What a facet gives, a filter takes.
    expect(await found(`${filter} severity = ERROR tags:retail type = com.acme.order.placed`)).toEqual([
      "e30",
      "e0",
    ]);
  });

  test("say when, by severity, without holes", async () => {
    const { histogram } = await clients.search.searchEvents({
      filter: "data.amount >= 10 data.amount <= 20 -tags:eu OR severity = ERROR data.amount < 30",
      pageSize: 1,
    });
    expect(histogram?.interval).toMatchObject({ seconds: 1n, nanos: 0 });
    const buckets = histogram!.buckets.map(({ startTime, count, countBySeverity }) => [
      (Number(startTime!.seconds) * 1_000 - START) / 1_000,
      Number(count),
      Object.fromEntries(countBySeverity.map(({ severity, count: of }) => [severity, Number(of)])),
    ]);
    expect(buckets).toEqual(
      Array.from({ length: 11 }, (_, at) => {
        const index = 10 + at;
        if (index % 10 === 0) return [index, 1, { [Severity.ERROR]: 1 }];
        return index === 15 ? [index, 0, {}] : [index, 1, { [Severity.UNSPECIFIED]: 1 }];
      }),
    );
  });

  test("of nothing are empty", async () => {
    const answer = await clients.search.searchEvents({ filter: "id = none" });
    expect(parts(answer)).toEqual({ ...NONE, facets: 7, total: 0n });
    expect(answer.facets.flatMap(({ values }) => values)).toEqual([]);
  });

  test("that there are not are refused, each by its place", async () => {
    const summaries = [Summary.TOTAL, Summary.UNSPECIFIED, 9 as Summary];
    const refusal = await refusalOf(clients.search.searchEvents({ summaries }));
    expect(refusal.violations.map(({ field }) => field)).toEqual(["summaries[1]", "summaries[2]"]);
  });
});
