import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

import { decodeBatchJson } from "#core/batch-json.ts";
import { createEvaluator } from "#core/filter/evaluate.ts";
import { type ExaminedEvent, examine } from "#core/filter/examine.ts";
import { parseFilter } from "#core/filter/parse.ts";
import { printFilter } from "#core/filter/print.ts";

// docs/filter.md teaches by examples; they are read from the page, so that it says what is so.

const page = readFileSync(fileURLToPath(new URL("../../docs/filter.md", import.meta.url)), "utf8");
const NOON = Date.UTC(2026, 10, 30, 12);

const events: readonly ExaminedEvent[] = readEvents(/```json\n([^]*?)```/.exec(page)?.[1] ?? "");

function readEvents(json: string): ExaminedEvent[] {
  const batch = decodeBatchJson(Buffer.from(json), 100);
  if (!batch.ok) throw new Error(batch.faults[0].description);
  return batch.value.map((decoded, index) => {
    if (!decoded.ok) throw new Error(decoded.faults[0].description);
    const event = decoded.value;
    return examine({
      event,
      acceptTime: (event.time?.seconds ?? 0) * 1_000,
      principal: "page",
      traceParent: undefined,
      traceState: undefined,
      position: { topic: "weir.events.v1", partition: 0, offset: BigInt(101 + index) },
    });
  });
}

/** The rows of the table with these heads, as their cells; the first is a filter. */
function rowsOf(...heads: readonly string[]): string[][] {
  const lines = page.split("\n");
  const start = lines.indexOf(`| ${heads.join(" | ")} |`) + 2;
  const end = lines.findIndex((line, index) => index > start && !line.startsWith("|"));
  return lines.slice(start, end).map((line) => {
    const [filter = "", ...cells] = line
      .slice(1, -1)
      .split(" | ")
      .map((cell) => cell.trim());
    return [filter.replace(/^`(.*)`$/, "$1"), ...cells];
  });
}

const examples = rowsOf("filter", "matches", "because");
const refusals = rowsOf("refused", "because");

describe("docs/filter.md", () => {
  it("has events and twenty examples at least, most of which match some and not all", () => {
    expect(events.map(({ stored }) => stored.event.id)).toEqual([
      "paid",
      "declined",
      "created",
      "full",
      "beat",
    ]);
    expect(examples.length).toBeGreaterThanOrEqual(20);
    expect(examples.filter(([, matches]) => matches !== "none").length).toBeGreaterThanOrEqual(20);
    expect(refusals.length).toBeGreaterThanOrEqual(5);
  });

  it.each(examples)("%s matches %s", (text, matches) => {
    const parsed = parseFilter(text);
    const filter = parsed.ok ? parsed.value : undefined;
    expect(filter).toBeDefined();
    const evaluator = createEvaluator(filter);
    const found = events.filter((event) => evaluator(event, NOON)).map(({ stored }) => stored.event.id);
    expect(found.join(", ") || "none").toBe(matches);
  });

  it.each(refusals)("%s is refused", (text, because) => {
    const parsed = parseFilter(text);
    expect(parsed.ok ? [] : parsed.faults.map(({ description }) => description)).toEqual(
      because.split("<br>"),
    );
  });

  it("says the canonical form of its first example", () => {
    const first = /^ {4}(type = .*)$/m.exec(page)?.[1] ?? "";
    const parsed = parseFilter(first);
    expect(/is `(type = [^`]*)`\.\n$/.exec(page)?.[1]).toBe(
      parsed.ok ? printFilter(parsed.value) : parsed.faults,
    );
  });

  it("has filters in its text that are read", () => {
    const filters = [...page.matchAll(/^ {4}((?:type|source) = .*)$/gm)].map(([, text]) => text ?? "");
    expect(filters).toHaveLength(2);
    for (const text of filters) expect(parseFilter(text).ok).toBe(true);
  });
});
