import { expect, it } from "vitest";

import { describeFailed, type FailedPartition } from "./failed-partitions.ts";

const failed: FailedPartition = {
  group: "weir's",
  topic: "events",
  partition: 10,
  offset: 7n,
  by: "checkpoint",
  logStart: 0n,
  logEnd: 2n,
};

it("names each partition, and a statement for all whose logs begin alike", () => {
  const text = describeFailed([
    failed,
    { ...failed, partition: 2, by: "committed" },
    { ...failed, partition: 3, logStart: 1n },
  ]);
  expect(text).toMatch(
    /^FAILED: the checkpoint of events\/10 in group weir's is 7, beyond the log's end 2; /,
  );
  expect(text).toContain("; Kafka's committed offset of events/2 in group weir's is 7, ");
  const where =
    "generation = generation + 1 where group_id = 'weir''s' and topic = 'events' and partition in";
  expect(text.match(/update [^;]*;/g)).toEqual([
    `update consumer.checkpoint set next_offset = 0, ${where} (2, 10);`,
    `update consumer.checkpoint set next_offset = 1, ${where} (3);`,
  ]);
});
