import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";

import { createClients, refusalOf } from "./clients.ts";
import { sketch, toMessage } from "./events.ts";
import { usePoisoned } from "./poison.ts";

const soon = { timeout: 20_000, interval: 50 };
const suite = usePoisoned();

describe("nothing seen", () => {
  test("says what is known: the lag, since when events are kept, what the position has", async () => {
    const name = "events/%2Fnobody:nothing";
    const asked = (): ReturnType<typeof refusalOf> =>
      refusalOf(suite.clients.search.getEventJourney({ name }));
    await expect.poll(async () => (await asked()).metadata["in_flight"], soon).toBe("0");
    const plain = await asked();
    expect(plain).toMatchObject({
      code: Code.NotFound,
      reason: "EVENT_NOT_FOUND",
      metadata: { in_flight: "0", kept_since: expect.stringMatching(/^\d{4}-\d{2}$/) as string },
    });
    expect(plain.message).toMatch(
      /^Nothing has been seen of "events\/%2Fnobody:nothing": .*All records of the log have been consumed\. Events are kept that occurred since \d{4}-\d{2}\.$/,
    );
    const position = { topic: suite.weir.topic, partition: 0, offset: 2n ** 63n - 1n };
    const beyond = await refusalOf(suite.clients.search.getEventJourney({ name, position }));
    expect(beyond.message).toMatch(
      /There is no record at "\S+" partition 0 offset 9223372036854775807\. The log holds the offsets from 0 to below \d+ there\./,
    );
    const event = toMessage(sketch({ source: "/a", id: "stored" }));
    await suite.clients.ingest.createEvent({ event });
    const stored = { name: "events/%2Fa:stored" };
    await expect
      .poll(() => suite.clients.search.getEvent(stored).then(Boolean, () => false), soon)
      .toBe(true);
    const other = await refusalOf(suite.clients.search.getEventJourney({ ...stored, time: { seconds: 1n } }));
    expect(other).toMatchObject({ metadata: { other_times: "1" } });
    const elsewhere = { topic: suite.weir.deadLetterTopic, partition: 0, offset: 0n };
    const foreign = await refusalOf(suite.clients.search.getEventJourney({ name, position: elsewhere }));
    expect(foreign.message).toContain(`this server reads ${suite.weir.topic} alone`);
    const far = { topic: suite.weir.topic, partition: 2 ** 31 - 1, offset: 0n };
    expect((await refusalOf(suite.clients.search.getEventJourney({ name, position: far }))).code).toBe(
      Code.NotFound,
    );
  });

  const NOT_NAMES = ["", "events/a", "events/a:b:c", "events/a%00:b", "events/a:%ff", "deadLetters/a:b:0:0"];
  test.each(NOT_NAMES)("is not said of %j, which is no name", async (name) => {
    const refusal = await refusalOf(suite.clients.search.getEventJourney({ name }));
    expect(refusal).toMatchObject({ code: Code.InvalidArgument, reason: "INVALID_NAME" });
  });

  test("is not said where the request is wrong: every fault is told", async () => {
    const position = { topic: "a\0b", partition: -1, offset: -1n };
    const refusal = await refusalOf(
      suite.clients.search.getEventJourney({ name: "x", time: { seconds: 1n, nanos: -1 }, position }),
    );
    expect(refusal.code).toBe(Code.InvalidArgument);
    expect(refusal.violations.map(({ field, reason }) => `${field} ${reason}`)).toEqual([
      "name INVALID_NAME",
      "time INVALID_REQUEST",
      "position.topic INVALID_REQUEST",
      "position.partition INVALID_REQUEST",
      "position.offset INVALID_REQUEST",
    ]);
    const empty = { name: "events/a:b", position: {} };
    expect((await refusalOf(suite.clients.search.getEventJourney(empty))).violations).toMatchObject([
      { field: "position.topic" },
    ]);
  });

  test.each([
    ["quotes", "events/%27%3B%20drop%20table%20x:%22"],
    ["characters of four bytes", "events/%F0%9F%92%A9:a"],
    ["an id that is too long to be one", `events/a:${"b".repeat(5_000)}`],
  ])("is said of a name with %s", async (_, name) => {
    const refusal = await refusalOf(suite.clients.search.getEventJourney({ name }));
    expect(refusal).toMatchObject({ code: Code.NotFound, reason: "EVENT_NOT_FOUND" });
    expect(refusal.message.length).toBeLessThan(1_000);
  });

  test("needs the scope events.read", async () => {
    const writer = createClients(suite.weir.baseUrl, await suite.weir.token({ scope: "events.write" }));
    const refusal = await refusalOf(writer.search.getEventJourney({ name: "events/a:b" }));
    expect(refusal.code).toBe(Code.PermissionDenied);
  });
});
