import { beforeAll, expect, test } from "vitest";

import { type LogPosition } from "#core/event.ts";
import { idTerm } from "#core/terms.ts";
import { insertEvents } from "#postgres/events.ts";
import { factsByName, factsByPlace, MOST, type StatementName, STATEMENTS } from "#postgres/journey.ts";
import { type Database } from "#postgres/pool.ts";
import { SEARCH_SETTINGS } from "#postgres/search.ts";
import { mergeTerms } from "#postgres/term-index.ts";
import { transaction } from "#postgres/tx.ts";

import { openDatabase, sketchEvent, useDatabase } from "./fixture.ts";

// Which indexes serve a journey, on tables that are large enough that it matters; one name has 5,000 repeats.

const suite = useDatabase();
const EVENTS = 5_000;
const NOW = Date.now();

let db: Database;
beforeAll(async () => {
  db = openDatabase(suite.url, { settings: SEARCH_SETTINGS });
  const events = Array.from({ length: EVENTS }, (_, index) =>
    sketchEvent({
      source: "/a",
      id: `id${index}`,
      offset: BigInt(index),
      partition: index % 12,
      time: new Date(NOW - index * 60_000).toISOString(),
    }),
  );
  await transaction(suite.db, (tx) => insertEvents(tx, events));
  await mergeTerms(suite.db);
  await suite.db.pool.query(`
    insert into events.duplicate (occurred_at, recorded_at, "offset", partition, differs, topic, source, id)
    select to_timestamp(0), now() + n * interval '1 s', n, n % 12, false, 'events', '/a', 'often' from generate_series(1, 5000) as n;
    insert into events.duplicate (occurred_at, "offset", partition, differs, topic, source, id)
    select now(), n, 12, false, 'events', '/a', 'other' || n from generate_series(1, 20000) as n;
    insert into consumer.dead_letter (time, record_time, "offset", partition, attempt, group_id, topic, letter_topic, reason, detail, source, id)
    select now(), now(), n, n % 12, 0, 'g', 'events', 'dlq', 'UNPERSISTABLE', '', '/a', 'bad' || n % 10000 from generate_series(1, 20000) as n;
    insert into consumer.replay ("offset", to_offset, partition, to_partition, attempt, group_id, topic, to_topic, principal, cause)
    select n, n + 100000, n % 12, n % 12, 1, 'g', 'events', 'events', 'bob', 'auditEntries/1' from generate_series(1, 20000) as n;
    insert into consumer.skip (from_offset, to_offset, partition, group_id, topic, kind)
    select 10 * n, 10 * n + 5, 0, 'g', 'events', 'NO_RECORD' from generate_series(1, 20000) as n;
    analyze`);
  return () => db[Symbol.asyncDispose]();
}, 60_000);

interface Node {
  readonly "Node Type": string;
  readonly "Index Name"?: string;
  readonly "Relation Name"?: string;
  readonly "Actual Rows": number;
  readonly "Actual Loops": number;
  readonly "Rows Removed by Filter"?: number;
  readonly Plans?: readonly Node[];
}

const AT = [["events"], [3], [15]];
const CASES: Readonly<Record<StatementName, readonly [values: readonly unknown[], index: RegExp]>> = {
  named: [["/a", "id15", [idTerm("id15")]], /^event_\d{4}_\d{2}_terms_idx$|^event_default_terms_idx$/],
  keyed: [["/a", "id0", new Date(NOW)], /^event_\d{4}_\d{2}_pkey$/],
  repeats: [["/a", "often"], /^duplicate_event_idx$/],
  letters: [["/a", "bad15"], /^dead_letter_event_idx$/],
  storedAt: [AT, /^event_(\d{4}_\d{2}|default)_partition_offset_idx$/],
  repeatsAt: [AT, /^duplicate_pkey$/],
  lettersAt: [[...AT, "g"], /^dead_letter_pkey$/],
  replaysOf: [[...AT, "g"], /^replay_letter_idx$/],
  replaysTo: [[["events"], [3], [100_015]], /^replay_pkey$/],
  skip: [["g", "events", 0, 150_003], /^skip_pkey$/],
};

test.each(Object.entries(CASES))(
  "%s reads a range of its index and no more",
  async (name, [values, index]) => {
    const { rows } = await db.pool.query<{ "QUERY PLAN": readonly [{ readonly Plan: Node }] }>(
      `explain (analyze, format json) ${STATEMENTS[name as StatementName]}`,
      [...values],
    );
    const nodes: Node[] = [];
    const visit = (node: Node): void => {
      nodes.push(node);
      node.Plans?.forEach(visit);
    };
    visit(rows[0]!["QUERY PLAN"][0].Plan);
    // Of a month without rows any index does.
    const indexes = nodes
      .filter((node) => node["Actual Rows"] + (node["Rows Removed by Filter"] ?? 0) > 0)
      .flatMap((node) => node["Index Name"] ?? []);
    expect(indexes.length).toBeGreaterThan(0);
    for (const each of indexes) expect(each).toMatch(index);
    expect(nodes.map((node) => node["Node Type"])).not.toContain("Seq Scan");
    for (const node of nodes) expect(node["Actual Rows"] * node["Actual Loops"]).toBeLessThanOrEqual(1_000);
  },
);

test("of a name with thousands of repeats the first hundred are told, and that there are more", async () => {
  const signal = AbortSignal.timeout(10_000);
  const facts = await factsByName(db, { source: "/a", id: "often", time: undefined }, signal);
  expect(facts.repeats.map(({ position }) => position.offset)).toEqual(
    Array.from({ length: MOST }, (_, index) => BigInt(index + 1)),
  );
  expect(facts.truncated).toBe(true);
});

test("places are looked up together, a hundred of them in some milliseconds", async () => {
  const places = Array.from({ length: MOST }, (_, index): LogPosition => ({
    topic: "events",
    partition: index % 12,
    offset: BigInt(index),
  }));
  const facts = await factsByPlace(db, "g", places, AbortSignal.timeout(10_000));
  expect(facts.stored).toHaveLength(MOST);
  expect(facts.letters).toHaveLength(MOST - 1);
  expect(facts.repeats).toHaveLength(MOST - 1);
  expect(facts.replays).toHaveLength(MOST - 1);
  expect(facts.truncated).toBe(false);
});
