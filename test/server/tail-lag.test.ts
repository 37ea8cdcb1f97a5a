import { once } from "node:events";
import { Agent, type ClientRequest, request } from "node:http";
import * as http2 from "node:http2";
import { Code } from "@connectrpc/connect";
import { afterEach, describe, expect, test, vi } from "vitest";

import { OnLag } from "#gen/weir/v1/tail_pb.ts";
import { before, retirePartitions } from "#postgres/retention.ts";

import { refusalOf } from "./clients.ts";
import { openTail, placeOf, storedPlace, useTails } from "./tailing.ts";

/** The smallest ring there may be: 256 events without data. */
const suite = useTails({
  env: {
    WEIR_TAIL_RING: "1MiB",
    WEIR_TAIL_STREAMS: "1200",
    WEIR_MAX_STREAMS: "1300",
    WEIR_HEADER_TIMEOUT: "1s",
  },
});
const cleanUp: (() => void)[] = [];
afterEach(async () => {
  for (const each of cleanUp.splice(0)) each();
  // A slot that is not given back would be missed by the tests after it.
  const isFree = async (): Promise<boolean> =>
    (await suite.metric("weir_tail_streams")) + (await suite.metric("weir_tail_ring_size")) === 0;
  await vi.waitUntil(isFree, { timeout: 20_000 });
});

async function storeMany(source: string, count: number, size = 0): Promise<readonly string[]> {
  const places: string[] = [];
  for (let done = 0; done < count; done += 2_000) {
    const part = Math.min(2_000, count - done);
    const data = size > 0 ? { data: Buffer.alloc(size, "x") } : {};
    const stored = await suite.store(
      ...Array.from({ length: part }, (_, index) => ({ source, partition: index % 3, ...data })),
    );
    places.push(...stored.map(storedPlace));
  }
  return places;
}

const ENVELOPE = Buffer.alloc(5);

/** The body of a request for a tail, in JSON. */
function bodyOf(message: object): Buffer {
  const json = Buffer.from(JSON.stringify(message));
  const envelope = Buffer.from(ENVELOPE);
  envelope.writeUInt32BE(json.length, 1);
  return Buffer.concat([envelope, json]);
}

const PATH = "/weir.v1.TailService/TailEvents";
const headers = (): Record<string, string> => ({
  authorization: `Bearer ${suite.token}`,
  "content-type": "application/connect+json",
});

/** A tail over HTTP/1.1 whose client takes the head of the answer and nothing more. */
async function openStalled(message: object = {}): Promise<ClientRequest> {
  const call = request(`${suite.weir.baseUrl}${PATH}`, {
    method: "POST",
    agent: new Agent(),
    headers: headers(),
  });
  call.on("error", () => undefined);
  call.end(bodyOf(message));
  const [response] = (await once(call, "response")) as [NodeJS.ReadableStream];
  response.on("error", () => undefined);
  response.pause();
  return call;
}

/** The same over HTTP/2. */
async function openStalledH2(
  session: http2.ClientHttp2Session,
  filter: string,
  more: object = {},
): Promise<http2.ClientHttp2Stream> {
  if (session.listenerCount("error") === 0) session.on("error", () => undefined);
  const stream = session.request({ ...headers(), ":method": "POST", ":path": PATH });
  stream.on("error", () => undefined);
  stream.end(bodyOf({ filter, withData: true, ...more }));
  await once(stream, "response");
  stream.pause();
  return stream;
}

describe("a tail that is slow", () => {
  test.each([
    ["Connect binary", 0],
    ["gRPC", 0],
    ["Connect binary", 5_000],
  ] as const)(
    "gets every event late and in order, by %s, with payloads of %d bytes",
    async (protocol, size) => {
      const source = `/slow/${protocol.replace(" ", "")}/${size}`;
      const filter = `source = "${source}"`;
      await using tail = await openTail(suite.clientsBy(protocol), { filter, withData: true });
      const expected = await storeMany(source, 4_000, size);
      const seen = (await tail.events(expected.length)).map(placeOf);
      for (const partition of ["0", "1", "2"]) {
        const own = (places: readonly string[]): string[] =>
          places.filter((place) => place.startsWith(`${partition}:`));
        expect(own(seen)).toEqual(own(expected));
      }
      const [next] = await storeMany(source, 1);
      expect((await tail.events(1)).map(placeOf)).toEqual([next]);
    },
  );

  test("reads the store once the ring has moved on", async () => {
    const before = await suite.metric('weir_tail_events_total{source="store"}');
    await using tail = await openTail(suite.clientsBy("gRPC"), { filter: "source = /store", withData: true });
    const expected = await storeMany("/store", 4_000, 2_000);
    expect((await tail.events(4_000)).map(placeOf).toSorted()).toEqual([...expected].toSorted());
    // How many depends on how much is buffered on the way.
    expect(await suite.metric('weir_tail_events_total{source="store"}')).toBeGreaterThan(before);
  });

  test("is moved to the newest where it asked for that, with a gap that says what it missed", async () => {
    // Of HTTP/2's windows little is on its way.
    await using tail = await openTail(suite.clientsBy("gRPC"), {
      filter: "source = /skip",
      onLag: OnLag.SKIP,
      withData: true,
    });
    const { cursor } = tail;
    const missed = await storeMany("/skip", 16_000, 1_000);
    let gap = await tail.next();
    const before: string[] = [];
    for (; gap.case === "batch"; gap = await tail.next()) before.push(...gap.value.events.map(placeOf));
    if (gap.case !== "gap") throw new Error(`not expected: ${String(gap.case)}`);
    expect(gap.value.reason).toBe("LAG");
    // It was moved while they were being stored; what was stored since comes after.
    const since = 16_000 - before.length - Number(gap.value.missed);
    expect(Number(gap.value.missed)).toBeGreaterThan(10_000);
    const after = (await tail.events(since)).map(placeOf);
    const [next] = await storeMany("/skip", 1);
    expect((await tail.events(1)).map(placeOf)).toEqual([next]);
    // What was passed by is there to be read, from where the gap begins.
    await using reader = await openTail(suite.clients, {
      filter: "source = /skip",
      start: { case: "cursor", value: gap.value.fromCursor },
    });
    const read = (await reader.events(16_000 - before.length)).map(placeOf);
    expect(read).toEqual(expect.arrayContaining(after));
    expect([...before, ...read].toSorted()).toEqual([...missed].toSorted());
    // Who comes back from far behind is moved too, and who is a little behind is not.
    await using back = await openTail(suite.clients, {
      start: { case: "cursor", value: cursor },
      onLag: OnLag.SKIP,
    });
    expect((await back.next()).case).toBe("gap");
  }, 60_000);

  test("reads what it missed where that is little, though it may be moved", async () => {
    await using tail = await openTail(suite.clients, { filter: "source = /little" });
    const { cursor } = tail;
    const expected = await storeMany("/little", 3_000);
    await using back = await openTail(suite.clients, {
      filter: "source = /little",
      start: { case: "cursor", value: cursor },
      onLag: OnLag.SKIP,
    });
    expect((await back.events(3_000)).map(placeOf).toSorted()).toEqual([...expected].toSorted());
  });

  test("costs the server no memory, be they a thousand, and its slot returns when it vanishes", async () => {
    const source = "/stalled";
    const filter = `source = "${source}"`;
    await using witness = await openTail(suite.clients, { filter });
    const sessions = Array.from({ length: 5 }, () => http2.connect(suite.weir.baseUrl));
    const calls = await Promise.all([
      ...Array.from({ length: 100 }, () => openStalled({ filter, withData: true })),
      ...sessions.flatMap((session) => Array.from({ length: 180 }, () => openStalledH2(session, filter))),
    ]);
    cleanUp.push(() => [...calls, ...sessions].forEach((each) => each.destroy()));
    expect(await suite.metric("weir_tail_streams")).toBe(1_001);
    let [early, most] = [0, 0];
    for (let round = 0; round < 12; round += 1) {
      // Each round is 2 MB for every one of them.
      const places = await storeMany(source, 200, 10_000);
      expect((await witness.events(200)).map(placeOf).toSorted()).toEqual([...places].toSorted());
      const memory = await suite.metric("process_memory_usage");
      // What their sockets take comes first.
      if (round < 6) early = Math.max(early, memory);
      else most = Math.max(most, memory);
    }
    expect(most - early).toBeLessThan(100_000_000);
  }, 120_000);
});

describe("the place of a tail is given up", () => {
  test("when its client vanishes, over HTTP/1.1", async () => {
    const calls = await Promise.all([openStalled(), openStalled()]);
    expect(await suite.metric("weir_tail_streams")).toBe(2);
    calls[0].destroy();
    await expect.poll(() => suite.metric("weir_tail_streams")).toBe(1);
    calls[1].destroy();
    await expect.poll(() => suite.metric("weir_tail_streams")).toBe(0);
  });

  test.each([
    ["by RST_STREAM", (stream: http2.ClientHttp2Stream) => stream.close(http2.constants.NGHTTP2_CANCEL)],
    ["with its connection", (stream: http2.ClientHttp2Stream) => stream.session?.destroy()],
  ])("when its client vanishes while it is stalled, over HTTP/2, %s", async (_, vanish) => {
    const session = http2.connect(suite.weir.baseUrl);
    cleanUp.push(() => session.destroy());
    const stream = await openStalledH2(session, "source = /h2");
    await storeMany("/h2", 200, 10_000);
    expect(await suite.metric("weir_tail_streams")).toBe(1);
    vanish(stream);
    await expect.poll(() => suite.metric("weir_tail_streams"), { timeout: 10_000 }).toBe(0);
  });

  test("when its client vanishes while nothing is to be sent but heartbeats, over HTTP/2", async () => {
    const session = http2.connect(suite.weir.baseUrl);
    await openStalledH2(session, "source = /h2/idle", { heartbeatInterval: "1s" });
    session.destroy();
    await expect.poll(() => suite.metric("weir_tail_streams"), { timeout: 10_000 }).toBe(0);
  });

  test("when it is refused", async () => {
    await refusalOf(suite.clients.tail.tailEvents({ filter: "typ = x" })[Symbol.asyncIterator]().next());
    expect(await suite.metric("weir_tail_streams")).toBe(0);
  });
});

describe("a place from which retention has removed events", () => {
  test("is refused with the oldest cursor that works, or is a gap where that was asked for", async () => {
    const old = {
      acceptTime: Date.now() - 200 * 86_400_000,
      time: new Date(Date.now() - 200 * 86_400_000).toISOString(),
    };
    await using tail = await openTail(suite.clients, { filter: "source = /old" });
    const { cursor } = tail;
    await suite.store(
      { source: "/old", partition: 6, ...old },
      { source: "/old", partition: 6 },
      { source: "/old", partition: 6, ...old },
      { source: "/old", partition: 6 },
      { source: "/old", partition: 7 },
    );
    expect((await tail.events(5)).map(placeOf)).toHaveLength(5);
    // The ring must not reach back to it.
    await storeMany("/other", 1_000);
    const now = new Date();
    // As the worker does; the old ones are in the default partition until their month is made.
    const month = old.time.slice(0, 7);
    const { ensureMonth } = await import("#postgres/partitions.ts");
    await ensureMonth(suite.db, month);
    const plan = {
      cutoff: before(now, { months: 5, days: 0 }),
      loggedSince: before(now, { months: 0, days: 8 }),
      drop: true,
    };
    expect((await retirePartitions(suite.db, plan)).map(({ outcome }) => outcome)).toContain("dropped");

    const start = { case: "cursor", value: cursor } as const;
    const expired = async (request: object) =>
      refusalOf(suite.clients.tail.tailEvents(request)[Symbol.asyncIterator]().next());
    // How far retention has come is looked up every few seconds.
    await expect
      .poll(async () => (await expired({ start }).catch(() => undefined))?.reason, { timeout: 15_000 })
      .toBe("CURSOR_EXPIRED");
    const refusal = await expired({ start });
    expect(refusal.code).toBe(Code.OutOfRange);
    const oldest = refusal.metadata["oldest_cursor"]!;
    await using works = await openTail(suite.clients, {
      filter: "source = /old",
      start: { case: "cursor", value: oldest },
    });
    // Of partition 6 what was removed reaches up to the third; of 7 nothing is.
    expect((await works.events(2)).map(placeOf).toSorted()).toEqual(["6:3", "7:0"]);

    await using skipping = await openTail(suite.clients, {
      filter: "source = /old",
      start,
      onLag: OnLag.SKIP,
    });
    const gap = await skipping.next();
    if (gap.case !== "gap") throw new Error(`not expected: ${String(gap.case)}`);
    expect([gap.value.reason, gap.value.missed, gap.value.cursor]).toEqual(["EXPIRED", 3n, oldest]);
    expect((await skipping.events(2)).map(placeOf).toSorted()).toEqual(["6:3", "7:0"]);
  }, 60_000);
});
