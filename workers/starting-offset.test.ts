import { expect, test } from "vitest";

import { type LogRange } from "#kafka/ports.ts";
import { type Claim } from "#postgres/claims.ts";

import { createFindStart } from "./starting-offset.ts";

const LOG: LogRange = { start: 100n, end: 200n, committed: undefined, topicId: undefined };

function claim(nextOffset: bigint | undefined, change: Partial<Claim> = {}): Claim {
  const topic = "weir.events.v1";
  return {
    group: "g",
    topic,
    partition: 3,
    epoch: 1n,
    generation: 1n,
    owner: "o",
    nextOffset,
    highWater: nextOffset,
    ...change,
  };
}

test.each<[string, bigint | undefined, bigint | undefined, bigint, bigint]>([
  ["the checkpoint, whatever Kafka committed", 150n, 120n, 150n, 0n],
  ["Kafka's committed offset without a checkpoint, with the gap to it", undefined, 120n, 120n, 20n],
  ["the log's start without either", undefined, undefined, 100n, 0n],
  ["a checkpoint at the log's very start", 100n, undefined, 100n, 0n],
  ["a checkpoint at the log's very end", 200n, undefined, 200n, 0n],
  ["the log's start where the checkpoint is below, with the gap", 60n, 150n, 100n, 40n],
  ["the log's start where the committed offset is below, with the gap", undefined, 99n, 100n, 1n],
])("starts at %s", (_, nextOffset, committed, offset, gap) => {
  expect(createFindStart()(claim(nextOffset), { ...LOG, committed })).toEqual({
    outcome: "start",
    offset,
    gap,
  });
});

test.each<[string, bigint | undefined, bigint | undefined]>([
  ["the checkpoint", 201n, 150n],
  ["the committed offset, without a checkpoint,", undefined, 201n],
])("fails where %s is beyond the log's end, seen twice", (_, nextOffset, committed) => {
  const findStart = createFindStart();
  const log = { ...LOG, committed };
  expect(findStart(claim(nextOffset), log)).toEqual({ outcome: "suspect", offset: 201n });
  expect(findStart(claim(nextOffset), log)).toEqual({ outcome: "failed", offset: 201n });
});

test("goes on where the end was only late to be known", () => {
  const findStart = createFindStart();
  findStart(claim(201n), LOG);
  expect(findStart(claim(201n), { ...LOG, end: 201n })).toMatchObject({ outcome: "start", offset: 201n });
  expect(findStart(claim(202n), { ...LOG, end: 201n })).toMatchObject({ outcome: "suspect" });
});

test("stays failed though the log grows past the checkpoint, until that is another", () => {
  const findStart = createFindStart();
  findStart(claim(201n), LOG);
  findStart(claim(201n), LOG);
  const grown = { ...LOG, end: 300n };
  expect(findStart(claim(201n), grown)).toEqual({ outcome: "failed", offset: 201n });
  expect(findStart(claim(201n, { partition: 4 }), grown)).toMatchObject({ outcome: "start" });
  expect(findStart(claim(201n, { generation: 2n }), grown)).toMatchObject({ outcome: "start", offset: 201n });
  expect(findStart(claim(201n), grown)).toMatchObject({ outcome: "start" });
});
