import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";

import { startChild, untilReady } from "./child.ts";

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "weir-child-"));
});

afterEach(() => rmSync(folder, { recursive: true }));

it("is not ready where it has ended and somebody else answers in its place", async () => {
  const child = await startChild({
    name: "server",
    command: "sh",
    args: ["-c", "echo the port is taken; exit 1"],
    logFile: join(folder, "server.log"),
  });
  await child.exited;
  await expect(untilReady(child, () => true, { timeoutMs: 1_000 })).rejects.toThrow(
    /^server \(process \d+\) ended with exit code 1\.\n {4}the port is taken\n/,
  );
});
