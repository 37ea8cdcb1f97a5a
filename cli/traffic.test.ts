import { expect, test } from "vitest";
import { attributeOf, dataOf } from "../sdk/index.ts";
import { createTraffic, TRAFFIC_TYPES } from "./traffic.ts";

test("makes events of every type, whole and each its own", () => {
  const make = createTraffic(TRAFFIC_TYPES);
  const events = Array.from({ length: 2_000 }, make);
  expect(new Set(events.map(({ type }) => type))).toEqual(new Set(TRAFFIC_TYPES));
  expect(new Set(events.map(({ id }) => id)).size).toBe(events.length);
  for (const event of events) {
    expect(attributeOf(event, "subject")).toMatch(/^[a-z]+-\d+$/);
    expect(JSON.parse(new TextDecoder().decode(dataOf(event)))).toBeTypeOf("object");
  }
});

test("makes plain events of a type that it does not know", () => {
  const make = createTraffic(["com.example.mine"]);
  expect([make(), make()].map((event) => [event.type, new TextDecoder().decode(dataOf(event))])).toEqual([
    ["com.example.mine", '{"number":1}'],
    ["com.example.mine", '{"number":2}'],
  ]);
});
