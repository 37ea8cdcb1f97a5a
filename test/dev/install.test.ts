import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { environment } from "./launcher.ts";

const root = join(import.meta.dirname, "../..");
const INSTALLING = "installing the locked dependencies (npm ci)";
const TIMEOUT_MS = 60_000;

let clone: string;

/** A clone with nothing to install but what `prepare` itself keeps, and an entry that uses it. */
beforeEach(() => {
  clone = mkdtempSync(join(tmpdir(), "weir-clone-"));
  mkdirSync(join(clone, "dev"));
  cpSync(join(root, "dev", "install.mjs"), join(clone, "dev", "install.mjs"));
  lock("1.0.0");
});

afterEach(() => rmSync(clone, { recursive: true }));

function lock(version: string, scripts: Readonly<Record<string, string>> = {}): void {
  const manifest = { name: "clone", version, scripts };
  writeFileSync(join(clone, "package.json"), JSON.stringify(manifest));
  const lockfile = { ...manifest, lockfileVersion: 3, requires: true, packages: { "": manifest } };
  writeFileSync(join(clone, "package-lock.json"), JSON.stringify(lockfile));
}

/** Starts an entry that first installs what is missing and then runs this script on the Node.js to go on with. */
function startEntry(script: string): {
  readonly kill: (signal: NodeJS.Signals) => void;
  readonly says: (text: string) => Promise<void>;
  readonly ended: Promise<{ code: number | null; stdout: string; stderr: string }>;
} {
  const entry = join(clone, "dev", "entry.mjs");
  writeFileSync(
    entry,
    `import { prepare, run } from "./install.mjs";
     process.exitCode = await run(await prepare(), ["-e", ${JSON.stringify(script)}]);`,
  );
  const child = spawn(process.execPath, [entry], { env: environment(), stdio: ["ignore", "pipe", "pipe"] });
  const output = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output.stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (output.stderr += text));
  return {
    kill: (signal) => child.kill(signal),
    async says(text) {
      while (!output.stdout.includes(text)) await once(child.stdout, "data");
    },
    ended: once(child, "close").then(([code]) => ({ code: code as number | null, ...output })),
  };
}

describe("what a command installs before it begins", { timeout: TIMEOUT_MS }, () => {
  it("is everything the first time, nothing the second, and everything again once the lock has changed", async () => {
    const first = await startEntry('console.log("began")').ended;
    expect(first).toMatchObject({ code: 0, stdout: expect.stringContaining("began") as string });
    expect(first.stderr).toContain(INSTALLING);
    expect(existsSync(join(clone, ".weir", "install.lock"))).toBe(false);

    const second = await startEntry('console.log("began")').ended;
    expect(second).toMatchObject({ code: 0, stdout: "began\n" });
    expect(second.stderr).not.toContain(INSTALLING);

    lock("1.0.1");
    expect((await startEntry("").ended).stderr).toContain(INSTALLING);
  });

  it("is installed once where two begin together", async () => {
    const both = await Promise.all([startEntry("").ended, startEntry("").ended]);
    expect(both.map(({ code }) => code)).toEqual([0, 0]);
    expect(both.filter(({ stderr }) => stderr.includes(INSTALLING))).toHaveLength(1);
  });

  it("ends the command with a line where it cannot be installed", async () => {
    writeFileSync(join(clone, "package-lock.json"), "{");
    const { code, stderr } = await startEntry('console.log("began")').ended;
    expect(code).toBe(1);
    expect(stderr).toMatch(/^The dependencies could not be installed: npm ci ended with exit code \d+\.$/m);
  });
});

describe.each([
  ["SIGINT", 130],
  ["SIGTERM", 143],
] as const)("an installation that is interrupted by %s", (signal, status) => {
  it("ends with one line and is begun again the next time", { timeout: TIMEOUT_MS }, async () => {
    lock("1.0.0", { preinstall: "echo > begun; exec sleep 20" });
    const entry = startEntry('console.log("began")');
    await vi.waitFor(() => expect(existsSync(join(clone, "begun"))).toBe(true), { timeout: 30_000 });
    entry.kill(signal);
    const { code, stdout, stderr } = await entry.ended;
    expect(code).toBe(status);
    expect(stdout).not.toMatch(/^began$/m);
    expect(stderr).toContain("\ninterrupted\n");
    expect(stderr).not.toContain("could not be installed");
    lock("1.0.0");
    expect((await startEntry("").ended).stderr).toContain(INSTALLING);
  });
});

describe("the command that runs then", { timeout: TIMEOUT_MS }, () => {
  it("goes on with the current Node.js, and says so, where there is no pinned one", async () => {
    const { stdout, stderr } = await startEntry("console.log(process.version)").ended;
    expect(stdout).toContain(process.version);
    expect(stderr).toContain(`No pinned Node.js for this platform: going on with ${process.version}.`);
  });

  it("gives its exit code", async () => {
    expect((await startEntry("process.exit(7)").ended).code).toBe(7);
  });

  it("gets a signal once, however often it is passed on in that moment", async () => {
    const script = `
      let count = 0;
      process.on("SIGINT", () => {
        count++;
        console.log("interrupted");
        setTimeout(() => process.exit(count), 1000);
      });
      setInterval(() => {}, 1000);
      console.log("ready");`;
    const entry = startEntry(script);
    await entry.says("ready");
    entry.kill("SIGINT");
    await entry.says("interrupted");
    entry.kill("SIGINT");
    expect((await entry.ended).code).toBe(1);
  });

  it("tells of the signal that ended it", async () => {
    expect((await startEntry('process.kill(process.pid, "SIGTERM")').ended).code).toBe(128 + 15);
  });
});
