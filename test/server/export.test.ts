import { createHash } from "node:crypto";
import { once } from "node:events";
import { Agent, request } from "node:http";
import { Code, ConnectError } from "@connectrpc/connect";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { type StoredEvent } from "#core/event.ts";
import { INCOMPLETE_TERM } from "#core/terms.ts";
import { type Event } from "#gen/weir/v1/event_pb.ts";
import { type ExportEventsResponse } from "#gen/weir/v1/search_pb.ts";
import { insertEvents } from "#postgres/events.ts";
import { transaction } from "#postgres/tx.ts";

import { openDatabase, sketchEvent } from "../postgres/fixture.ts";
import { startWeir, type Weir } from "../support/weir.ts";
import { type Clients, createClients, PROTOCOLS, refusalOf } from "./clients.ts";

const COUNT = 1_500;
const BIG = 300;
const BIG_BYTES = 700_000;

let weir: Weir;
let token: string;
let clients: Clients;
let observer: pg.Client;
beforeAll(async () => {
  weir = await startWeir({
    env: { WEIR_SEARCH_EXPORTS: "1", WEIR_SEARCH_EXPORT_STATEMENT_TIMEOUT: "30s" },
  });
  token = await weir.token({ scope: "events.read" });
  clients = createClients(weir.baseUrl, token);
  observer = new pg.Client({ connectionString: weir.databaseUrl });
  await observer.connect();
  await using database = openDatabase(weir.databaseUrl, { statementTimeoutMs: 60_000 });
  await transaction(database, (tx) => insertEvents(tx, SMALL));
  // 210 MB, in the store as they are: nothing shrinks them.
  await database.pool.query(`alter table events.event alter column data set storage external`);
  await database.pool.query(
    `insert into events.event (source, id, type, occurred_at, time_text, extensions, tags, terms, data_size, receive_time, principal,
       topic, partition, "offset", data)
     select '/big', n::text, 'big', time, to_char(time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '{}', '{}', '{${INCOMPLETE_TERM}}', ${BIG_BYTES}, '2026-11-20', '',
       'events', 1, n, convert_to(repeat(md5(n::text), ${BIG_BYTES / 32 + 1}), 'UTF8')
     from generate_series(1, ${BIG}) n, lateral (select '2026-11-20T00:00:00Z'::timestamptz + n * interval '1 second' as time)`,
  );
}, 120_000);
afterAll(async () => {
  await observer.end();
  await weir[Symbol.asyncDispose]();
});

/** Three share each moment, in two partitions; payloads up to 60 KB. */
const SMALL: readonly StoredEvent[] = Array.from({ length: COUNT }, (_, index) =>
  sketchEvent({
    id: `e${index}`,
    source: "/small",
    time: new Date(Date.UTC(2026, 10, 21, 0, 0, Math.floor(index / 3))).toISOString(),
    data: new TextEncoder().encode(`${index}`.repeat(index % 10 === 0 ? 15_000 : index % 7)),
    partition: index % 2,
    offset: BigInt(index),
  }),
);
const SMALL_ONES = { filter: "source = /small", orderBy: "time" };
const oldestFirst = SMALL.toSorted(
  (a, b) =>
    a.event.time!.seconds - b.event.time!.seconds ||
    a.position.partition - b.position.partition ||
    Number(a.position.offset - b.position.offset),
);
const idsOf = (events: readonly Event[]): string[] => events.map(({ cloudEvent }) => cloudEvent!.id);
const expectedIds = oldestFirst.map(({ event }) => event.id);
const bytesOf = ({ cloudEvent }: Event): Uint8Array => {
  const { data } = cloudEvent!;
  return data.case === "textData" ? new TextEncoder().encode(data.value) : new Uint8Array();
};

async function allOf(messages: AsyncIterable<ExportEventsResponse>): Promise<ExportEventsResponse[]> {
  const all = [];
  for await (const message of messages) all.push(message);
  return all;
}

async function metric(line: string): Promise<number> {
  const page = await (await fetch(`${weir.baseUrl}/metrics`)).text();
  const found = page.split("\n").find((each) => each.startsWith(`${line} `));
  if (found === undefined) throw new Error(`There is no ${line} on the page of metrics.`);
  return Number(found.slice(line.length + 1));
}
/** Until no export has a stream, a slot or a connection at work. */
async function untilFree(): Promise<void> {
  await expect.poll(() => metric("weir_streams_active"), { timeout: 10_000 }).toBe(0);
  await expect.poll(() => metric('weir_database_connections{pool="export",state="used"}')).toBe(0);
  expect(
    idsOf((await allOf(clients.search.exportEvents({ filter: "id = e0" }))).flatMap(({ events }) => events)),
  ).toEqual(["e0"]);
}

describe("ExportEvents", () => {
  test.each(PROTOCOLS)(
    "gives every event that matches once, in order, with its data, by %s",
    async (protocol) => {
      const { search } = createClients(weir.baseUrl, token, protocol);
      const messages = await allOf(search.exportEvents(SMALL_ONES));
      const events = messages.flatMap((message) => message.events);
      expect(idsOf(events)).toEqual(expectedIds);
      expect(events.map((event) => String(Buffer.from(bytesOf(event))))).toEqual(
        oldestFirst.map(({ event }) => String(Buffer.from(event.data!.bytes))),
      );
      expect(messages.every(({ nextPageToken }) => nextPageToken !== "")).toBe(true);
      expect(messages.length).toBeGreaterThan(3);
    },
  );

  test("goes on from the token of any message, and of a page, to each event exactly once", async () => {
    const order = { filter: "source = /small", orderBy: "time desc" };
    const newestFirst = expectedIds.toReversed();
    const messages = await allOf(clients.search.exportEvents(order));
    let before = 0;
    for (const { events, nextPageToken: pageToken } of messages) {
      before += events.length;
      const rest = await allOf(
        clients.search.exportEvents({ ...order, filter: '(source:"/small")', pageToken }),
      );
      expect(idsOf(rest.flatMap((message) => message.events))).toEqual(newestFirst.slice(before));
    }
    expect(before).toBe(COUNT);
    const { nextPageToken } = await clients.search.searchEvents({ ...order, pageSize: 7 });
    const rest = await allOf(clients.search.exportEvents({ ...order, pageToken: nextPageToken }));
    expect(idsOf(rest.flatMap(({ events }) => events))).toEqual(newestFirst.slice(7));
    const page = await clients.search.searchEvents({
      ...order,
      pageSize: 3,
      pageToken: messages[0]!.nextPageToken,
    });
    expect(idsOf(page.events)).toEqual(newestFirst.slice(messages[0]!.events.length).slice(0, 3));
  });

  test("ends at once where nothing matches, and later goes on with what came since", async () => {
    expect(await allOf(clients.search.exportEvents({ filter: "id = nowhere" }))).toEqual([]);
    const ordered = { filter: "source = /late", orderBy: "time" };
    await using database = openDatabase(weir.databaseUrl);
    const store = (id: string, minute: number): Promise<unknown> => {
      const time = new Date(Date.UTC(2026, 10, 22, 0, minute)).toISOString();
      const late = sketchEvent({ id, source: "/late", time, offset: BigInt(10_000 + minute) });
      return transaction(database, (tx) => insertEvents(tx, [late]));
    };
    await store("first", 1);
    const [message] = await allOf(clients.search.exportEvents(ordered));
    await store("second", 2);
    const since = await allOf(clients.search.exportEvents({ ...ordered, pageToken: message!.nextPageToken }));
    expect(since.map(({ events }) => idsOf(events))).toEqual([["second"]]);
  });

  test("says all that is wrong before it begins", async () => {
    const next = (request: object): Promise<unknown> =>
      clients.search.exportEvents(request)[Symbol.asyncIterator]().next();
    const refusal = await refusalOf(next({ filter: "typ = x", orderBy: "id", pageToken: "made-up" }));
    expect(refusal.code).toBe(Code.InvalidArgument);
    expect(refusal.violations.map(({ field }) => field)).toEqual(["filter", "order_by", "page_token"]);
    const { nextPageToken: pageToken } = await clients.search.searchEvents({ pageSize: 1 });
    expect(await refusalOf(next({ filter: "id = x", pageToken }))).toMatchObject({
      reason: "INVALID_PAGE_TOKEN",
    });
  });

  test("is refused where as many run as may, and has a place once one has ended or was cancelled", async () => {
    const gone = new AbortController();
    const running = clients.search
      .exportEvents({ filter: "type = big" }, { signal: gone.signal })
      [Symbol.asyncIterator]();
    expect((await running.next()).done).toBe(false);
    const refusal = await refusalOf(clients.search.exportEvents({})[Symbol.asyncIterator]().next());
    expect(refusal).toMatchObject({
      code: Code.Unavailable,
      reason: "STREAM_CAPACITY",
      retryAfterMs: 10_000,
    });
    expect(refusal.metadata).toEqual({ setting: "WEIR_SEARCH_EXPORTS" });
    gone.abort();
    await expect(running.next()).rejects.toMatchObject({ code: Code.Canceled });
    await untilFree();
  });

  test("that is cancelled while it waits for PostgreSQL ends its statement there", async () => {
    const blocker = new pg.Client({ connectionString: weir.databaseUrl });
    await blocker.connect();
    const active = async (): Promise<number> => {
      const { rows } = await observer.query<{ count: number }>(
        "select count(*)::int as count from pg_stat_activity where application_name = 'weir server export' and state = 'active'",
      );
      return rows[0]!.count;
    };
    await blocker.query("begin");
    await blocker.query("lock table events.event in access exclusive mode");
    try {
      const gone = new AbortController();
      const waiting = clients.search.exportEvents({}, { signal: gone.signal })[Symbol.asyncIterator]().next();
      await expect.poll(active, { timeout: 10_000 }).toBe(1);
      gone.abort();
      await expect(waiting).rejects.toBeInstanceOf(ConnectError);
      await expect.poll(active, { timeout: 10_000 }).toBe(0);
    } finally {
      await blocker.end();
    }
    await untilFree();
  });

  test("takes no more memory, however much there is", async () => {
    const hash = (bytes: Uint8Array): string => createHash("md5").update(bytes).digest("hex");
    // The first third warms the process up; what it takes by then must do for the rest.
    let [seen, early, most] = [0, 0, 0];
    for await (const { events } of clients.search.exportEvents({ filter: "type = big", orderBy: "time" })) {
      for (const event of events) {
        seen += 1;
        const block = createHash("md5").update(event.cloudEvent!.id).digest("hex");
        expect(hash(bytesOf(event))).toBe(hash(Buffer.from(block.repeat(BIG_BYTES / 32 + 1))));
      }
      const memory = seen % 20 === 0 ? await metric("process_memory_usage") : 0;
      if (seen <= BIG / 3) early = Math.max(early, memory);
      else most = Math.max(most, memory);
    }
    expect(seen).toBe(BIG);
    expect(most).toBeGreaterThan(0);
    expect(most - early).toBeLessThan(60_000_000);
  }, 120_000);

  test("holds back for a reader that stands still, and gives its place up when that goes away", async () => {
    const stalled = await openStalled();
    let [last, same] = ["", 0];
    const repeats = async (): Promise<number> => {
      const { rows } = await observer.query<{ at: string }>(
        "select max(query_start)::text as at from pg_stat_activity where application_name = 'weir server export'",
      );
      const { at } = rows[0]!;
      same = at === last ? same + 1 : 0;
      last = at;
      return same;
    };
    // Without it, the next statement follows the one before within a few milliseconds.
    await expect.poll(repeats, { interval: 50, timeout: 20_000 }).toBeGreaterThan(20);
    expect(await metric("weir_streams_active")).toBe(1);
    expect(await metric('weir_database_connections{pool="export",state="used"}')).toBe(0);
    stalled.destroy();
    await untilFree();
  });
});

/** An export whose reader takes the head of the answer and nothing more. */
async function openStalled() {
  const message = Buffer.from(JSON.stringify({ filter: "type = big" }));
  const envelope = Buffer.alloc(5);
  envelope.writeUInt32BE(message.length, 1);
  const call = request(`${weir.baseUrl}/weir.v1.SearchService/ExportEvents`, {
    method: "POST",
    agent: new Agent(),
    headers: { authorization: `Bearer ${token}`, "content-type": "application/connect+json" },
  });
  call.on("error", () => {});
  call.end(Buffer.concat([envelope, message]));
  const [response] = (await once(call, "response")) as [NodeJS.ReadableStream];
  response.pause();
  return call;
}
