import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, vi } from "vitest";

import { identify, isAlive } from "./identity.ts";

const leashModule = join(import.meta.dirname, "leash.ts");

/** A process that ties three others to itself, unties the second, and says which they are. */
const PARENT = `
import { spawn } from "node:child_process";
const { leash } = await import(process.argv[1]);
const pids = Array.from({ length: 3 }, () => spawn("sleep", ["60"], { detached: true, stdio: "ignore" }).pid);
const untie = pids.map((pid) => leash(pid));
untie[1]();
console.log(JSON.stringify(pids));
setInterval(() => {}, 1000);
`;

it("ends what is tied to a process when that is killed, and nothing else", async () => {
  const parent = spawn(process.execPath, ["--input-type=module", "-e", PARENT, leashModule]);
  const [line] = (await once(parent.stdout.setEncoding("utf8"), "data")) as [string];
  const children = (JSON.parse(line) as number[]).map((pid) => {
    const identity = identify(pid);
    if (identity === undefined) throw new Error(`there is no process ${pid}`);
    return identity;
  });
  parent.kill("SIGKILL");
  await once(parent, "exit");
  await vi.waitFor(() => expect(children.map(isAlive)).toEqual([false, true, false]), { timeout: 5_000 });
  process.kill(children[1]?.pid ?? 0, "SIGKILL");
});

/** Ties two processes that take a while to end in order, each of which says when it does. */
const ORDERLY = `
import { spawn } from "node:child_process";
const { leash } = await import(process.argv[1]);
const start = (name, signal) => {
  const script = 'trap "sleep 0.3; echo ' + name + ' >> $0; exit" ' + signal + '; echo ready; while :; do sleep 0.05; done';
  return spawn("sh", ["-c", script, process.argv[2]], { detached: true, stdio: ["ignore", "pipe", "ignore"] });
};
const [first, last] = [start("first", "INT"), start("last", "TERM")];
await Promise.all([first, last].map((each) => new Promise((resolve) => each.stdout.once("data", resolve))));
leash(first.pid, "SIGINT");
leash(last.pid, "SIGTERM");
console.log("tied");
setInterval(() => {}, 1000);
`;

it("ends them in order, the last first, each by its own signal", async () => {
  const folder = mkdtempSync(join(tmpdir(), "weir-leash-"));
  const file = join(folder, "ends");
  const parent = spawn(process.execPath, ["--input-type=module", "-e", ORDERLY, leashModule, file]);
  await once(parent.stdout, "data");
  parent.kill("SIGKILL");
  await vi.waitFor(() => expect(readFileSync(file, "utf8")).toBe("last\nfirst\n"), { timeout: 10_000 });
  rmSync(folder, { recursive: true });
});

it("does not keep a process that has nothing else to do", async () => {
  const script = `const { leash } = await import(process.argv[1]); leash(process.ppid)();`;
  const parent = spawn(process.execPath, ["--input-type=module", "-e", script, leashModule]);
  expect(await once(parent, "exit")).toEqual([0, null]);
});
