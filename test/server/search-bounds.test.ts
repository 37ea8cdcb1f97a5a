import { Code } from "@connectrpc/connect";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";

import { Summary } from "#gen/weir/v1/search_pb.ts";

import { untilReady } from "../../dev/child.ts";
import { startWeir, type Weir } from "../support/weir.ts";
import { createClients, refusalOf } from "./clients.ts";

/** One statement. */
const PAGE = { summaries: [Summary.NONE] };

let weir: Weir;
beforeAll(async () => {
  weir = await startWeir({
    env: {
      WEIR_SEARCH_CONCURRENCY: "1",
      WEIR_SEARCH_QUEUE: "1",
      WEIR_SEARCH_QUEUE_WAIT: "2s",
      WEIR_READ_DATABASE_STATEMENT_TIMEOUT: "4s",
    },
  });
});
afterAll(() => weir[Symbol.asyncDispose]());

/** A value on the metrics page; undefined where it is not there yet. */
async function metric(line: string): Promise<number | undefined> {
  const page = await (await fetch(`${weir.baseUrl}/metrics`)).text();
  const value = page
    .split("\n")
    .find((each) => each.startsWith(`${line} `))
    ?.slice(line.length + 1);
  return value === undefined ? undefined : Number(value);
}

async function untilMetric(line: string, value: number): Promise<void> {
  await untilReady(weir.server, async () => (await metric(line)) === value, { timeoutMs: 1_800 });
}

test("a read that hangs is ended, those behind it are refused in time, and the next one is served", async () => {
  const { search } = createClients(weir.baseUrl, await weir.token());
  const blocker = new pg.Client({ connectionString: weir.databaseUrl });
  await blocker.connect();
  try {
    await blocker.query("begin");
    await blocker.query("lock table events.event in access exclusive mode");
    const running = refusalOf(search.searchEvents(PAGE));
    await untilMetric('weir_database_connections{pool="read",state="used"}', 1);
    const waiting = refusalOf(search.getEvent({ name: "events/a:b" }));
    await untilMetric("weir_search_waiting", 1);

    const [overflow, late] = [await refusalOf(search.searchEvents(PAGE)), await waiting];
    for (const refusal of [overflow, late]) {
      expect(refusal).toMatchObject({
        code: Code.Unavailable,
        reason: "SEARCH_CAPACITY",
        retryAfterMs: 1_000,
      });
      expect(refusal.metadata).toEqual({ setting: "WEIR_SEARCH_CONCURRENCY" });
    }
    expect(await running).toMatchObject({ code: Code.DeadlineExceeded, reason: "QUERY_TIMEOUT" });
  } finally {
    await blocker.end();
  }

  expect((await search.searchEvents(PAGE)).events).toEqual([]);
  const count = (method: string, outcome: string): Promise<number | undefined> =>
    metric(`weir_search_duration_count{method="${method}",outcome="${outcome}"}`);
  expect(await count("search", "QUERY_TIMEOUT")).toBe(1);
  expect(await count("search", "SEARCH_CAPACITY")).toBe(1);
  expect(await count("get", "SEARCH_CAPACITY")).toBe(1);
  expect(await count("search", "ok")).toBe(1);
});

test("a read whose deadline comes first gives its place back", async () => {
  const { search } = createClients(weir.baseUrl, await weir.token());
  const blocker = new pg.Client({ connectionString: weir.databaseUrl });
  await blocker.connect();
  try {
    await blocker.query("begin");
    await blocker.query("lock table events.event in access exclusive mode");
    const running = search.searchEvents(PAGE);
    await untilMetric('weir_database_connections{pool="read",state="used"}', 1);
    const impatient = refusalOf(search.searchEvents(PAGE, { timeoutMs: 1_500 }));
    await untilMetric("weir_search_waiting", 1);
    expect((await impatient).code).toBe(Code.DeadlineExceeded);
    await untilMetric("weir_search_waiting", 0);
    await blocker.query("rollback");
    expect((await running).events).toEqual([]);
  } finally {
    await blocker.end();
  }
});
