import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";

import { writeEnvFile } from "./env-file.ts";

it("is read by a shell, holds the settings of services and tokens alone, and is its owner's", () => {
  const folder = mkdtempSync(join(tmpdir(), "weir-env-"));
  const file = join(folder, "env");
  writeFileSync(file, "WEIR_PORT=1", { mode: 0o644 });
  const url = "postgres://weir:it's $HOME@127.0.0.1/weir?a=1&b=2";
  writeEnvFile(file, { WEIR_DATABASE_URL: url, WEIR_JWT_SECRET: "secret", WEIR_PORT: "8080", HOME: "/" });
  const script = `set -a; . "$0"; exec env`;
  const seen = execFileSync("/bin/sh", ["-c", script, file], {
    env: { PATH: process.env["PATH"] },
    encoding: "utf8",
  });
  expect(seen.split("\n").filter((line) => line.startsWith("WEIR_"))).toEqual([
    `WEIR_DATABASE_URL=${url}`,
    "WEIR_JWT_SECRET=secret",
  ]);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  rmSync(folder, { recursive: true });
});
