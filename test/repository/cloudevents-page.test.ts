import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

// docs/cloudevents.md says which test shows which rule; a test that was renamed or went must take its name there along.

function read(path: string): string {
  return readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), "utf8");
}

/** The rows of the page's tables as their cells, heads and rulers left out. */
const rows = read("docs/cloudevents.md")
  .split("\n")
  .filter((line) => line.startsWith("|") && !line.startsWith("|---") && !line.startsWith("| section |"))
  .map((line) => line.slice(2, -2).split(" | "));

const shown = rows
  .flatMap((cells) => (cells.at(-1) ?? "").split("<br>"))
  .flatMap((text) => [...text.matchAll(/`(\S+\.test\.ts)` › (.+)$/g)])
  .map(([, file = "", title = ""]) => ({ file, title }));

/** Whether the file has a test of that title: a string right after the bracket of a call of test or it, `each` too. */
function hasTest(file: string, title: string): boolean {
  const source = read(file);
  const literals = [JSON.stringify(title), `'${title}'`, `\`${title}\``];
  return literals.some((literal) => source.split(literal).slice(0, -1).some(endsInCall));
}

function endsInCall(before: string): boolean {
  return /(?:^|\n)\s*(?:test|it)\(\s*$/.test(before) || /\)\(\s*$/.test(before);
}

it("every test that docs/cloudevents.md names is there", () => {
  const missing = shown.filter(({ file, title }) => !hasTest(file, title));
  expect(missing).toEqual([]);
  expect(shown.length).toBeGreaterThan(80);
});

it("every rule of docs/cloudevents.md names a test, or says whose it is", () => {
  const bare = rows.filter((cells) => !/\.test\.ts` › |^(?:The |Not Weir's)/.test(cells.at(-1) ?? ""));
  expect(bare).toEqual([]);
  expect(new Set(rows.map(({ length }) => length))).toEqual(new Set([3, 4]));
});

it("a title that no test has is missed, be it part of one or a word of a comment", () => {
  const file = "core/attributes.test.ts";
  expect(hasTest(file, 'the name "data" is reserved')).toBe(true);
  expect(hasTest(file, "%s is required and not empty")).toBe(true);
  for (const title of ["the name", "is reserved", "REQUIRED", "CloudEvents, required attributes"]) {
    expect([title, hasTest(file, title)]).toEqual([title, false]);
  }
});
