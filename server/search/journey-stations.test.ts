import { expect, test } from "vitest";

import { type LetterFact, type ReplayFact, type StoredFact } from "#postgres/journey.ts";
import { type Facts, placeKey } from "./journey-facts.ts";
import { stationsOf } from "./journey-stations.ts";

const place = (offset: bigint) => ({ topic: "events", partition: 0, offset });
const NAME = { source: "/a", id: "1" };

function stored(offset: bigint, acceptTime: number, storedAt: bigint): StoredFact {
  const event = { ...NAME, type: "t", extensions: new Map() } as unknown as StoredFact["event"]["event"];
  return {
    event: {
      event,
      acceptTime,
      principal: "alice",
      position: place(offset),
      dataSize: 0,
      severity: undefined,
      tags: [],
      traceParent: undefined,
      traceState: undefined,
    },
    key: 0n,
    storedAt,
  };
}

function letter(offset: bigint, attempt: number, time: bigint, more: Partial<LetterFact> = {}): LetterFact {
  return {
    letter: { group: "g", ...place(offset) },
    reason: "UNPERSISTABLE",
    detail: "",
    attempt,
    principal: "alice",
    time,
    recordedAt: time,
    recordTime: 1_000n,
    replays: 0,
    lastReplay: undefined,
    event: NAME,
    key: 0n,
    ...more,
  };
}

function replay(from: bigint, to: bigint, attempt: number, time: bigint): ReplayFact {
  const [origin, position] = [{ group: "g", ...place(from) }, place(to)];
  return { letter: origin, position, attempt, time, principal: "bob", cause: "auditEntries/1" };
}

function factsWith(facts: {
  readonly stored?: readonly StoredFact[];
  readonly letters?: readonly LetterFact[];
  readonly replays?: readonly ReplayFact[];
  readonly repeats?: readonly bigint[];
}): Facts {
  const { stored: rows = [], letters = [], replays = [], repeats = [] } = facts;
  return {
    stored: new Map(rows.map((fact) => [placeKey(fact.event.position), fact])),
    letters: new Map(letters.map((fact) => [placeKey(fact.letter), fact])),
    replays: new Map(replays.map((fact) => [placeKey(fact.position), fact])),
    repeats: new Map(
      repeats.map((offset) => {
        const position = place(offset);
        return [placeKey(position), { ...NAME, position, key: 0n, recordedAt: 0n, differs: false }];
      }),
    ),
    truncated: false,
  };
}

function told(facts: Facts): string[] {
  return stationsOf({ facts, accepted: [], skips: [] }).map(
    ({ station, position }) => `${station?.case} ${position?.offset ?? "?"}`,
  );
}

test("cause comes before effect, whatever their clocks say", () => {
  const facts = factsWith({
    letters: [letter(1n, 0, 900n, { replays: 2 }), letter(5n, 1, 500n, { replays: 1 })],
    replays: [replay(1n, 5n, 1, 400n), replay(5n, 9n, 2, 300n), replay(1n, 7n, 2, 2_000n)],
    stored: [stored(9n, 1, 100n)],
    repeats: [7n],
  });
  expect(told(facts)).toEqual([
    "accepted 1",
    "deadLettered 1",
    "replayed 5",
    "deadLettered 5",
    "replayed 9",
    "stored 9",
    "replayed 7",
    "duplicate 7",
  ]);
});

test("a row that a replay brought was accepted once, also where the replay was not noted", () => {
  const letters = [letter(1n, 0, 2_000n, { replays: 1, lastReplay: 3_000n })];
  const rows = [stored(9n, 1, 4_000n)];
  expect(told(factsWith({ letters, stored: rows }))).toEqual([
    "accepted 1",
    "deadLettered 1",
    "replayed ?",
    "stored 9",
  ]);
  // One that was sent again is accepted twice.
  expect(told(factsWith({ letters: [letter(1n, 0, 2_000n)], stored: [stored(9n, 3, 4_000n)] }))).toEqual([
    "accepted 1",
    "deadLettered 1",
    "accepted 9",
    "stored 9",
  ]);
});

test("replays that lead in a circle end", () => {
  const letters = [letter(1n, 1, 1n), letter(2n, 1, 2n)];
  const replays = [replay(1n, 2n, 2, 3n), replay(2n, 1n, 2, 4n)];
  expect(told(factsWith({ letters, replays }))).toHaveLength(4);
});
