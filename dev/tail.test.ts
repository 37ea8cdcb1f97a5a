import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";

import { describeEnd, startChild } from "./child.ts";
import { tailOf } from "./tail.ts";

let folder: string;
let file: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "weir-tail-"));
  file = join(folder, "part.log");
});

afterEach(() => rmSync(folder, { recursive: true }));

it("tells the end of a process by what that wrote, not by what a former one did", async () => {
  writeFileSync(file, "FATAL: of yesterday\n");
  const child = await startChild({
    name: "part",
    command: "sh",
    args: ["-c", "echo of today; exit 3"],
    logFile: file,
  });
  await child.exited;
  expect(describeEnd(child)).toBe(
    `part (process ${child.pid}) ended with exit code 3.\n    of today\n  log: ${file}`,
  );
});

it("says where nothing was written", async () => {
  writeFileSync(file, "of yesterday\n");
  const child = await startChild({ name: "part", command: "sh", args: ["-c", "exit 3"], logFile: file });
  await child.exited;
  expect(describeEnd(child)).toContain("    (nothing was written)\n");
});

it("takes the last eight lines, and all of a log that was begun anew meanwhile", () => {
  for (let line = 1; line <= 20; line++) appendFileSync(file, `${line}\n`);
  expect(tailOf(file, 0)).toBe(
    `${[13, 14, 15, 16, 17, 18, 19, 20].map((line) => `    ${line}\n`).join("")}  log: ${file}`,
  );
  writeFileSync(file, "new\n");
  expect(tailOf(file, 1000)).toBe(`    new\n  log: ${file}`);
});
