import { randomBytes } from "node:crypto";
import { Code } from "@connectrpc/connect";
import { SignJWT } from "jose";
import { expect, test } from "vitest";

import { type Event } from "#gen/weir/v1/event_pb.ts";
import { Stage } from "#gen/weir/v1/event_pb.ts";

import { createProxy, openDatabase } from "../postgres/fixture.ts";
import { createTestDatabase } from "../support/database.ts";
import { startWeir, type Weir } from "../support/weir.ts";
import { type Clients, createClients, refusalOf } from "./clients.ts";
import { sketch, toMessage } from "./events.ts";
import { createStore, groupOf, openTail, placeOf, storedPlace, type TailRequest } from "./tailing.ts";

/** Sends events in batches, with clocks that are up to an hour wrong, and answers once they are stored. */
async function send({ ingest }: Clients, source: string, count: number): Promise<void> {
  for (let done = 0; done < count; done += 200) {
    const events = Array.from({ length: Math.min(200, count - done) }, (_, index) => {
      const time = new Date(Date.now() + (((done + index) * 7_919) % 7_200_000) - 3_600_000).toISOString();
      return toMessage(sketch({ source, subject: String(index % 20), time }));
    });
    const { results } = await ingest.batchCreateEvents(
      { events, waitFor: Stage.STORED },
      { timeoutMs: 60_000 },
    );
    for (const { outcome } of results)
      expect(outcome).toMatchObject({ case: "receipt", value: { stage: Stage.STORED } });
  }
}

/** Reads a tail until it has so many events or ends, and answers the cursor to go on with. */
async function readSome(
  clients: Clients,
  request: TailRequest,
  count: number,
  into: Event[],
): Promise<string> {
  const tail = await openTail(clients, request);
  let { cursor } = tail;
  const goal = into.length + count;
  try {
    while (into.length < goal) {
      const message = await tail.next();
      if (message.case === "batch") into.push(...message.value.events);
      ({ cursor } = tail);
    }
  } catch {
    // The server has gone; the cursor of the last message is good anywhere.
  }
  await tail[Symbol.asyncDispose]();
  return cursor;
}

test("tails see each event exactly once and in order, across the end of a server and on another one", async () => {
  const secret = randomBytes(32).toString("hex");
  await using first = await startWeir({ workers: true, env: { WEIR_JWT_SECRET: secret } });
  await using second = await startWeir({
    databaseUrl: first.databaseUrl,
    env: {
      WEIR_JWT_SECRET: secret,
      WEIR_TOPIC_EVENTS: first.topic,
      WEIR_TOPIC_DEAD_LETTERS: first.deadLetterTopic,
      WEIR_PERSIST_GROUP: groupOf(first),
    },
  });
  const token = await new SignJWT({ scope: "events.read events.write" })
    .setProtectedHeader({ alg: "HS256" })
    .setSubject("alice")
    .setExpirationTime("1h")
    .sign(Buffer.from(secret));
  const clientsOf = ({ baseUrl }: Weir): Clients => createClients(baseUrl, token);
  const [one, other] = [clientsOf(first), clientsOf(second)];

  const COUNT = 4_000;
  const filter = "source = /many";
  const { cursor } = await openTail(one);
  // Each goes from server to server, at places of its own; the last ones lose the first server under their feet.
  const tails = Array.from({ length: 6 }, async (_, index) => {
    const seen: Event[] = [];
    let at = cursor;
    for (let turn = 0; seen.length < COUNT; turn += 1) {
      const most = turn < 4 ? 150 + index * 70 : COUNT;
      const isOne = turn % 2 === 0 && first.server.exit() === undefined;
      const request: TailRequest = { filter, start: { case: "cursor", value: at } };
      at = await readSome(isOne ? one : other, request, Math.min(most, COUNT - seen.length), seen).catch(
        () => at,
      );
    }
    return seen;
  });
  await send(one, "/many", COUNT / 2);
  await first.server.stop();
  await send(other, "/many", COUNT / 2);
  for (const seen of await Promise.all(tails)) {
    expect(new Set(seen.map(placeOf)).size).toBe(COUNT);
    const last = new Map<number, bigint>();
    for (const { position } of seen) {
      const { partition, offset } = position!;
      expect(offset).toBeGreaterThan(last.get(partition) ?? -1n);
      last.set(partition, offset);
    }
  }
}, 180_000);

test("while PostgreSQL is away a tail is alive, and goes on where it was; none can be opened", async () => {
  await using database = await createTestDatabase();
  await using db = openDatabase(database.url);
  await using proxy = await createProxy(database.url);
  await using weir = await startWeir({ databaseUrl: proxy.url, env: { WEIR_TAIL_STREAMS: "2" } });
  const clients = createClients(weir.baseUrl, await weir.token());
  const store = createStore(() => ({ weir, db }));
  const request: TailRequest = { heartbeatInterval: { seconds: 1n } };
  await using tail = await openTail(clients, request);
  const before = await store({}, {});
  expect((await tail.events(2)).map(placeOf)).toEqual(before.map(storedPlace));
  await proxy.cut();
  const during = await store({}, {}, {});
  await tail.heartbeat();
  await tail.heartbeat();

  // The one that there is shows where the log stands, so another one opens; with a place that it does not know it cannot.
  const opened = clients.tail
    .tailEvents({ start: { case: "last", value: 1 } })
    [Symbol.asyncIterator]()
    .next();
  expect(await refusalOf(opened)).toMatchObject({ code: Code.Unavailable, reason: "DATABASE_UNAVAILABLE" });
  await proxy.restore();
  expect((await tail.events(3)).map(placeOf)).toEqual(during.map(storedPlace));

  await using another = await openTail(clients, request);
  const third = await refusalOf(clients.tail.tailEvents({})[Symbol.asyncIterator]().next());
  expect(third).toMatchObject({ code: Code.Unavailable, reason: "TAIL_CAPACITY", retryAfterMs: 1_000 });
  expect(third.metadata).toEqual({ limit: "2", setting: "WEIR_TAIL_STREAMS" });
  const after = await store({});
  for (const each of [tail, another])
    expect((await each.events(1)).map(placeOf)).toEqual(after.map(storedPlace));

  // A server that stops says so.
  const ended = refusalOf(tail.next());
  await weir.server.stop();
  expect(await ended).toMatchObject({ code: Code.Unavailable, reason: "SHUTTING_DOWN" });
}, 120_000);
