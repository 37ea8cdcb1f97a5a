import { spawnSync } from "node:child_process";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { readOrCreateSecret } from "./data-folder.ts";

const NOBODY = 65_534;
const isRoot = process.getuid?.() === 0;
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "weir-data-"));
  mkdirSync(join(folder, "log"));
});

afterEach(() => rmSync(folder, { recursive: true }));

/** What an ordinary user is told who opens the data folder. */
function open(): string {
  const script =
    'const { openDataFolder } = await import(process.argv[1]); openDataFolder(); console.log("opened")';
  const { stdout, stderr } = spawnSync(
    process.execPath,
    ["--input-type=module", "-e", script, join(import.meta.dirname, "data-folder.ts")],
    {
      cwd: "/",
      encoding: "utf8",
      env: { WEIR_DEV_DATA_DIR: folder },
      ...(isRoot && { uid: NOBODY, gid: NOBODY }),
    },
  );
  return /^(?:opened|Error: .*|.*Error: The .*)$/m.exec(stdout + stderr)?.[0] ?? stderr;
}

function giveToUser(...paths: string[]): void {
  if (isRoot) for (const path of paths) chownSync(path, NOBODY, NOBODY);
}

describe("the data folder", () => {
  it("opens where all in it may be written", () => {
    writeFileSync(join(folder, "log", "server.log"), "");
    giveToUser(folder, join(folder, "log"), join(folder, "log", "server.log"));
    expect(open()).toBe("opened");
  });

  it("names a file in it that may not be written", () => {
    const log = join(folder, "log", "postgres.log");
    writeFileSync(log, "");
    chmodSync(log, 0o400);
    giveToUser(folder, join(folder, "log"));
    expect(open()).toContain(`The file ${log} cannot be written (EACCES`);
  });

  it.runIf(isRoot)("says whose it is, and what to do", () => {
    expect(open()).toContain(
      `The data folder ${folder} cannot be written (EACCES; it belongs to uid 0): start as that user, ` +
        "give it to yourself (sudo chown -R), or set WEIR_DEV_DATA_DIR to another.",
    );
  });
});

describe("the secret", () => {
  it("is made once", () => {
    const file = join(folder, "jwt-secret");
    const secret = readOrCreateSecret(file);
    expect(secret).toMatch(/^[0-9a-f]{64}$/);
    expect(readOrCreateSecret(file)).toBe(secret);
  });

  it.each(["", "\n", "cut short", "0".repeat(63)])("is refused with its file where that holds %j", (text) => {
    const file = join(folder, "jwt-secret");
    writeFileSync(file, text);
    expect(() => readOrCreateSecret(file)).toThrow(
      `${file} does not hold a key of 64 hexadecimal digits: delete it, and a new one is made.`,
    );
    expect(readFileSync(file, "utf8")).toBe(text);
  });
});
