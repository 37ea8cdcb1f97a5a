import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";

import { identify, identifyFolder } from "./identity.ts";
import { acquireLock, type Lock } from "./lock.ts";

const URL = "http://127.0.0.1:8080";
let folder: string;
let file: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "weir-lock-"));
  file = join(folder, "lock");
});

afterEach(() => rmSync(folder, { recursive: true }));

function acquired(): Lock {
  const lock = acquireLock(file, URL);
  if (!("release" in lock)) throw new Error("the lock is held");
  return lock;
}

it("is held by one, and tells the second who holds it and where that serves", () => {
  const lock = acquired();
  const holder = { ...identify(process.pid), url: URL, stopping: false, folder: identifyFolder(folder) };
  expect(acquireLock(file, "http://elsewhere")).toEqual(holder);
  lock.release();
});

it("leaves nothing behind when released, and can be taken again", () => {
  acquired().release();
  expect(readdirSync(folder)).toEqual([]);
  acquired().release();
});

it("tells that its holder is on its way out", () => {
  const lock = acquired();
  lock.markStopping();
  expect(acquireLock(file, URL)).toMatchObject({ pid: process.pid, stopping: true });
  lock.release();
});

it("is taken over from a process that is gone", async () => {
  const other = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
  const identity = identify(other.pid ?? 0);
  writeFileSync(
    file,
    JSON.stringify({ ...identity, url: URL, stopping: false, folder: identifyFolder(folder) }),
  );
  expect(acquireLock(file, URL)).toMatchObject({ pid: other.pid });
  other.kill("SIGKILL");
  await once(other, "exit");
  acquired().release();
});

it("is taken over where the holder's id belongs to another process by now", () => {
  writeFileSync(
    file,
    JSON.stringify({
      pid: process.ppid,
      started: "another time",
      url: URL,
      stopping: false,
      folder: identifyFolder(folder),
    }),
  );
  const lock = acquired();
  expect(JSON.parse(readFileSync(file, "utf8"))).toMatchObject({ pid: process.pid });
  lock.release();
});

it("is free in a copy of a folder that is locked, and still held where that was moved", () => {
  const lock = acquired();
  const copy = join(folder, "copy");
  cpSync(folder, `${folder}-copy`, { recursive: true });
  renameSync(`${folder}-copy`, copy);
  const other = acquireLock(join(copy, "lock"), URL);
  expect(other).toHaveProperty("release");
  if ("release" in other) other.release();
  const moved = `${folder}-moved`;
  renameSync(folder, moved);
  expect(acquireLock(join(moved, "lock"), URL)).toMatchObject({ pid: process.pid });
  renameSync(moved, folder);
  lock.release();
});

it("is taken over where it was cut short", () => {
  writeFileSync(file, '{"pid": 1');
  const lock = acquired();
  expect(JSON.parse(readFileSync(file, "utf8"))).toMatchObject({ pid: process.pid });
  lock.release();
  expect(existsSync(file)).toBe(false);
});
