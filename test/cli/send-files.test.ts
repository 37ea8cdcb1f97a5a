import { execFileSync, spawn, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";

import { readTopic } from "../support/topic.ts";
import { startWeir, type Weir } from "../support/weir.ts";
import { type Run, type Running, startCommand } from "./command.ts";

// What `weir send` does with the files of others, and with what is no file.

let weir: Weir;
let env: { readonly WEIR_URL: string; readonly WEIR_TOKEN: string };
let folder: string;
beforeAll(async () => {
  weir = await startWeir();
  env = { WEIR_URL: weir.baseUrl, WEIR_TOKEN: await weir.token({ scope: "events.write" }) };
});
afterAll(async () => await weir[Symbol.asyncDispose]());
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "weir-cli-"));
  return () => rmSync(folder, { recursive: true });
});

const start = (...args: readonly string[]): Running => startCommand(["send", ...args], { cwd: folder, env });
/** Sends what comes through standard input, which does not end. */
const startOpen = (input: string, more: Partial<typeof env> = {}): Running =>
  startCommand(["send", "-"], { cwd: folder, env: { ...env, ...more }, input, staysOpen: true });
const send = (...args: readonly string[]): Promise<Run> => start(...args).ended;
const write = (name: string, text: string): void => writeFileSync(join(folder, name), text);
const read = (name: string): string => readFileSync(join(folder, name), "utf8");

function lines(count: number, source: string): string {
  const line = (number: number): string =>
    JSON.stringify({
      specversion: "1.0",
      id: String(number),
      source,
      type: "t",
      time: new Date().toISOString(),
    });
  return Array.from({ length: count }, (_, number) => `${line(number)}\n`).join("");
}

/** How many events of a source are on the log, each id once. */
async function numberOf(source: string): Promise<number> {
  const ids = new Set<string>();
  for (const { headers } of await readTopic(weir.brokers, weir.topic)) {
    const header = (name: string): string => String(headers.find(([each]) => each === name)?.[1]);
    if (header("ce_source") === source) ids.add(header("ce_id"));
  }
  return ids.size;
}

test("never deletes or overwrites what it did not make", async () => {
  write("orders.ndjson", lines(1, "/files"));
  write("orders.csv", "id\n1\n");
  write("orders.refused.ndjson", "of a run before\n");
  write("notes.txt", "mine\n");
  const names = ["notes.txt", "orders.csv", "orders.ndjson", "orders.refused.ndjson"];
  const before = names.map(read);
  for (const taken of ["orders.ndjson", "notes.txt", "orders.ndjson.weir-send.json", "."]) {
    const run = await send("orders.ndjson", "--refused", taken);
    expect(run).toMatchObject({ code: 2, stdout: "" });
    expect(run.stderr).toContain("is there already");
  }
  expect(await send("orders.ndjson")).toMatchObject({ code: 0, stderr: "" });
  expect(readdirSync(folder).toSorted()).toEqual(names);
  expect(names.map(read)).toEqual(before);

  const refused = await send("orders.csv");
  expect(refused.code).toBe(1);
  expect(refused.stdout).toContain("What was refused, and why: orders.refused-2.ndjson\n");
  expect(JSON.parse(read("orders.refused-2.ndjson"))).toMatchObject({ line: 2, record: "1" });
  expect(names.map(read)).toEqual(before);
});

test.each([
  ["a folder", ["."], "neither a file nor a pipe"],
  [
    "a place for refusals that is not there",
    ["ok.ndjson", "--refused", "no/such/file"],
    "What is refused cannot be written",
  ],
  ["a file beside which nothing can be written", ["/proc/version"], "cannot be kept beside the file"],
])("says at the start that %s is of no use", async (_, args, message) => {
  write("ok.ndjson", lines(1, "/files"));
  const run = await send(...args);
  expect(run).toMatchObject({ code: 2, stdout: "" });
  expect(run.stderr).toContain(message);
  expect(run.stderr).not.toMatch(/^ +at /m);
  expect(readdirSync(folder)).toEqual(["ok.ndjson"]);
});

test("sends what comes through a pipe with a name, as of a process substitution", async () => {
  const source = `/files/${randomUUID()}`;
  execFileSync("mkfifo", [join(folder, "pipe")]);
  const running = start("pipe");
  const writer = spawn("sh", ["-c", "cat > pipe"], { cwd: folder, stdio: ["pipe", "ignore", "ignore"] });
  writer.stdin.end(`${lines(300, source)}nonsense\n`);
  expect(await running.ended).toMatchObject({ code: 1, stderr: "" });
  expect(await numberOf(source)).toBe(300);
  expect(readdirSync(folder).toSorted()).toEqual(["pipe", "stdin.refused.ndjson"]);
});

test("stops by a signal, and for a token that is no good, while its input goes on", async () => {
  const source = `/files/${randomUUID()}`;
  const running = startOpen(lines(3, source));
  await expect.poll(() => numberOf(source)).toBe(3);
  running.kill("SIGINT");
  const { code, stdout, stderr } = await running.ended;
  expect(code).toBe(3);
  expect(stdout).toMatch(/^3 events acknowledged/);
  expect(stderr).toMatch(/^Broken off: SIGINT came\.\nSend the whole input again/);

  const token = await weir.token({ scope: "events.read" });
  expect(await startOpen(lines(3, source), { WEIR_TOKEN: token }).ended).toMatchObject({
    code: 3,
    stderr: expect.stringContaining("events.write") as string,
  });
});

test("sends what stands around a record that is none, however large or broken that is", async () => {
  const source = `/files/${randomUUID()}`;
  const time = new Date().toISOString();
  const [before, , after] = lines(3, source).split("\n");
  const giant = `{"data":"${"x".repeat(17 * 1024 * 1024)}"}`;
  // Its protobuf is larger than a message may be, while its line is not longer than is read.
  const many = Object.fromEntries(
    Array.from({ length: 40 }, (_, at) => [`x${String(at)}`, "y".repeat(420_000)]),
  );
  const large = JSON.stringify({ specversion: "1.0", id: "large", source, type: "t", time, ...many });
  write("giant.ndjson", [before, giant, large, after].join("\n"));
  const csv = (id: string): Buffer => Buffer.from(`${id},${source},t,${time}\n`);
  const rows = [
    "id,source,type,time\n",
    csv("a"),
    '2,"a"b,t,x\n',
    Buffer.from([0xe9, 0x0a]),
    csv("b"),
    '"c',
    csv("d"),
  ];
  writeFileSync(join(folder, "broken.csv"), Buffer.concat(rows.map((row) => Buffer.from(row))));
  for (const [name, told] of [
    ["giant", "2 events acknowledged, 2 refused"],
    ["broken", "2 events acknowledged, 3 refused"],
  ] as const) {
    const run = await send(name === "giant" ? "giant.ndjson" : "broken.csv");
    expect([run.code, run.stderr]).toEqual([1, ""]);
    expect(run.stdout).toContain(told);
  }
  expect(await numberOf(source)).toBe(4);
});

test("is done by one of several runs that are begun together, and whole", async () => {
  const source = `/files/${randomUUID()}`;
  write("many.ndjson", `${lines(5_000, source)}nonsense\n`);
  const runs = await Promise.all([1, 2, 3].map(async () => await send("many.ndjson")));
  const [ended, turnedAway] = [runs.filter(({ code }) => code === 1), runs.filter(({ code }) => code === 2)];
  expect(ended.length).toBeGreaterThan(0);
  expect(ended.length + turnedAway.length).toBe(3);
  for (const { stderr } of ended) expect(stderr).toBe("");
  for (const { stderr } of turnedAway)
    expect(stderr).toMatch(/^Another run \(process \d+\) is sending this file/);
  expect(await numberOf(source)).toBe(5_000);
});

test("ends well where nobody reads what it says", async () => {
  write("orders.ndjson", `nonsense\n${lines(1, "/files")}`);
  const command = `"${process.execPath}" "${join(import.meta.dirname, "../../cli/weir.mjs")}"`;
  const told = (args: string): string =>
    spawnSync("bash", ["-c", `{ ${command} ${args}; echo "code $?" >&2; } | head -c 0`], {
      cwd: folder,
      env: { ...process.env, ...env },
      encoding: "utf8",
    }).stderr;
  expect(told("send orders.ndjson")).toBe("code 1\n");
  expect(told("--help")).toBe("code 0\n");
  expect(told("nothing 2>&1")).toBe("code 2\n");
});
