import { expect, test } from "vitest";

import { type LogRange } from "#kafka/ports.ts";
import { type Claim, REFUSED_LOG } from "#postgres/claims.ts";

import { createFindStart } from "./starting-offset.ts";

const LOG: LogRange = { start: 100n, end: 200n, committed: undefined, stable: 200n, topicId: undefined };

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
    logId: undefined,
    logSince: "-infinity",
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
  expect(findStart(claim(nextOffset), log)).toEqual({ outcome: "failed", offset: 201n, why: "BEYOND_END" });
});

test("takes the log of a topic that was made anew where nothing of the former one was read", () => {
  const anew: LogRange = { start: 0n, end: 9n, committed: 0n, stable: 9n, topicId: "new" };
  const unread = claim(undefined, { logId: "old" });
  expect(createFindStart()(unread, anew)).toEqual({ outcome: "start", offset: 0n, gap: 0n });
  // An operator set the offset back: what is above was read from the former one.
  const rewound = claim(0n, { logId: "old", highWater: 5n });
  expect(createFindStart()(rewound, anew)).toEqual({ outcome: "failed", offset: 0n, why: "ANOTHER_TOPIC" });
});

test("goes on where the end was only late to be known", () => {
  const findStart = createFindStart();
  findStart(claim(201n), LOG);
  expect(findStart(claim(201n), { ...LOG, end: 201n })).toMatchObject({ outcome: "start", offset: 201n });
  expect(findStart(claim(202n), { ...LOG, end: 201n })).toMatchObject({ outcome: "suspect" });
});

test.each<[string, LogRange]>([
  ["longer than the checkpoint", { ...LOG, topicId: "new" }],
  ["shorter than the checkpoint", { ...LOG, end: 110n, topicId: "new" }],
])("fails at once where the topic was made anew, its log %s", (_, log) => {
  const failed = { outcome: "failed", offset: 150n, why: "ANOTHER_TOPIC" };
  expect(createFindStart()(claim(150n, { logId: "old" }), log)).toEqual(failed);
});

test.each<[string, string | undefined, string | undefined]>([
  ["are the same", "id", "id"],
  ["are not known of a checkpoint of before", undefined, "id"],
  ["are not known of old brokers", "id", undefined],
])("starts at the checkpoint where the logs %s", (_, logId, topicId) => {
  expect(createFindStart()(claim(150n, { logId }), { ...LOG, topicId })).toMatchObject({ offset: 150n });
});

test("stays failed where the log was refused, though it has grown past the checkpoint, until that is another", () => {
  const findStart = createFindStart();
  const refused = claim(201n, { logId: REFUSED_LOG });
  const grown = { ...LOG, end: 300n, topicId: "id" };
  expect(findStart(refused, grown)).toEqual({ outcome: "failed", offset: 201n, why: "BEYOND_END" });
  expect(findStart(claim(0n, { generation: 2n }), grown)).toMatchObject({ outcome: "start" });
});
