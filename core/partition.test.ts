import { describe, expect, test } from "vitest";
import { buildEvent } from "./attributes.ts";
import { murmur2, partitionFor, partitionKey } from "./partition.ts";
import { encodeUtf8 } from "./utf8.ts";

function keyOf(attributes: Readonly<Record<string, string>>): string {
  const all = { specversion: "1.0", id: "1", source: "/s", type: "t", ...attributes };
  const result = buildEvent({ attributes: Object.entries(all), data: undefined });
  if (!result.ok) throw new Error(JSON.stringify(result.faults));
  return partitionKey(result.value);
}

describe("the partition key", () => {
  test("is the source, with the subject where there is one", () => {
    expect(keyOf({})).toBe("/s");
    expect(keyOf({ subject: "a" })).toBe("/s#a");
  });

  test("is the extension partitionkey where the event has one that is not empty", () => {
    expect(keyOf({ subject: "a", partitionkey: "tenant 1" })).toBe("tenant 1");
    expect(keyOf({ subject: "a", partitionkey: "" })).toBe("/s#a");
  });
});

describe("murmur2", () => {
  // The vectors of Apache Kafka's own test (org.apache.kafka.common.utils.UtilsTest, testMurmur2).
  test.each([
    ["21", -973932308],
    ["foobar", -790332482],
    ["a-little-bit-long-string", -985981536],
    ["a-little-bit-longer-string", -1486304829],
    ["lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971],
    ["abc", 479470107],
  ])("of %s is %d", (text, hash) => {
    expect(murmur2(encodeUtf8(text))).toBe(hash);
  });

  test("places a key as Java's client does: the sign bit cleared, not the absolute value", () => {
    expect(partitionFor("21", 12)).toBe((-973932308 & 0x7fffffff) % 12);
    expect(partitionFor("foobar", 7)).toBe((-790332482 & 0x7fffffff) % 7);
    expect(partitionFor("", 1)).toBe(0);
  });

  test("every partition is within the count, and all are used", () => {
    const used = new Set(Array.from({ length: 1_000 }, (_, at) => partitionFor(`/source/${at}`, 12)));
    expect([...used].toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
  });
});
