import { type Client, Code, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { SearchService, Summary } from "#gen/weir/v1/search_pb.ts";
import { insertEvents } from "#postgres/events.ts";
import { type Database, type DatabaseOptions } from "#postgres/pool.ts";
import { SEARCH_SETTINGS } from "#postgres/search.ts";
import { transaction } from "#postgres/tx.ts";

import { createErrorFunnel } from "../../server/error-funnel.ts";
import { createSearchService } from "../../server/search.ts";
import { createTurns, type TurnsOptions } from "../../server/turns.ts";
import { openDatabase, sketchEvent } from "../postgres/fixture.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { silentLogger } from "../support/logger.ts";
import { createToken, startRpcServer } from "../support/rpc-server.ts";
import { refusalOf } from "./clients.ts";

// The service as the server has it, with its statements looked at on their way to PostgreSQL.

const COUNT = 20_000;
const APPLICATION = "weir statements";

let store: TestDatabase;
let observer: pg.Client;
beforeAll(async () => {
  store = await createTestDatabase();
  await using database = openDatabase(store.url);
  const data = new TextEncoder().encode(`{"note": "${"abcdefghij ".repeat(30)}"}`);
  const events = Array.from({ length: COUNT }, (_, index) =>
    sketchEvent({ id: `e${index}`, data, offset: BigInt(index) }),
  );
  for (let at = 0; at < COUNT; at += 1_000)
    await transaction(database, (tx) => insertEvents(tx, events.slice(at, at + 1_000)));
  observer = new pg.Client({ connectionString: store.url });
  await observer.connect();
}, 120_000);
afterAll(async () => {
  await observer.end();
  await store[Symbol.asyncDispose]();
});

interface Searching extends AsyncDisposable {
  readonly search: Client<typeof SearchService>;
  /** Every statement that there was, in order, and how many of them ran at once. */
  readonly statements: string[];
  atOnce: number;
  readonly errors: readonly unknown[];
}

/** No search asks the log. */
const noLog = {
  logRanges: () => Promise.reject(new Error("not to be asked")),
  readAt: () => Promise.reject(new Error("not to be asked")),
};

async function serve(
  options: {
    readonly database?: Partial<DatabaseOptions>;
    readonly turns?: Partial<TurnsOptions>;
    readonly facetExtensions?: readonly string[];
  } = {},
): Promise<Searching> {
  await using stack = new AsyncDisposableStack();
  const settings = { settings: SEARCH_SETTINGS, applicationName: APPLICATION, poolSize: 8 };
  const database = stack.use(openDatabase(store.url, { ...settings, readOnly: true, ...options.database }));
  const watched = watch(database);
  const errors: unknown[] = [];
  const log = { ...silentLogger, error: (_: string, fields: unknown) => void errors.push(fields) };
  const server = stack.use(
    await startRpcServer({
      routes: (router) =>
        router.service(
          SearchService,
          createSearchService({
            database,
            exportDatabase: database,
            schema: { behind: undefined },
            turns: createTurns({ concurrency: 8, queue: 64, waitMs: 5_000, ...options.turns }),
            exportTurns: createTurns({ concurrency: 1, queue: 0, waitMs: 0 }),
            facetExtensions: options.facetExtensions ?? [],
            telemetry: silentTelemetry,
            funnel: createErrorFunnel(log, 1),
            log: { admin: noLog, topic: "events", partitions: 1, group: "group" },
          }),
        ),
      deadlines: { defaultMs: 60_000, maxMs: 60_000 },
    }),
  );
  const token = await createToken("events.read");
  // By fetch, a call is a plain unary one, whose end the service hears of by itself alone.
  const transport = createConnectTransport({
    baseUrl: server.url,
    useBinaryFormat: true,
    interceptors: [
      (next) => (request) => {
        request.header.set("authorization", `Bearer ${token}`);
        return next(request);
      },
    ],
  });
  const owned = stack.move();
  const search = createClient(SearchService, transport);
  // What is estimated of the store is read by now, once a minute.
  await search.searchEvents({ pageSize: 1 });
  watched.statements.length = 0;
  watched.atOnce = 0;
  return Object.assign(watched, { search, errors, [Symbol.asyncDispose]: () => owned.disposeAsync() });
}

const silentTelemetry = { record() {} } as never;

function watch(database: Database): { statements: string[]; atOnce: number } {
  const watched = { statements: [] as string[], atOnce: 0 };
  let running = 0;
  database.pool.on("connect", (client) => {
    const query = client.query.bind(client) as (...args: unknown[]) => unknown;
    client.query = ((...args: unknown[]) => {
      const [statement] = args;
      watched.statements.push(typeof statement === "string" ? statement : (statement as pg.QueryConfig).text);
      running += 1;
      watched.atOnce = Math.max(watched.atOnce, running);
      const result = query(...args);
      if (result instanceof Promise) void result.catch(() => {}).finally(() => (running -= 1));
      else running -= 1;
      return result;
    }) as typeof client.query;
  });
  return watched;
}

/** How many statements of the service PostgreSQL is at. */
async function activeStatements(): Promise<number> {
  const { rows } = await observer.query<{ count: number }>(
    "select count(*)::int as count from pg_stat_activity where application_name = $1 and state = 'active'",
    [APPLICATION],
  );
  return rows[0]!.count;
}
const untilActive = (count: number): Promise<void> =>
  expect.poll(activeStatements, { interval: 10, timeout: 10_000 }).toBe(count);

/** Holds every statement on events back until it is disposed of. */
async function lockEvents(): Promise<AsyncDisposable> {
  const blocker = new pg.Client({ connectionString: store.url });
  await blocker.connect();
  await blocker.query("begin");
  await blocker.query("lock table events.event in access exclusive mode");
  return { [Symbol.asyncDispose]: () => blocker.end() };
}

describe("SearchEvents", () => {
  test("is four statements at once for a first page, and exactly one for each later page", async () => {
    await using searching = await serve();
    const { search, statements } = searching;
    const filter = "type = com.example.test time >= now-1d";
    const first = await search.searchEvents({ filter, pageSize: 10 });
    expect(first).toMatchObject({ missing: [], total: { count: 10_001n, capped: true } });
    expect(statements).toHaveLength(4);
    expect(searching.atOnce).toBe(4);
    let { nextPageToken: pageToken } = first;
    for (let pages = 1; pages < 4; pages++) {
      statements.length = 0;
      const page = await search.searchEvents({ filter, pageSize: 10, pageToken });
      expect(page.events).toHaveLength(10);
      expect(statements).toEqual([expect.stringMatching(/^select/)]);
      pageToken = page.nextPageToken;
    }
  });

  test("is whole without the summaries that take too long, which it names with what to narrow", async () => {
    await using searching = await serve({ database: { statementTimeoutMs: 150 } });
    const slow = Array.from("abcdefghij", (letter) => `data.note = "*${letter}*j*"`).join(" ");
    const page = await searching.search.searchEvents({ filter: slow, pageSize: 10 });
    expect(page.events).toHaveLength(10);
    expect(page).toMatchObject({
      facets: [],
      missing: [Summary.FACETS, Summary.HISTOGRAM, Summary.TOTAL].map((summary) => ({
        summary,
        reason: "QUERY_TIMEOUT",
      })),
    });
    for (const { message } of page.missing) {
      expect(message).toMatch(/longer than a statement may.*time >= now-1d.*condition that an index serves/);
    }
  });

  test("is whole without a summary that fails, and the others are there", async () => {
    await using searching = await serve({ facetExtensions: ["no\0name"] });
    const page = await searching.search.searchEvents({ pageSize: 10 });
    expect(page.events).toHaveLength(10);
    expect(page).toMatchObject({ total: { capped: true }, histogram: {}, facets: [] });
    expect(page.missing).toMatchObject([
      {
        summary: Summary.FACETS,
        reason: "INTERNAL",
        message: expect.stringMatching(/^Unexpected error/) as string,
      },
    ]);
    expect(searching.errors).toHaveLength(2);
  });

  test("leaves out the summaries that there is no turn for", async () => {
    await using searching = await serve({ turns: { concurrency: 1, queue: 0 } });
    const page = await searching.search.searchEvents({ pageSize: 10 });
    expect(page.events).toHaveLength(10);
    expect(page.missing.map(({ reason }) => reason)).toEqual(Array(3).fill("SEARCH_CAPACITY"));
    expect(searching.statements).toHaveLength(1);
  });

  test("that takes too long says what to narrow", async () => {
    await using searching = await serve({ database: { statementTimeoutMs: 500 } });
    await using _ = await lockEvents();
    const refusal = await refusalOf(searching.search.searchEvents({ filter: "id = x" }));
    expect(refusal).toMatchObject({ code: Code.DeadlineExceeded, reason: "QUERY_TIMEOUT" });
    expect(refusal.message).toContain("bound the time, such as time >= now-1d.");
  });

  test("fails where its page does, and what still runs of it ends", async () => {
    await using searching = await serve({ database: { statementTimeoutMs: 60_000 } });
    await using _ = await lockEvents();
    const call = refusalOf(searching.search.searchEvents({}));
    await untilActive(4);
    const { rowCount } = await observer.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1 and state = 'active' and query like 'select source%'`,
      [APPLICATION],
    );
    expect(rowCount).toBe(1);
    expect(await call).toMatchObject({ code: Code.Unavailable, reason: "DATABASE_UNAVAILABLE" });
    await untilActive(0);
  });

  test("that is cancelled ends its statements in PostgreSQL", async () => {
    await using searching = await serve({ database: { statementTimeoutMs: 60_000 } });
    await using _ = await lockEvents();
    const gone = new AbortController();
    const call = searching.search.searchEvents({}, { signal: gone.signal });
    await untilActive(4);
    gone.abort();
    await expect(call).rejects.toMatchObject({ code: Code.Canceled });
    await untilActive(0);
    const late = refusalOf(searching.search.searchEvents({}, { timeoutMs: 300 }));
    expect((await late).code).toBe(Code.DeadlineExceeded);
    await untilActive(0);
  });

  test("runs twice at once, and a third waits for its turn as long as it may", async () => {
    await using searching = await serve({ database: { statementTimeoutMs: 60_000 }, turns: { waitMs: 300 } });
    await using stack = new AsyncDisposableStack();
    const lock = stack.use(await lockEvents());
    const two = Promise.all([searching.search.searchEvents({}), searching.search.searchEvents({})]);
    await untilActive(8);
    expect(await refusalOf(searching.search.searchEvents({}))).toMatchObject({
      code: Code.Unavailable,
      reason: "SEARCH_CAPACITY",
    });
    await lock[Symbol.asyncDispose]();
    stack.move();
    for (const { events, missing } of await two) expect([events.length, missing]).toEqual([50, []]);
  });
});
