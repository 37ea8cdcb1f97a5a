import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";

import { type StoredEvent } from "#core/event.ts";
import { type OnLag } from "#gen/weir/v1/tail_pb.ts";
import { insertEvents } from "#postgres/events.ts";
import { transaction } from "#postgres/tx.ts";

import { dataOf } from "../../sdk/cloud-event.ts";
import { sketchEvent } from "../postgres/fixture.ts";
import { PROTOCOLS, refusalOf } from "./clients.ts";
import { groupOf, openTail, placeOf, storedPlace, type TailRequest, useTails } from "./tailing.ts";

const suite = useTails();
const seconds = (count: number) => ({ heartbeatInterval: { seconds: BigInt(count) } });
const text = (data: string): Uint8Array => new TextEncoder().encode(data);

/** Those of a partition, in their order. */
function byPartition(places: readonly string[]): Record<string, readonly string[]> {
  return Object.groupBy(places, (place) => place.split(":")[0]!) as Record<string, readonly string[]>;
}

describe("TailEvents", () => {
  test.each(PROTOCOLS)("opens at once and then shows what is stored, by %s", async (protocol) => {
    const clients = suite.clientsBy(protocol);
    await using plain = await openTail(clients);
    await using withData = await openTail(clients, { withData: true });
    const data = text('{"n": 1.00}');
    const [event] = await suite.store({
      datacontenttype: "application/json",
      data,
      extensions: new Map([["severitytext", "ERROR"]]),
    });
    const [shown] = await plain.events(1);
    expect(shown).toMatchObject({
      cloudEvent: { id: event!.event.id, source: event!.event.source, data: { case: undefined } },
      position: event!.position,
      severityNumber: 17,
      dataSize: 11n,
      principal: "alice",
    });
    const [whole] = await withData.events(1);
    expect(dataOf(whole!.cloudEvent)).toEqual(data);
  });

  test("sends headers that keep caches and proxies from holding it back", async () => {
    const gone = new AbortController();
    const response = await fetch(`${suite.weir.baseUrl}/weir.v1.TailService/TailEvents`, {
      method: "POST",
      signal: gone.signal,
      headers: { authorization: `Bearer ${suite.token}`, "content-type": "application/connect+json" },
      body: new Uint8Array([0, 0, 0, 0, 2, 0x7b, 0x7d]),
    });
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect(response.headers.get("x-accel-buffering")).toBe("no");
    gone.abort();
  });

  test("goes on from the cursor of any message to each event exactly once, and in the order of its partition", async () => {
    const filter = "source = /resumed";
    await using tail = await openTail(suite.clients, { filter });
    const cursors = [{ cursor: tail.cursor, before: 0 }];
    const stored: StoredEvent[] = [];
    for (let round = 0; round < 12; round += 1) {
      // Times are as wrong as they can be: the order is that of the log.
      const sketches = Array.from({ length: 25 }, (_, index) => ({
        source: index % 5 === 0 ? "/other" : "/resumed",
        partition: (index * 7 + round) % 3,
        time: new Date(Date.now() + ((index * 7_919 + round) % 7_200_000) - 3_600_000).toISOString(),
        acceptTime: Date.now() - ((index * 31) % 50),
      }));
      stored.push(...(await suite.store(...sketches)));
    }
    const expected = stored.filter(({ event }) => event.source === "/resumed").map(storedPlace);
    const seen: string[] = [];
    while (seen.length < expected.length) {
      const message = await tail.next();
      if (message.case !== "batch") throw new Error(`not expected: ${String(message.case)}`);
      seen.push(...message.value.events.map(placeOf));
      cursors.push({ cursor: message.value.cursor, before: seen.length });
    }
    expect(byPartition(seen)).toEqual(byPartition(expected));
    for (const { cursor, before } of cursors) {
      await using again = await openTail(suite.clients, { filter, start: { case: "cursor", value: cursor } });
      const rest = (await again.events(expected.length - before)).map(placeOf);
      expect(rest.toSorted()).toEqual(seen.slice(before).toSorted());
      expect(byPartition([...seen.slice(0, before), ...rest])).toEqual(byPartition(expected));
    }
    expect(cursors.length).toBeGreaterThan(3);
  });

  test("takes a cursor with another filter", async () => {
    await using tail = await openTail(suite.clients, { filter: "type = nothing" });
    await suite.store({ type: "first" }, { type: "second" });
    await using other = await openTail(suite.clients, {
      filter: "type = second",
      start: { case: "cursor", value: tail.cursor },
    });
    expect((await other.events(1))[0]?.cloudEvent?.type).toBe("second");
  });

  test("begins with the newest that match, oldest first, and goes on", async () => {
    const stored = await suite.store(
      ...Array.from({ length: 40 }, (_, index) => ({
        source: index % 2 === 0 ? "/last" : "/noise",
        partition: index % 3,
        acceptTime: Date.now() - 40_000 + index * 1_000,
      })),
    );
    const expected = stored.filter(({ event }) => event.source === "/last").map(storedPlace);
    const request = (last: number): TailRequest => ({
      filter: "source = /last",
      start: { case: "last", value: last },
    });
    await using tail = await openTail(suite.clients, request(5));
    expect((await tail.events(5)).map(placeOf)).toEqual(expected.slice(-5));
    const [next] = await suite.store({ source: "/last" });
    expect((await tail.events(1)).map(placeOf)).toEqual([storedPlace(next!)]);
    await using all = await openTail(suite.clients, request(1_000));
    expect((await all.events(21)).map(placeOf).toSorted()).toEqual(
      [...expected, storedPlace(next!)].toSorted(),
    );
  });

  test("begins with what was accepted at a time or later, whatever the times of the events", async () => {
    const base = Date.now() - 3_000_000;
    const stored = await suite.store(
      ...Array.from({ length: 60 }, (_, index) => ({
        source: "/timed",
        partition: index % 3,
        // Servers' clocks differ by some seconds.
        acceptTime: base + index * 1_000 + ((index * 13) % 7) * 1_000,
        time: new Date(base - index * 60_000).toISOString(),
      })),
    );
    const from = base + 30_000;
    const expected = stored.filter(({ acceptTime }) => acceptTime >= from).map(storedPlace);
    await using tail = await openTail(suite.clients, {
      filter: "source = /timed",
      start: { case: "fromTime", value: timestampFromMs(from) },
    });
    expect((await tail.events(expected.length)).map(placeOf).toSorted()).toEqual(expected.toSorted());
    const [next] = await suite.store({ source: "/timed" });
    expect((await tail.events(1)).map(placeOf)).toEqual([storedPlace(next!)]);
  });

  test("says that it is alive, with a cursor past what does not match", async () => {
    await using tail = await openTail(suite.clients, { filter: "type = silent", ...seconds(1) });
    const { cursor } = tail;
    const [noise] = await suite.store({ type: "noise" });
    const began = performance.now();
    const beats = [await tail.heartbeat(), await tail.heartbeat()];
    expect(performance.now() - began).toBeGreaterThan(900);
    expect(performance.now() - began).toBeLessThan(5_000);
    expect(Math.abs(Number(beats[0]!.time!.seconds) - Date.now() / 1_000)).toBeLessThan(10);
    expect(beats[1]!.cursor).not.toBe(cursor);
    await using before = await openTail(suite.clients, { start: { case: "cursor", value: cursor } });
    expect((await before.events(1)).map(placeOf)).toEqual([storedPlace(noise!)]);
    await using after = await openTail(suite.clients, { start: { case: "cursor", value: beats[1]!.cursor } });
    const [next] = await suite.store({ type: "next" });
    expect((await after.events(1)).map(placeOf)).toEqual([storedPlace(next!)]);
  });

  test("waits for no transaction of others, however long it is open", async () => {
    await using tail = await openTail(suite.clients, { filter: "source = /beside" });
    const other = await suite.db.pool.connect();
    try {
      await other.query("begin");
      await other.query(
        `insert into events.event (source, id, type, occurred_at, extensions, tags, terms, data_size, receive_time, principal, topic, partition, "offset")
         values ('/beside', 'open', 't', now(), '{}', '{}', '{}', 0, now(), '', 'another', 0, 1)`,
      );
      const stored = await suite.store({ source: "/beside" }, { source: "/beside", partition: 1 });
      expect((await tail.events(2)).map(placeOf).toSorted()).toEqual(stored.map(storedPlace).toSorted());
    } finally {
      await other.query("rollback");
      other.release();
    }
  });

  test("shows a row once its checkpoint has passed it, and not before", async () => {
    await using tail = await openTail(suite.clients, { filter: "source = /passed", ...seconds(1) });
    const { topic } = suite.weir;
    const row = sketchEvent({ source: "/passed", topic, partition: 9, offset: 0n });
    await transaction(suite.db, (tx) => insertEvents(tx, [row]));
    await tail.heartbeat();
    await suite.db.pool.query(
      `insert into consumer.checkpoint (group_id, topic, partition, owner, epoch, next_offset, high_water)
       values ($1, $2, 9, 'test', 1, 1, 1)`,
      [groupOf(suite.weir), topic],
    );
    expect((await tail.events(1)).map(placeOf)).toEqual([storedPlace(row)]);
  });

  test("sends large events one by one, and none of them is too large", async () => {
    await using tail = await openTail(suite.clients, { filter: "source = /large", withData: true });
    const large = { source: "/large", data: text("x".repeat(700_000)) };
    await suite.store(large, large, { ...large, data: text("y".repeat(1_000)) });
    const sizes: number[][] = [];
    while (sizes.flat().length < 3) {
      const message = await tail.next();
      if (message.case === "batch") sizes.push(message.value.events.map(({ dataSize }) => Number(dataSize)));
    }
    expect(sizes).toEqual([[700_000], [700_000], [1_000]]);
  });

  test("says all that is wrong before it begins", async () => {
    const refused = (request: TailRequest) =>
      refusalOf(suite.clients.tail.tailEvents(request)[Symbol.asyncIterator]().next());
    const all = await refused({
      filter: "typ = x",
      start: { case: "cursor", value: "made-up" },
      onLag: 7 as OnLag,
      heartbeatInterval: { seconds: 61n },
    });
    expect(all.code).toBe(Code.InvalidArgument);
    expect(all.violations.map(({ field, reason }) => `${field} ${String(reason)}`)).toEqual([
      "filter INVALID_FILTER",
      "cursor INVALID_CURSOR",
      "on_lag INVALID_REQUEST",
      "heartbeat_interval INVALID_REQUEST",
    ]);
    for (const value of [0, -1, 1_001])
      expect((await refused({ start: { case: "last", value } })).violations).toMatchObject([
        { field: "last" },
      ]);
    const ahead = timestampFromMs(Date.now() + 600_000);
    expect((await refused({ start: { case: "fromTime", value: ahead } })).violations).toMatchObject([
      { field: "from_time" },
    ]);
  });
});
