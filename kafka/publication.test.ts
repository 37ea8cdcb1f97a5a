import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { giveUp, nextBatch, type Publication } from "./publication.ts";
import { type PublishResult } from "./ports.ts";

function publication(
  partition: number,
  bytes: number,
  alone = false,
  sent = false,
): Publication & { result?: PublishResult } {
  return {
    record: { topic: "t", partition, key: null, value: null, headers: [], timestamp: 0 },
    bytes,
    since: 0,
    sent,
    alone,
    settled: false,
    settle(result) {
      this.result ??= result;
    },
  } as Publication & { result?: PublishResult };
}

describe("the next batch", () => {
  test("takes of each partition the first that wait, in order, within the topic's limit", () => {
    const waiting = fc.array(
      fc.record({ partition: fc.nat(3), bytes: fc.integer({ min: 1, max: 500 }), alone: fc.boolean() }),
      { maxLength: 60 },
    );
    fc.assert(
      fc.property(waiting, (shapes) => {
        const publications = shapes.map(({ partition, bytes, alone }) =>
          publication(partition, bytes, alone),
        );
        const batch = nextBatch(publications, 1_000);
        expect(batch.size > 0).toBe(publications.length > 0);
        for (const [partition, taken] of batch) {
          const mine = publications.filter(({ record }) => record.partition === partition);
          expect(taken).toEqual(mine.slice(0, taken.length));
          const bytes = taken.reduce((sum, each) => sum + each.bytes, 61);
          expect(taken.length === 1 || bytes <= 1_000).toBe(true);
          expect(taken.length === 1 || taken.every(({ alone }) => !alone)).toBe(true);
        }
      }),
    );
  });

  test("holds at most 500 records and 8 MiB", () => {
    const small = Array.from({ length: 600 }, (_, index) => publication(index % 7, 10));
    expect([...nextBatch(small, 1e6).values()].flat()).toHaveLength(500);
    const large = Array.from({ length: 600 }, (_, index) => publication(index % 600, 1_000_000));
    expect([...nextBatch(large, 2e6).values()].flat()).toHaveLength(8);
  });
});

test("a publication that is given up is unknown where it may be on the log, else refused", () => {
  const [fresh, sent] = [publication(0, 1), publication(0, 1, false, true)];
  for (const each of [fresh, sent]) giveUp(each, "BROKER_AWAY", "why");
  expect(fresh.result).toEqual({
    outcome: "refused",
    cause: "BROKER_AWAY",
    isOfRecord: false,
    detail: "why",
  });
  expect(sent.result).toEqual({ outcome: "unknown", detail: "why" });
});
