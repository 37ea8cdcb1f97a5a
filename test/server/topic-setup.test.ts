import { expect, test } from "vitest";

import { startWeir, type Weir } from "../support/weir.ts";

// Ports of the system's own that nobody serves.
const BROKERS = "127.0.0.1:1,127.0.0.1:2";

function topicLines(weir: Weir): ReturnType<Weir["log"]> {
  return weir.log().filter(({ scope }) => scope === "server.topics");
}

test("brokers that are away at the start are one line, which names them and says why; its stack is for debugging", async () => {
  await using weir = await startWeir({
    brokers: BROKERS,
    until: "listening",
    env: { WEIR_LOG_LEVEL: "debug" },
  });
  const levels = (): unknown => topicLines(weir).map(({ level }) => level);
  await expect.poll(levels, { timeout: 10_000 }).toEqual(["warn", "debug"]);
  const [line, more] = topicLines(weir);
  expect(line).toMatchObject({ message: "The topics cannot be looked at yet" });
  expect(line?.["reason"]).toMatch(
    /^Describing the cluster failed at Kafka 127\.0\.0\.1:1, 127\.0\.0\.1:2: .*ECONNREFUSED 127\.0\.0\.1:1: .*ECONNREFUSED 127\.0\.0\.1:2$/,
  );
  expect(line).not.toHaveProperty("error");
  expect(more).toMatchObject({ error: { name: "KafkaError", stack: expect.stringContaining("\n    at ") } });
});
