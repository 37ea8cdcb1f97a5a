import { expect, test } from "vitest";

import { type PartitionReader } from "./partition-reader.ts";
import { KafkaError } from "./ports.ts";
import { createWatchdog } from "./watchdog.ts";

const STUCK_MS = 1_000;

test("a wait counts from when the log had something to hand out, however long a transaction held it back", async () => {
  const reader = {
    partition: { topic: "t", partition: 0 },
    topicId: undefined,
    waiting: { offset: 1n, since: performance.now() - 60_000 },
  } as PartitionReader;
  let looks = 0;
  let freedAt = 0;
  const watchdog = createWatchdog({
    stuckMs: STUCK_MS,
    async logRanges() {
      looks += 1;
      if (looks === 3) freedAt = performance.now();
      return new Map([[0, { end: 3n, stable: looks < 3 ? 1n : 3n, topicId: undefined }]]);
    },
  });
  const { signal } = new AbortController();
  await expect(watchdog.watch(() => [reader], signal)).rejects.toThrow(KafkaError);
  // The last look that found it held back was a quarter of the bound before.
  expect(looks).toBeGreaterThan(3);
  expect(performance.now() - freedAt).toBeGreaterThan(STUCK_MS / 2);
});
