import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";

import { type FaultProxy, startFaultProxy } from "../sdk/fault-proxy.ts";
import { readTopic } from "../support/topic.ts";
import { startWeir, type Weir } from "../support/weir.ts";
import { type Run, type Running, startCommand } from "./command.ts";

const ROOT = join(import.meta.dirname, "../..");

let weir: Weir;
let proxy: FaultProxy;
let token: string;
let folder: string;
beforeAll(async () => {
  weir = await startWeir();
  proxy = await startFaultProxy(weir.baseUrl);
  token = await weir.token({ scope: "events.write" });
});
afterAll(async () => {
  await proxy[Symbol.asyncDispose]();
  await weir[Symbol.asyncDispose]();
});
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "weir-cli-"));
  return () => rmSync(folder, { recursive: true });
});

function start(
  args: readonly string[],
  options: { readonly input?: string; readonly token?: string } = {},
): Running {
  const env = { WEIR_URL: proxy.baseUrl, WEIR_TOKEN: options.token ?? token };
  return startCommand(args, {
    cwd: folder,
    env,
    ...(options.input !== undefined && { input: options.input }),
  });
}

const weirRun = (...args: Parameters<typeof start>): Promise<Run> => start(...args).ended;
const write = (name: string, text: string): void => writeFileSync(join(folder, name), text);
const read = (name: string): string => readFileSync(join(folder, name), "utf8");
const state = (name: string): { records: number } =>
  JSON.parse(read(`${name}.weir-send.json`)) as { records: number };

function line(source: string, number: number, more: Record<string, unknown> = {}): string {
  const event = { specversion: "1.0", id: String(number), source, type: "t", time: new Date().toISOString() };
  return JSON.stringify({ ...event, subject: `s${String(number % 8)}`, data: { number }, ...more });
}

/** The payloads on the log by id, or what a header has, of one source; each id once, where it first stands. */
async function logged(source: string, asked?: string): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  for (const { headers, value } of await readTopic(weir.brokers, weir.topic)) {
    const header = (name: string): string => String(headers.find(([each]) => each === name)?.[1]);
    if (header("ce_source") === source && !found.has(header("ce_id")))
      found.set(header("ce_id"), asked === undefined ? String(value) : header(asked));
  }
  return found;
}

/** How many events of a type are on the log. */
async function numberOf(type: string): Promise<number> {
  const records = await readTopic(weir.brokers, weir.topic);
  return records.filter(({ headers }) =>
    headers.some(([name, value]) => name === "ce_type" && String(value) === type),
  ).length;
}

test("sends a file, byte for byte, and says what was refused and why", async () => {
  const source = `/cli/${randomUUID()}`;
  const big = line(source, 0).replace('{"number":0}', '{"big": 12345678901234567890, "n": 1.0}');
  const old = line(source, 2, { time: "2001-01-01T00:00:00Z" });
  write(
    "orders.ndjson",
    [big, "{ no JSON", line(source, 1), old, line(source, 3, { id: "" }), ""].join("\n"),
  );
  const { code, stdout, stderr } = await weirRun(["send", "orders.ndjson"]);
  expect(stderr).toBe("");
  expect(stdout).toMatch(
    /^2 events acknowledged, 3 refused, [\d,]+\/s\nWhat was refused, and why: orders\.refused\.ndjson\n$/,
  );
  expect(code).toBe(1);
  expect([...(await logged(source))]).toEqual(
    expect.arrayContaining([
      ["0", '{"big": 12345678901234567890, "n": 1.0}'],
      ["1", '{"number":1}'],
    ]),
  );
  const refused = read("orders.refused.ndjson")
    .trimEnd()
    .split("\n")
    .map((text) => JSON.parse(text) as object);
  expect(refused).toMatchObject([
    { line: 2, reason: "MALFORMED", record: "{ no JSON" },
    { line: 4, reason: "TIME_OUT_OF_WINDOW", record: old, violations: [{ field: "event.attributes.time" }] },
    { line: 5, reason: "INVALID_ATTRIBUTES" },
  ]);
  expect(existsSync(join(folder, "orders.ndjson.weir-send.json"))).toBe(false);
});

test("keeps the text of every time", async () => {
  const source = `/cli/${randomUUID()}`;
  const second = new Date().toISOString().slice(0, "2026-11-01T09:30:00".length);
  const texts = [".5+00:00", ".1234567890123Z", "-00:00", "Z"].map((rest) => `${second}${rest}`);
  write("times.ndjson", texts.map((time, number) => line(source, number, { time })).join("\n"));
  const rows = texts.map((time, number) => `csv${String(number)},${source},t,${time}`);
  write("times.csv", ["id,source,type,time", ...rows].join("\n"));
  for (const name of ["times.ndjson", "times.csv"]) {
    expect(await weirRun(["send", name])).toMatchObject({ code: 0, stderr: "" });
  }
  const wanted = ["", "csv"].flatMap((id) => texts.map((time, number) => [`${id}${String(number)}`, time]));
  expect(Object.fromEntries(await logged(source, "ce_time"))).toEqual(Object.fromEntries(wanted));
});

test("sends CSV, and what comes from standard input", async () => {
  const source = `/cli/${randomUUID()}`;
  const time = new Date().toISOString();
  write("orders.csv", `id,source,type,time,data\na,${source},t,${time},"x, ""y"""\nb,${source},t,${time},\n`);
  expect(await weirRun(["send", "orders.csv"])).toMatchObject({ code: 0, stderr: "" });
  expect(await weirRun(["send", "-"], { input: `${line(source, 7)}\n` })).toMatchObject({
    code: 0,
    stderr: "",
  });
  expect(Object.fromEntries(await logged(source))).toEqual({ a: 'x, "y"', b: "null", 7: '{"number":7}' });
});

test("goes on where it was broken off: by a signal, by a kill, and by a server that went away", async () => {
  const source = `/cli/${randomUUID()}`;
  const count = 30_000;
  write("many.ndjson", Array.from({ length: count }, (_, number) => line(source, number)).join("\n"));
  const stateFile = join(folder, "many.ndjson.weir-send.json");
  const isUnderWay = { timeout: 30_000, interval: 20 };

  const interrupted = start(["send", "many.ndjson"]);
  await expect
    .poll(() => existsSync(stateFile) && state("many.ndjson").records, isUnderWay)
    .toBeGreaterThan(0);
  interrupted.kill("SIGINT");
  expect(await interrupted.ended).toMatchObject({
    code: 3,
    stderr: "Broken off: SIGINT came.\nThe same command goes on from there.\n",
  });
  const first = state("many.ndjson").records;
  expect(first).toBeGreaterThan(0);
  expect(first).toBeLessThan(count);

  const killed = start(["send", "many.ndjson"]);
  await expect.poll(() => state("many.ndjson").records, isUnderWay).toBeGreaterThan(first);
  killed.kill("SIGKILL");
  expect((await killed.ended).code).toBeNull();
  const second = state("many.ndjson").records;

  const last = start(["send", "many.ndjson"]);
  await expect.poll(() => state("many.ndjson").records, isUnderWay).toBeGreaterThan(second);
  proxy.cut();
  const { code, stdout, stderr } = await last.ended;
  expect(stderr).toBe("");
  expect(stdout).toMatch(/^30,000 events acknowledged, 0 refused/);
  expect(code).toBe(0);
  expect((await logged(source)).size).toBe(count);
  expect(existsSync(stateFile)).toBe(false);
}, 120_000);

test("stops at once where the token is no good, and refuses nothing for it", async () => {
  write("orders.ndjson", Array.from({ length: 500 }, (_, number) => line("/cli/alien", number)).join("\n"));
  const alien = await weir.token({ scope: "events.read" });
  const { code, stderr } = await weirRun(["send", "orders.ndjson"], { token: alien });
  expect(stderr).toMatch(/^Broken off: .*events\.write/);
  expect(code).toBe(3);
  expect(readdirSync(folder)).toEqual(["orders.ndjson"]);
});

test.each([
  [["send"], "Name one FILE"],
  [["send", "none.ndjson"], "none.ndjson cannot be read"],
  [["send", "-", "--format", "xml"], "xml is none; there are ndjson and csv"],
  [["send", "-", "--url", "weir"], "--url: baseUrl must be an absolute"],
  [["send", "-", "--speed"], "Unknown option '--speed'"],
  [["generate", "--rate", "0"], "--rate must be a number above 0"],
  [["generate", "--duration", "1d"], "--duration must be a time such as 30s"],
  [["fly"], 'There is no command "fly"'],
])("says what is wrong with %j", async (args, message) => {
  const { code, stdout, stderr } = await weirRun(args);
  expect(stderr).toContain(message);
  expect([code, stdout]).toEqual([2, ""]);
});

test("says what there is, as npx finds it in a clone", async () => {
  const npx = (...args: string[]): Promise<{ stdout: string }> =>
    promisify(execFile)("npx", ["--no-install", "weir", ...args], { cwd: ROOT });
  expect((await npx("--help")).stdout).toMatch(/^Usage: weir COMMAND/);
  expect((await npx("send", "--help")).stdout).toMatch(/^Usage: weir send FILE/);
  expect((await npx("generate", "-h")).stdout).toMatch(/^Usage: weir generate/);
});

test("asks for a token where there is none", async () => {
  expect(await weirRun(["send", "-"], { token: "" })).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("set WEIR_TOKEN") as string,
  });
});

test.each([["a\nb"], ["tökén"], ["a b"]])("says that %j is no token", async (text) => {
  for (const args of [["send", "-"], ["generate"]]) {
    expect(await weirRun(args, { token: text })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("WEIR_TOKEN is no token") as string,
    });
  }
});

test("makes no more events after a signal, and waits little for the answers that are missing", async () => {
  proxy.stall();
  const endless = start(["generate", "--rate", "100"]);
  await expect.poll(() => proxy.connections).toBeGreaterThan(0);
  const before = performance.now();
  endless.kill("SIGINT");
  const { code, stderr } = await endless.ended;
  proxy.resume();
  expect(performance.now() - before).toBeLessThan(20_000);
  expect(code).toBe(1);
  expect(stderr).toMatch(/^The first refusal: Event .* may have been published: /);
});

test("makes events, so many and of the types that are asked for", async () => {
  const type = `com.example.${randomUUID()}`;
  const { code, stdout, stderr } = await weirRun([
    "generate",
    "--rate",
    "500",
    "--count",
    "250",
    "--types",
    type,
  ]);
  expect(stderr).toBe("");
  expect(stdout).toMatch(
    /^250 events acknowledged, 0 refused, [\d,]+\/s, median [\d,]+ ms, 99 % within [\d,]+ ms\n$/,
  );
  expect(code).toBe(0);
  expect(await numberOf(type)).toBe(250);
});

test("makes events at the rate and for the time that are asked for, until it is told to stop", async () => {
  const timed = await weirRun(["generate", "--rate", "200", "--duration", "1s"]);
  const [, made = ""] = /^(\d+) events/.exec(timed.stdout) ?? [];
  expect(Number(made)).toBeGreaterThan(100);
  expect(Number(made)).toBeLessThanOrEqual(201);
  const type = `com.example.${randomUUID()}`;
  const endless = start(["generate", "--rate", "100", "--types", type]);
  await expect.poll(() => numberOf(type), { timeout: 20_000 }).toBeGreaterThan(0);
  endless.kill("SIGINT");
  expect(await endless.ended).toMatchObject({ code: 0, stderr: "" });
});
