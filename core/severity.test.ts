import { expect, test } from "vitest";
import { buildEvent } from "./attributes.ts";
import { severityOf } from "./severity.ts";
import { tagsOf } from "./tags.ts";
import { type CloudEvent } from "./event.ts";

function event(extensions: Readonly<Record<string, string>>): CloudEvent {
  const all = { specversion: "1.0", id: "1", source: "/s", type: "t", ...extensions };
  const result = buildEvent({ attributes: Object.entries(all), data: undefined });
  if (!result.ok) throw new Error(JSON.stringify(result.faults));
  return result.value;
}

test("severitynumber is 1 to 24", () => {
  for (let number = 1; number <= 24; number += 1) {
    expect(severityOf(event({ severitynumber: String(number), severitytext: "strange" }))).toBe(number);
  }
});

test.each(["0", "25", "-1", "09", "1.0", " 9", "9 ", "INFO", "", "1e1"])(
  "severitynumber %j is not recognised, and the text counts",
  (severitynumber) => {
    expect(severityOf(event({ severitynumber }))).toBeUndefined();
    expect(severityOf(event({ severitynumber, severitytext: "WARN" }))).toBe(13);
  },
);

test("severitytext is OpenTelemetry's short names in any case", () => {
  const names = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"];
  names.forEach((name, range) => {
    expect(severityOf(event({ severitytext: name }))).toBe(range * 4 + 1);
    expect(severityOf(event({ severitytext: name.toLowerCase() }))).toBe(range * 4 + 1);
    for (const step of [2, 3, 4])
      expect(severityOf(event({ severitytext: `${name}${step}` }))).toBe(range * 4 + step);
  });
});

test.each(["WARNING", "INFO1", "INFO5", "INFO 2", "", "ınfo", "notice", "constructor"])(
  "severitytext %j is not recognised",
  (severitytext) => {
    expect(severityOf(event({ severitytext }))).toBeUndefined();
  },
);

test("an event without either has no severity", () => {
  expect(severityOf(event({}))).toBeUndefined();
});

test("tags are separated by commas, trimmed, without empty ones, in their order", () => {
  expect(tagsOf(event({}))).toEqual([]);
  expect(tagsOf(event({ tags: "" }))).toEqual([]);
  expect(tagsOf(event({ tags: " b, a b ,,c,b, " }))).toEqual(["b", "a b", "c", "b"]);
});
