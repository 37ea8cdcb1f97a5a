import { expect, test } from "vitest";
import { parseFilter } from "#core/filter/parse.ts";
import { adviceFor } from "./advice.ts";

const TIME = "bound the time, such as time >= now-1d";
const INDEX =
  "add a condition that an index serves: = on type, source, subject, severity, ext.NAME or data.PATH, tags:VALUE, or a word";

test.each([
  ["", [TIME, INDEX]],
  ["data.x > 5 AND -type = a", [TIME, INDEX]],
  ["data.x > 5 time <= now-1d", [TIME, INDEX]],
  ["type = a OR time > now-1d", [TIME, INDEX]],
  ["type = a", [TIME]],
  ["time >= now-1h data.x:*", [INDEX]],
  ["time >= now-1h word", ["bound the time more closely, or add a further condition"]],
])("a search for %j that takes too long is told what it lacks", (text, lacks) => {
  const parsed = parseFilter(text);
  if (!parsed.ok) throw new Error(parsed.faults[0].description);
  expect(adviceFor({ filter: parsed.value, now: 0 })).toBe(`Narrow the filter: ${lacks.join("; ")}.`);
});
