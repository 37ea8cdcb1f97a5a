import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";

import { type StoredEvent } from "#core/event.ts";
import { createEvaluator } from "#core/filter/evaluate.ts";
import { examine, type ExaminedEvent } from "#core/filter/examine.ts";
import { type Filter } from "#core/filter/tree.ts";
import { insertEvents } from "#postgres/events.ts";
import { compileFilter } from "#postgres/filter.ts";
import { createParameters } from "#postgres/parameters.ts";
import { transaction } from "#postgres/tx.ts";

import { filters, NOW, storedEvents } from "./filter-cases.ts";
import { useDatabase } from "./fixture.ts";

const suite = useDatabase();
const EVENTS = 300;
const RUNS = 4_000;

let stored: readonly { readonly offset: number; readonly examined: ExaminedEvent }[];

beforeAll(async () => {
  const [events = []] = fc.sample(storedEvents(EVENTS), 1);
  const half = events.length / 2;
  const written: StoredEvent[] = [];
  for (const part of [events.slice(0, half), events.slice(half)])
    written.push(...(await transaction(suite.db, (tx) => insertEvents(tx, part))).written);
  stored = written.map((each) => ({ offset: Number(each.position.offset), examined: examine(each) }));
});

/** The offsets of the rows that a filter is true of. */
async function selected(filter: Filter): Promise<readonly number[]> {
  const parameters = createParameters();
  const condition = compileFilter(filter, { parameters, now: NOW });
  const { rows } = await suite.db.pool.query<{ offset: string }>(
    `select "offset" from events.event where ${condition} order by "offset"`,
    [...parameters.values],
  );
  return rows.map(({ offset }) => Number(offset));
}

function matching(filter: Filter): readonly number[] {
  const matches = createEvaluator(filter);
  return stored.filter(({ examined }) => matches(examined, NOW)).map(({ offset }) => offset);
}

test("the SQL of a filter is true of exactly the events that the filter matches in the process", async () => {
  let [some, all] = [0, 0];
  await fc.assert(
    fc.asyncProperty(filters, async (filter) => {
      const expected = matching(filter);
      expect(await selected(filter)).toEqual(expected);
      if (expected.length > 0) some += 1;
      if (expected.length === stored.length) all += 1;
    }),
    { numRuns: RUNS },
  );
  // What it would say if nearly no filter matched anything, or all of them everything.
  expect(some).toBeGreaterThan(RUNS / 2);
  expect(all).toBeLessThan(RUNS / 4);
}, 120_000);
