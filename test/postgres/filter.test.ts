import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";

import { type StoredEvent } from "#core/event.ts";
import { createEvaluator } from "#core/filter/evaluate.ts";
import { examine, type ExaminedEvent } from "#core/filter/examine.ts";
import { INCOMPLETE_TERM } from "#core/terms.ts";
import { insertEvents } from "#postgres/events.ts";
import { compileFilter } from "#postgres/filter.ts";
import { createParameters, type Parameters } from "#postgres/parameters.ts";
import { compileNeeds, type TermNeeds, termNeeds } from "#postgres/term-needs.ts";
import { transaction } from "#postgres/tx.ts";

import { filters, storedEvents } from "./filter-cases.ts";
import { NOW } from "./filter-values.ts";
import { useDatabase } from "./fixture.ts";

const suite = useDatabase();
const EVENTS = 300;
const RUNS = 2_000;

let stored: readonly { readonly offset: number; readonly examined: ExaminedEvent }[];

beforeAll(async () => {
  const [events = []] = fc.sample(storedEvents(EVENTS), 1);
  const half = events.length / 2;
  const written: StoredEvent[] = [];
  for (const part of [events.slice(0, half), events.slice(half)])
    written.push(...(await transaction(suite.db, (tx) => insertEvents(tx, part))).written);
  stored = written.map((each) => ({ offset: Number(each.position.offset), examined: examine(each) }));
});

/** The offsets of the rows of which a condition is true. */
async function selected(compile: (parameters: Parameters) => string): Promise<readonly number[]> {
  const parameters = createParameters();
  const condition = compile(parameters);
  const { rows } = await suite.db.pool.query<{ offset: string }>(
    `select "offset" from events.event where ${condition} order by "offset"`,
    [...parameters.values],
  );
  return rows.map(({ offset }) => Number(offset));
}

function matching(matches: (event: ExaminedEvent) => boolean): readonly number[] {
  return stored.filter(({ examined }) => matches(examined)).map(({ offset }) => offset);
}

test("the SQL of a filter is true of exactly the events that the filter matches in the process", async () => {
  let [some, all] = [0, 0];
  await fc.assert(
    fc.asyncProperty(filters, async (filter) => {
      const matches = createEvaluator(filter);
      const expected = matching((event) => matches(event, NOW));
      const found = await selected((parameters) => compileFilter(filter, { parameters, now: NOW }));
      expect(found).toEqual(expected);
      if (expected.length > 0) some += 1;
      if (expected.length === stored.length) all += 1;
    }),
    { numRuns: RUNS },
  );
  // What it would say if nearly no filter matched anything, or all of them everything.
  expect(some).toBeGreaterThan(RUNS / 2);
  expect(all).toBeLessThan(RUNS / 4);
}, 120_000);

function fulfils(terms: ReadonlySet<number>, needs: TermNeeds): boolean {
  if (needs.kind === "terms") return needs.all.every((term) => terms.has(term));
  return needs.of[needs.kind === "and" ? "every" : "some"]((each) => fulfils(terms, each));
}

test("an event that a filter matches has the terms that the filter needs, and SQL finds all that have them", async () => {
  let [narrowing, sharp] = [0, 0];
  await fc.assert(
    fc.asyncProperty(filters, async (filter) => {
      const needs = termNeeds(filter);
      if (needs === undefined) return;
      const matches = createEvaluator(filter);
      const candidates = matching((event) => {
        const terms = event.terms();
        const isCandidate = terms.has(INCOMPLETE_TERM) || fulfils(terms, needs);
        expect(isCandidate || !matches(event, NOW)).toBe(true);
        return isCandidate;
      });
      expect(await selected((parameters) => compileNeeds(needs, parameters))).toEqual(candidates);
      narrowing += 1;
      if (candidates.length < stored.length / 2) sharp += 1;
    }),
    { numRuns: RUNS },
  );
  expect(narrowing).toBeGreaterThan(RUNS / 4);
  expect(sharp).toBeGreaterThan(narrowing / 2);
}, 120_000);
