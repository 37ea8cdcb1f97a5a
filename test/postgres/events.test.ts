import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";

import { type StoredEvent } from "#core/event.ts";
import { dataTerms, INCOMPLETE_TERM, termsOf, wordTerms } from "#core/terms.ts";
import { parseTimestamp } from "#core/timestamp.ts";
import { type Inserted, insertEvents, occurredAt } from "#postgres/events.ts";
import { classify } from "#postgres/failures.ts";
import { getEvent, searchEvents } from "#postgres/search.ts";
import { transaction, type Tx } from "#postgres/tx.ts";

import { type EventSketch, sketchEvent, useDatabase } from "./fixture.ts";

const suite = useDatabase();
const offer = (...events: StoredEvent[]): Promise<Inserted> =>
  transaction(suite.db, (tx) => insertEvents(tx, events));
const insert = async (...events: StoredEvent[]): Promise<readonly StoredEvent[]> =>
  (await offer(...events)).written;
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** A transaction that notes each statement, and how many bytes it carries. */
function measured(tx: Tx, statements: { name: string; size: number }[]): Tx {
  return {
    query: (statement: Parameters<Tx["query"]>[0]) => {
      const values: readonly Buffer[] = statement.values ?? [];
      const size = values.reduce((sum, value) => sum + value.length, 0);
      statements.push({ name: statement.name ?? statement.text, size });
      return tx.query(statement);
    },
    copy: (text, data) => {
      statements.push({ name: text.includes("savepoint") ? "first copy" : "copy", size: data.byteLength });
      return tx.copy(text, data);
    },
  } as Tx;
}

test("of events with one key the first stays, in one list and over several", async () => {
  const key = { id: "twice", time: "2026-11-30T10:00:00.123456Z" };
  const [a, b, c] = [1n, 2n, 3n].map((offset) =>
    sketchEvent({ ...key, offset, data: bytes(`data ${offset}`) }),
  );
  expect(await insert(a!, b!)).toEqual([a]);
  expect(await insert(c!)).toEqual([]);
  expect((await getEvent(suite.db, { source: "/test", id: "twice" }))?.event).toEqual(a);
});

test.each<readonly [string, Partial<EventSketch>, { readonly differs: boolean }]>([
  ["the same in every attribute", {}, { differs: false }],
  ["its time is written in another way", { time: "2026-11-30T11:00:00.5+01:00" }, { differs: false }],
  ["its time differs by nanoseconds", { time: "2026-11-30T10:00:00.500000001Z" }, { differs: true }],
  ["its payload differs", { data: bytes("other") }, { differs: true }],
  ["it has no payload", { data: undefined }, { differs: true }],
  ["its type differs", { type: "other" }, { differs: true }],
  ["it has no subject", { subject: undefined }, { differs: true }],
  ["its media type differs", { datacontenttype: "text/html" }, { differs: true }],
  ["it has a schema", { dataschema: "https://acme.example/" }, { differs: true }],
  [
    "its extensions stand in another order",
    {
      extensions: new Map([
        ["b", "2"],
        ["a", "1"],
      ]),
    },
    { differs: false },
  ],
  [
    "an extension differs",
    {
      extensions: new Map([
        ["a", "1"],
        ["b", "3"],
      ]),
    },
    { differs: true },
  ],
  ["it has an extension less", { extensions: new Map([["a", "1"]]) }, { differs: true }],
])("a repeat from elsewhere on the log is compared: %s", async (name, change, { differs }) => {
  const sketch: EventSketch = {
    offset: 1n,
    id: name,
    time: "2026-11-30T10:00:00.500Z",
    data: bytes("payload"),
    subject: "s",
    datacontenttype: "text/plain",
    extensions: new Map([
      ["a", "1"],
      ["b", "2"],
    ]),
  };
  const first = sketchEvent(sketch);
  await insert(first);
  const repeat = sketchEvent({ ...sketch, ...change, offset: 2n });
  const fresh = sketchEvent({ offset: 3n });
  // What is read again has its own row, whatever else has changed.
  expect(await offer(first, repeat, fresh)).toEqual({
    written: [fresh],
    repeated: [
      { event: first, isSamePosition: true, differs: false },
      { event: repeat, isSamePosition: false, differs },
    ],
  });
});

test("what is all new costs one statement; what is read again is copied in vain, inserted in vain, and looked up", async () => {
  const data = randomBytes(10_000);
  const events = Array.from({ length: 20 }, (_, index) => sketchEvent({ offset: BigInt(index), data }));
  const run = async (): Promise<{ name: string; size: number }[]> => {
    const statements: { name: string; size: number }[] = [];
    await transaction(suite.db, (tx) => insertEvents(measured(tx, statements), events));
    return statements;
  };
  expect((await run()).map(({ name }) => name)).toEqual(["first copy"]);
  const again = await run();
  const names = ["first copy", "rollback to savepoint copied", "events.insert", "repeats.places"];
  expect(again.map(({ name }) => name)).toEqual(names);
  // Without the payloads.
  expect(again.at(-1)!.size).toBeLessThan(20 * 200);
});

test("writers at once that offer the same keys write each of them once, and every other offer is a repeat", async () => {
  const time = "2026-11-30T10:00:00Z";
  const offers = Array.from({ length: 8 }, (_, writer) =>
    // Of 120 keys each writer has 60, in the order of the log.
    Array.from({ length: 60 }, (_key, index) =>
      sketchEvent({ id: `contended ${writer * 8 + index}`, time, partition: writer, offset: BigInt(index) }),
    ),
  );
  const results = await Promise.all(offers.map((events) => offer(...events)));
  const keys = (events: readonly StoredEvent[]): string[] => events.map(({ event }) => event.id).toSorted();
  const distinct = [...new Set(keys(offers.flat()))];
  expect(keys(results.flatMap(({ written }) => written))).toEqual(distinct);
  for (const [writer, { written, repeated }] of results.entries()) {
    expect(keys([...written, ...repeated.map(({ event }) => event)])).toEqual(keys(offers[writer]!));
    expect(repeated.filter(({ isSamePosition, differs }) => isSamePosition || differs)).toEqual([]);
  }
  const { rows } = await suite.db.pool.query(
    "select id from events.event where id like 'contended %' order by id collate \"C\"",
  );
  expect(rows.map(({ id }) => id as string)).toEqual(distinct);
});

test("an event has its terms and the form of its payload, whichever way it was inserted, and is found by the one of its id", async () => {
  const events = [1n, 2n].map((offset) =>
    sketchEvent({ offset, id: `Termed-${offset}`, data: bytes('{"amount": 12.50, "name": "Ada Lovelace"}') }),
  );
  await insert(events[0]!);
  await insert(...events); // one of them repeats, so neither is copied
  const { rows } = await suite.db.pool.query<{ id: string; terms: number[]; data_form: string }>(
    "select id, terms, data_form from events.event where terms @> $1::int4[] and id like 'Termed-%' order by id",
    [[...dataTerms(["amount"], 12.5), ...wordTerms("lovelace")]],
  );
  expect(rows).toEqual(
    events.map(({ event }) => ({ id: event.id, terms: [...termsOf(event)], data_form: "j" })),
  );
  await suite.db.pool.query("update events.event set terms = $1 where id = 'Termed-2'", [[INCOMPLETE_TERM]]);
  for (const { event } of events)
    expect((await getEvent(suite.db, { source: event.source, id: event.id }))?.event.event).toEqual(event);
});

test("the key is the instant to the microsecond, cut off and not rounded, however it is written", async () => {
  const at = (offset: bigint, time: string): StoredEvent => sketchEvent({ id: "instant", offset, time });
  const first = at(0n, "2026-11-30T10:00:00.123456Z");
  const same = [at(1n, "2026-11-30T11:00:00.123456000+01:00"), at(2n, "2026-11-30T10:00:00.123456999Z")];
  const next = at(3n, "2026-11-30T10:00:00.123457Z");
  expect(await insert(first, ...same, next)).toEqual([first, next]);
});

test("an event without a time has the key of its accept time: a redelivery meets its row, another record does not", async () => {
  const record = sketchEvent({ id: "timeless", offset: 1n, time: undefined, acceptTime: 1_796_000_000_123 });
  const other = sketchEvent({ id: "timeless", offset: 2n, time: undefined, acceptTime: 1_796_000_000_124 });
  expect(await insert(record)).toEqual([record]);
  expect(await insert(record, other)).toEqual([other]);
  const found = await getEvent(suite.db, { source: "/test", id: "timeless" });
  expect(found).toEqual({ event: record, dataSize: 0, otherTimes: [1_796_000_000_124_000n] });
});

test.each([
  ["NUL in an attribute", { subject: "a\0b" }, "22021"],
  ["NUL in an extension", { extensions: new Map([["ext", "a\0b"]]) }, "22P05"],
  ["half of a surrogate pair in an extension", { extensions: new Map([["ext", "\ud800"]]) }, "22P02"],
  ["a key longer than an index page takes", { source: randomBytes(6_000).toString("base64") }, "54000"],
  ["an accept time beyond PostgreSQL's", { acceptTime: 9_300_000_000_000_000 }, "22008"],
  ["an accept time beyond 64 bits of microseconds", { acceptTime: Number.MAX_VALUE }, "22008"],
] as const)("%s is a data error", async (_, sketch, code) => {
  const failure = await insert(sketchEvent({ offset: 1n, ...sketch })).catch((error: unknown) => error);
  expect(failure).toMatchObject({ code });
  expect(classify(failure)).toBe("data");
});

test("a month without a partition falls into the default one; without that it is an operations fault", async () => {
  const event = sketchEvent({ offset: 1n, time: "1999-12-31T23:59:59Z" });
  await suite.db.pool.query("alter table events.event detach partition events.event_default");
  const failure = await insert(event).catch((error: unknown) => error);
  await suite.db.pool.query("alter table events.event attach partition events.event_default default");
  expect(failure).toMatchObject({ code: "23514" });
  expect(classify(failure)).toBe("operations");
  expect(await insert(event)).toEqual([event]);
});

test("large payloads go in several statements of the one transaction", async () => {
  const data = randomBytes(1024 * 1024);
  const events = Array.from({ length: 20 }, (_, index) => sketchEvent({ offset: BigInt(index), data }));
  const offerAll = async (): Promise<{ inserted: Inserted; names: string[]; largest: number }> => {
    const statements: { name: string; size: number }[] = [];
    const inserted = await transaction(suite.db, (tx) => insertEvents(measured(tx, statements), events));
    const largest = Math.max(...statements.map(({ size }) => size));
    return { inserted, names: statements.map(({ name }) => name), largest };
  };
  const first = await offerAll();
  expect(first.inserted).toEqual({ written: events, repeated: [] });
  expect(first.names).toEqual(["first copy", ...Array(4).fill("copy")]);
  expect(first.largest).toBeLessThan(5 * 1024 * 1024);
  const again = await offerAll();
  expect(again.inserted.written).toEqual([]);
  expect(again.names.filter((name) => name === "events.insert")).toHaveLength(5);
  expect(again.largest).toBeLessThan(5 * 1024 * 1024);
  const huge = sketchEvent({ offset: 99n, data: randomBytes(6 * 1024 * 1024) });
  expect(await insert(huge)).toEqual([huge]);
});

test("whatever an event holds comes back exactly, in lists and alone", async () => {
  const text = fc
    .string({ unit: "binary", minLength: 1, maxLength: 40 })
    .filter((value) => !value.includes("\0"));
  const name = fc.stringMatching(/^[a-z0-9]{1,20}$/);
  const optional = fc.option(text, { nil: undefined });
  const two = (value: number): string => String(value).padStart(2, "0");
  const time = fc
    .record({
      date: fc.date({ min: new Date("0002-01-01"), max: new Date("9998-12-31"), noInvalidDate: true }),
      fraction: fc.stringMatching(/^(\.[0-9]{1,12})?$/),
      offset: fc.integer({ min: -23 * 60, max: 23 * 60 }),
      zulu: fc.constantFrom("Z", "z", undefined),
      t: fc.constantFrom("T", "t"),
    })
    .map(({ date, fraction, offset, zulu, t }) => {
      const minutes = Math.abs(offset);
      const zone = zulu ?? `${offset < 0 ? "-" : "+"}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
      return parseTimestamp(`${date.toISOString().slice(0, 19).replace("T", t)}${fraction}${zone}`)!;
    });
  const data = fc.record({
    bytes: fc.uint8Array({ maxLength: 400 }),
    protoType: fc.option(text, { nil: undefined }),
  });
  const stored: fc.Arbitrary<StoredEvent> = fc.record({
    event: fc.record({
      id: text,
      source: text,
      type: text,
      subject: optional,
      time: fc.option(time, { nil: undefined, freq: 10 }),
      datacontenttype: optional,
      dataschema: optional,
      extensions: fc
        .dictionary(
          fc.oneof(name, fc.constantFrom("tags", "severitynumber")),
          fc.oneof(text, fc.constant("")),
        )
        .map((entries) => new Map(Object.entries(entries).toSorted(([a], [b]) => (a < b ? -1 : 1)))),
      data: fc.option(data, { nil: undefined }),
    }),
    acceptTime: fc.integer({ min: 0, max: 253_402_300_799_999 }),
    principal: fc.oneof(text, fc.constant("")),
    traceParent: optional,
    traceState: optional,
    position: fc.record({
      topic: text,
      partition: fc.constant(0),
      offset: fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }),
    }),
  });
  let run = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(stored, { minLength: 1, maxLength: 20 }), async (sketches) => {
      run++;
      // An id and a partition of its own for each, so that none is a duplicate and a cursor leads to it alone.
      const events = sketches.map((each, index) => ({
        ...each,
        event: { ...each.event, id: `${run}/${index}/${each.event.id}` },
        position: { ...each.position, partition: run * 100 + index },
      }));
      await insert(...events);
      for (const each of events) {
        const { source, id } = each.event;
        const found = await getEvent(suite.db, { source, id, time: occurredAt(each) });
        expect(found).toEqual({
          event: each,
          dataSize: each.event.data?.bytes.byteLength ?? 0,
          otherTimes: [],
        });
        expect([...found!.event.event.extensions]).toEqual([...each.event.extensions]);
        const [listed] = await searchEvents(suite.db, {
          filter: undefined,
          now: 0,
          order: "time",
          after: {
            occurredAt: occurredAt(each),
            partition: each.position.partition,
            offset: each.position.offset - 1n,
          },
          limit: 1,
        });
        const { data: payload, ...attributes } = each.event;
        expect(listed).toMatchObject({
          ...each,
          event: attributes,
          dataSize: payload?.bytes.byteLength ?? 0,
        });
        expect(listed!.event).not.toHaveProperty("data");
      }
    }),
    { numRuns: 60 },
  );
});
