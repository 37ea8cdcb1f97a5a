import { expect, it } from "vitest";

import { describeFailed, type FailedPartition } from "./failed-partitions.ts";

const failed: FailedPartition = {
  group: "weir's",
  topic: "events",
  partition: 10,
  offset: 7n,
  by: "checkpoint",
  why: "BEYOND_END",
  logStart: 0n,
  logEnd: 2n,
};

it("names each partition, and a statement for all whose logs begin alike", () => {
  const text = describeFailed([
    failed,
    { ...failed, partition: 2, by: "committed" },
    { ...failed, partition: 3, logStart: 1n, logEnd: 9n },
    { ...failed, partition: 4, logEnd: 9n, why: "ANOTHER_TOPIC" },
  ]);
  expect(text).toMatch(
    /^FAILED: the checkpoint of events\/10 in group weir's is 7, beyond the log's end 2; /,
  );
  expect(text).toContain("; Kafka's committed offset of events/2 in group weir's is 7, ");
  expect(text).toContain(
    " of events/3 in group weir's is 7, and was beyond the log's end, which is 9 by now; ",
  );
  expect(text).toContain(" of events/4 in group weir's is 7, and the topic was made anew since. ");
  const where =
    "generation = generation + 1, log_id = null, log_since = clock_timestamp() where group_id = 'weir''s' and topic = 'events' and partition in";
  expect(text.match(/update [^;]*;/g)).toEqual([
    `update consumer.checkpoint set next_offset = 0, high_water = 0, ${where} (2, 4, 10);`,
    `update consumer.checkpoint set next_offset = 1, high_water = 1, ${where} (3);`,
  ]);
});
