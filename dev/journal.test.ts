import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";

import { isAlive, identify } from "./identity.ts";
import { createJournal, stopLeftovers } from "./journal.ts";

let folder: string;
let file: string;
const started: ChildProcess[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "weir-journal-"));
  file = join(folder, "run.json");
});

afterEach(() => {
  for (const child of started.splice(0)) child.kill("SIGKILL");
  rmSync(folder, { recursive: true });
});

/** A process that runs a script and has said that it is ready. */
async function startNode(script: string): Promise<{ child: ChildProcess; pid: number }> {
  const child = spawn(process.execPath, [
    "-e",
    `${script}; console.log("ready"); setInterval(() => {}, 1000)`,
  ]);
  started.push(child);
  await once(child.stdout, "data");
  return { child, pid: child.pid ?? 0 };
}

it("stops what an earlier process left, the last first, each with its own signal", async () => {
  const journal = createJournal(file);
  const first = await startNode('process.on("SIGINT", () => process.exit(11))');
  const second = await startNode('process.on("SIGTERM", () => process.exit(12))');
  journal.add({ name: "first", pid: first.pid, stopSignal: "SIGINT" });
  journal.add({ name: "second", pid: second.pid, stopSignal: "SIGTERM" });
  const ends = Promise.all([once(first.child, "exit"), once(second.child, "exit")]);

  expect(await stopLeftovers(file)).toEqual(["second", "first"]);
  expect((await ends).map(([code]) => code as number)).toEqual([11, 12]);
  expect(existsSync(file)).toBe(false);
});

it("forces what does not end by itself", async () => {
  const stubborn = await startNode('process.on("SIGTERM", () => {})');
  createJournal(file).add({ name: "stubborn", pid: stubborn.pid, stopSignal: "SIGTERM" });
  const end = once(stubborn.child, "exit");
  await stopLeftovers(file, 50);
  expect(await end).toEqual([null, "SIGKILL"]);
});

it("leaves a process alone that merely has the id of one that is gone", async () => {
  const stranger = await startNode("");
  createJournal(file).add({ name: "server", pid: stranger.pid, stopSignal: "SIGTERM" });
  const text = readFileSync(file, "utf8");
  writeFileSync(file, text.replaceAll(/"started": "[^"]*"/g, '"started": "another time"'));

  expect(await stopLeftovers(file)).toEqual([]);
  const identity = identify(stranger.pid);
  expect(identity !== undefined && isAlive(identity)).toBe(true);
});

it("leaves alone what the journal in the original of a copied folder lists", async () => {
  const original = await startNode("");
  createJournal(file).add({ name: "server", pid: original.pid, stopSignal: "SIGTERM" });
  const copy = join(folder, "copy");
  mkdirSync(copy);
  cpSync(file, join(copy, "run.json"));

  expect(await stopLeftovers(join(copy, "run.json"))).toEqual([]);
  const identity = identify(original.pid);
  expect(identity !== undefined && isAlive(identity)).toBe(true);
});

it("waits for a watcher that is stopping them, and stops what that leaves", async () => {
  const watcher = await startNode('process.on("SIGTERM", () => process.exit(0))');
  const server = await startNode('process.on("SIGTERM", () => process.exit(12))');
  createJournal(file).add({ name: "server", pid: server.pid, stopSignal: "SIGTERM" }, watcher.pid);
  const ends: string[] = [];
  watcher.child.once("exit", () => ends.push("watcher"));
  server.child.once("exit", () => ends.push("server"));
  const stopped = stopLeftovers(file);
  // Long enough for a stop that does not wait to be seen.
  await delay(300);
  expect(ends).toEqual([]);
  watcher.child.kill("SIGTERM");
  expect(await stopped).toEqual(["server"]);
  // We may hear of its end later than who asked for it.
  await expect.poll(() => ends).toEqual(["watcher", "server"]);
});

it("finds nothing to do where there is no journal, or one that was cut short", async () => {
  expect(await stopLeftovers(file)).toEqual([]);
  writeFileSync(file, '[{"name": "server", "pid"');
  expect(await stopLeftovers(file)).toEqual([]);
});
