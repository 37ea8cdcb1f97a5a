import fc from "fast-check";
import { expect, test } from "vitest";
import { formatEventName, parseEventName } from "./event-name.ts";

test("each part is percent-encoded: unreserved characters stand, every other byte is %XX in capitals", () => {
  expect(formatEventName("/billing", "1")).toBe("events/%2Fbilling:1");
  expect(formatEventName("https://a.b/~c_d-e", "a:b/ä%😀")).toBe(
    "events/https%3A%2F%2Fa.b%2F~c_d-e:a%3Ab%2F%C3%A4%25%F0%9F%98%80",
  );
});

test("a name is read back as the same source and id", () => {
  const part = fc.string({ unit: "grapheme", minLength: 1 });
  fc.assert(
    fc.property(part, part, (source, id) => {
      expect(parseEventName(formatEventName(source, id))).toEqual({ ok: true, value: { source, id } });
    }),
  );
});

test("lower case and needless encodings are read too", () => {
  expect(parseEventName("events/%2fb%61:%31")).toEqual({ ok: true, value: { source: "/ba", id: "1" } });
});

test.each([
  "",
  "events/",
  "events/a",
  "events/a:",
  "events/:a",
  "events/a:b:c",
  "event/a:b",
  "/events/a:b",
  "Events/a:b",
  "events//billing:1",
  "events/a:b ",
  "events/ä:b",
  "events/%:b",
  "events/%C0%A0:b",
  "events/%FF:b",
  "events/a:%ED%A0%80",
])("%j is no event's name", (name) => {
  expect(parseEventName(name)).toMatchObject({
    ok: false,
    faults: [{ field: "name", reason: "INVALID_NAME" }],
  });
});
