import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";

import { type StoredEvent } from "#core/event.ts";
import { createEvaluator } from "#core/filter/evaluate.ts";
import { examine, type ExaminedEvent } from "#core/filter/examine.ts";
import { type Field, type Filter } from "#core/filter/tree.ts";
import { withoutField } from "#core/filter/without-field.ts";
import { insertEvents, occurredAt } from "#postgres/events.ts";
import { keepNumberIndexes } from "#postgres/number-indexes.ts";
import { numberNeeds, numberPathKey } from "#postgres/number-paths.ts";
import { type Database } from "#postgres/pool.ts";
import {
  type Cursor,
  type EventOrder,
  exportEvents,
  SEARCH_SETTINGS,
  searchEvents,
} from "#postgres/search.ts";
import { selectStatement } from "#postgres/search-statement.ts";
import {
  countEvents,
  type FacetField,
  facetEvents,
  histogramEvents,
  MAX_BUCKETS,
} from "#postgres/summaries.ts";
import { transaction } from "#postgres/tx.ts";

import { filters, storedEvents } from "./filter-cases.ts";
import { MOMENTS, NOW } from "./filter-values.ts";
import { openDatabase, sketchEvent, useDatabase } from "./fixture.ts";

const suite = useDatabase();

let examined: readonly ExaminedEvent[];

beforeAll(async () => {
  const [events = []] = fc.sample(storedEvents(200), 1);
  const { written } = await transaction(suite.db, (tx) => insertEvents(tx, events));
  examined = written.map((each) => examine(each)).toSorted((a, b) => compare(a.stored, b.stored));
  await suite.db.pool.query("analyze events.event");
  await keepNumberIndexes(suite.db, [["a"], ["amount"], ["b", 0]]);
});

function compare(a: StoredEvent, b: StoredEvent): number {
  const [time, offset] = [occurredAt(a) - occurredAt(b), a.position.offset - b.position.offset];
  return Number(time || BigInt(a.position.partition - b.position.partition) || offset);
}

/** The events that match, oldest first. */
function matching(filter: Filter | undefined): readonly StoredEvent[] {
  const matches = createEvaluator(filter);
  return examined.filter((each) => matches(each, NOW)).map(({ stored }) => stored);
}

const offsetsOf = (events: readonly Pick<StoredEvent, "position">[]): readonly bigint[] =>
  events.map(({ position }) => position.offset);
const inOrder = <T>(events: readonly T[], order: EventOrder): readonly T[] =>
  order === "time" ? events : events.toReversed();
const cursorOf = (event: StoredEvent): Cursor => ({ ...event.position, occurredAt: occurredAt(event) });

const rangeOf = (severity: number): number => Math.floor((severity - 1) / 4) * 4 + 1;
const fieldOf = (
  field: FacetField,
): Extract<Field, { kind: "string" | "extension" | "severity" | "tags" }> => {
  if (field === "severity" || field === "tags") return { kind: field };
  if (field === "type" || field === "source" || field === "subject") return { kind: "string", name: field };
  return { kind: "extension", name: field.slice(4) };
};

const order = fc.constantFrom<EventOrder[]>("time", "time desc");
const optionalFilter = fc.option(filters, { nil: undefined, freq: 10 });

test("a page is what the filter matches from the cursor on, in order, whichever way it is looked for", async () => {
  const micros = MOMENTS.map((text) => BigInt(Date.parse(text)) * 1_000n);
  const cuts = fc.uniqueArray(fc.constantFrom(...micros), { maxLength: 3 });
  const ways = fc.array(fc.constantFrom("walk" as const, "gather" as const, "sift" as const), {
    minLength: 4,
    maxLength: 4,
  });
  const asked = fc.tuple(optionalFilter, order, fc.integer({ min: 1, max: 60 }), fc.nat(300), cuts, ways);
  await fc.assert(
    fc.asyncProperty(asked, async ([filter, by, limit, from, cut, way]) => {
      const start = inOrder(examined, by)[from]?.stored;
      const all = inOrder(matching(filter), by);
      const expected = offsetsOf(
        (start === undefined
          ? all
          : all.filter((each) => (by === "time" ? compare(each, start) : compare(start, each)) > 0)
        ).slice(0, limit),
      );
      const selection = { filter, now: NOW, order: by, after: start && cursorOf(start), limit };
      expect(offsetsOf(await searchEvents(suite.db, selection))).toEqual(expected);
      // Windows as no statistics would ever have it.
      const edges = cut.toSorted((a, b) => Number(by === "time" ? a - b : b - a));
      const windows = [...edges, undefined].map((edge, index) => {
        const [near, far] = [edges[index - 1], edge];
        const [first, end] = by === "time" ? [near, far] : [far, near];
        return { from: first, before: end, way: way[index]! };
      });
      const numberPaths = filter ? numberNeeds(filter).map(({ path }) => numberPathKey(path)) : [];
      const { rows } = await suite.db.pool.query<{ offset: string }>(
        selectStatement(`"offset"`, selection, { windows, numberPaths }),
      );
      expect(rows.map(({ offset }) => BigInt(offset))).toEqual(expected);
    }),
    { numRuns: 700 },
  );
}, 120_000);

test("an export is all that matches, with payloads, from the cursor on", async () => {
  await fc.assert(
    fc.asyncProperty(optionalFilter, order, fc.nat(300), async (filter, by, from) => {
      const start = inOrder(examined, by)[from]?.stored;
      const all = inOrder(matching(filter), by);
      const expected = all.filter(
        (each) => start === undefined || (by === "time" ? compare(each, start) : compare(start, each)) > 0,
      );
      const found: StoredEvent[] = [];
      const selection = { filter, now: NOW, order: by, after: start && cursorOf(start) };
      for await (const events of exportEvents(suite.db, selection)) found.push(...events);
      expect(found).toEqual(expected);
    }),
    { numRuns: 100 },
  );
}, 120_000);

test("a count goes up to its limit", async () => {
  await fc.assert(
    fc.asyncProperty(optionalFilter, fc.integer({ min: 1, max: 250 }), async (filter, limit) => {
      const count = await countEvents(suite.db, { filter, now: NOW, limit });
      expect(count).toBe(Math.min(limit, matching(filter).length));
    }),
    { numRuns: 300 },
  );
}, 120_000);

test("facets count the values of the newest events that match but for what the filter says of their own field", async () => {
  const fields = ["type", "source", "subject", "severity", "tags", "ext.tenant", "ext.n"] as const;
  const candidates = fc.constantFrom(5, 50, 1_000);
  await fc.assert(
    fc.asyncProperty(optionalFilter, candidates, async (filter, most) => {
      const facets = await facetEvents(suite.db, { filter, now: NOW, fields, candidates: most, values: 20 });
      expect(facets.map(({ field }) => field)).toEqual(fields);
      for (const { field, values, capped } of facets) {
        const own = fieldOf(field);
        const all = matching(withoutField(filter, own)).toReversed();
        expect(capped).toBe(all.length > most);
        const counts = new Map<string, number>();
        for (const event of all.slice(0, most).map((each) => examine(each))) {
          const severity = event.severity();
          const each =
            own.kind === "severity"
              ? [severity === undefined ? undefined : String(rangeOf(severity))]
              : own.kind === "tags"
                ? event.tags()
                : own.kind === "string"
                  ? [event.stored.event[own.name]]
                  : [event.stored.event.extensions.get(own.name)];
          for (const value of each) if (value !== undefined) counts.set(value, (counts.get(value) ?? 0) + 1);
        }
        const ranked = [...counts].toSorted(
          ([a, x], [b, y]) =>
            y - x ||
            (field === "severity" ? Number(a) - Number(b) : Buffer.compare(Buffer.from(a), Buffer.from(b))),
        );
        expect(values).toEqual(ranked.slice(0, 20).map(([value, count]) => ({ value, count })));
      }
    }),
    { numRuns: 150 },
  );
}, 120_000);

test("a histogram counts all that match, by the shortest interval that makes few enough, without holes", async () => {
  await fc.assert(
    fc.asyncProperty(optionalFilter, async (filter) => {
      const all = matching(filter);
      const histogram = await histogramEvents(suite.db, { filter, now: NOW });
      expect(histogram === undefined).toBe(all.length === 0);
      if (histogram === undefined) return;
      const { interval, buckets } = histogram;
      const startOf = (event: StoredEvent): number =>
        Math.floor(Number(occurredAt(event) / 1_000_000n) / interval);
      const [first, last] = [startOf(all[0]!), startOf(all.at(-1)!)];
      expect(buckets.length).toBe(last - first + 1);
      expect(buckets.length).toBeLessThanOrEqual(MAX_BUCKETS);
      for (const [index, bucket] of buckets.entries()) {
        expect(bucket.start).toBe(BigInt((first + index) * interval) * 1_000_000n);
        const inside = all.filter((event) => startOf(event) === first + index);
        expect(bucket.count).toBe(inside.length);
        const counts = Map.groupBy(inside, (event) => {
          const severity = examine(event).severity();
          return severity === undefined ? undefined : rangeOf(severity);
        });
        expect(bucket.bySeverity).toEqual(
          new Map([...counts].map(([range, events]) => [range, events.length])),
        );
      }
    }),
    { numRuns: 200 },
  );
}, 120_000);

test.each([
  [0, 1],
  [119, 1],
  [120, 5],
  [599, 5],
  [600, 15],
  [3_600, 60],
  [86_399, 900],
  [86_400, 900],
  [119 * 900, 900],
  [120 * 900, 1_800],
  [119 * 86_400, 86_400],
  [120 * 86_400, 604_800],
])("events %i s apart are counted in intervals of %i s", async (seconds, interval) => {
  await suite.db.pool.query("truncate events.event");
  const start = Date.parse("2026-01-01T00:00:00Z");
  const events = [start, start + seconds * 1_000].map((time, index) =>
    sketchEvent({ offset: BigInt(index), time: new Date(time).toISOString() }),
  );
  await transaction(suite.db, (tx) => insertEvents(tx, events));
  expect((await histogramEvents(suite.db, { filter: undefined, now: 0 }))?.interval).toBe(interval);
});

test("a page after the first is one statement, the first one more at most once a minute", async () => {
  await using db = openDatabase(suite.url, { settings: SEARCH_SETTINGS, readOnly: true });
  const statements: string[] = [];
  const counted = countStatements(db, (text) => statements.push(text));
  const selection = { filter: undefined, now: 0, order: "time desc", after: undefined, limit: 1 } as const;
  const [first] = await searchEvents(counted, selection);
  expect(statements).toHaveLength(2);
  await searchEvents(counted, {
    ...selection,
    after: { ...first!.position, occurredAt: occurredAt(first!) },
  });
  expect(statements).toHaveLength(3);
});

/** The same database, whose statements are told of. */
function countStatements(db: Database, tell: (text: string) => void): Database {
  db.pool.on("acquire", (client) => {
    const query = client.query.bind(client) as (...all: unknown[]) => unknown;
    client.query = ((statement: { text: string }, ...rest: unknown[]) => {
      tell(statement.text);
      client.query = query as typeof client.query;
      return query(statement, ...rest);
    }) as typeof client.query;
  });
  return db;
}

test("a read that nobody waits for any more is stopped in PostgreSQL, and its connection is of use again", async () => {
  await using db = openDatabase(suite.url, { poolSize: 1, readOnly: true });
  const holder = await suite.db.pool.connect();
  await holder.query("begin");
  await holder.query("lock table events.event in access exclusive mode");
  const controller = new AbortController();
  const selection = { filter: undefined, now: 0, order: "time", after: undefined, limit: 1 } as const;
  const search = searchEvents(db, selection, controller.signal);
  const waiting = async (): Promise<number> => {
    const { rows } = await suite.db.pool.query<{ count: number }>(
      "select count(*)::int as count from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    );
    return rows[0]!.count;
  };
  await expect.poll(waiting).toBe(1);
  controller.abort(new Error("gone"));
  await expect(search).rejects.toThrow("gone");
  expect(await waiting()).toBe(0);
  await holder.query("rollback");
  holder.release();
  expect(await searchEvents(db, selection)).toHaveLength(1);
});

test("the indexes of numbers are those of the paths that are named, on every month", async () => {
  const months = async (key: string): Promise<number> => {
    const { rows } = await suite.db.pool.query<{ count: number }>(
      "select count(*)::int as count from pg_index join pg_class on pg_class.oid = indexrelid where indisvalid and relname ~ $1",
      [`^event_[0-9a-z_]+_number_${key}$`],
    );
    return rows[0]!.count;
  };
  const paths = [["it's", "a", 1], ["amount"]];
  const { made, dropped } = await keepNumberIndexes(suite.db, paths);
  expect([made.length, dropped.length]).toEqual([9, 18]);
  expect(await Promise.all(paths.map((path) => months(numberPathKey(path))))).toEqual([9, 9]);
  expect(await months(numberPathKey(["a"]))).toBe(0);
  const [name] = made;
  await suite.db.pool.query(
    `update pg_index set indisvalid = false where indexrelid = 'events.${name}'::regclass`,
  );
  expect(await keepNumberIndexes(suite.db, paths)).toEqual({ made: [name], dropped: [name] });
  expect(await keepNumberIndexes(suite.db, paths)).toEqual({ made: [], dropped: [] });
});
