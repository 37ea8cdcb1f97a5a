import { createHash } from "node:crypto";
import { tmpdir } from "node:os";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { type StoredEvent } from "#core/event.ts";
import { insertEvents } from "#postgres/events.ts";
import { transaction } from "#postgres/tx.ts";

import { openDatabase, sketchEvent } from "../postgres/fixture.ts";
import { type FaultProxy, startFaultProxy } from "../sdk/fault-proxy.ts";
import { startWeir, type Weir } from "../support/weir.ts";
import { type Run, type Running, startCommand } from "./command.ts";

const COUNT = 2_000;
/** Payloads of 20 KB, so that an export takes its time; every second one is of a type. */
const EVENTS: readonly StoredEvent[] = Array.from({ length: COUNT }, (_, index) =>
  sketchEvent({
    id: `e${index}`,
    source: "/cli",
    type: index % 2 === 0 ? "com.acme.even" : "com.acme.odd",
    time: new Date(Date.now() - 3_600_000 + index * 100).toISOString(),
    datacontenttype: "application/json",
    data: new TextEncoder().encode(`{"n":${index},\n"pad":"${"x".repeat(20_000)}"}`),
    offset: BigInt(index),
  }),
);

let weir: Weir;
let proxy: FaultProxy;
let token: string;
beforeAll(async () => {
  weir = await startWeir();
  proxy = await startFaultProxy(weir.baseUrl);
  token = await weir.token({ scope: "events.read" });
  await using database = openDatabase(weir.databaseUrl);
  for (let at = 0; at < COUNT; at += 200)
    await transaction(database, (tx) => insertEvents(tx, EVENTS.slice(at, at + 200)));
}, 60_000);
afterAll(async () => {
  await proxy[Symbol.asyncDispose]();
  await weir[Symbol.asyncDispose]();
});

function start(...args: readonly string[]): Running {
  return startCommand(args, { cwd: tmpdir(), env: { WEIR_URL: proxy.baseUrl, WEIR_TOKEN: token } });
}

interface Line {
  readonly id: string;
  readonly type: string;
  readonly data_base64?: string;
}

const linesOf = ({ stdout }: Pick<Run, "stdout">): Line[] =>
  stdout.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Line]));
const idsOf = (run: Pick<Run, "stdout">): string[] => linesOf(run).map(({ id }) => id);
const newestFirst = EVENTS.map(({ event }) => event.id).toReversed();

async function openStreams(): Promise<number> {
  const page = await (await fetch(`${weir.baseUrl}/metrics`)).text();
  return Number(/^weir_streams_active (\d+)/m.exec(page)?.[1] ?? 0);
}
const untilStreaming = (): Promise<void> =>
  expect.poll(openStreams, { interval: 5, timeout: 10_000 }).toBe(1);

describe("weir search", () => {
  test("prints what matches as lines of CloudEvents without data, the newest first, page after page", async () => {
    const run = await start("search", "type = com.acme.even", "--limit", "601").ended;
    expect(run).toMatchObject({ code: 0, stderr: "" });
    expect(idsOf(run)).toEqual(newestFirst.filter((id) => Number(id.slice(1)) % 2 === 0).slice(0, 601));
    expect(linesOf(run)[0]).toMatchObject({ specversion: "1.0", source: "/cli", type: "com.acme.even" });
    expect(linesOf(run)[0]).not.toHaveProperty("data_base64");
    expect(idsOf(await start("search", "--oldest", "--limit", "2").ended)).toEqual(["e0", "e1"]);
    expect(idsOf(await start("search").ended)).toHaveLength(50);
    expect(await start("search", "id = none").ended).toEqual({ code: 0, stdout: "", stderr: "" });
  });

  test("says all that is wrong with a filter, and with the command", async () => {
    const { code, stderr, stdout } = await start("search", 'typ = "a" severity = BAD').ended;
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(/filter: At 0: .*Did you mean type\?.*\n.*filter: At 21: .*BAD/);
    for (const args of [["a", "b"], ["--limit", "0"], ["--limit", "x"], ["--nothing"]]) {
      expect(await start("search", ...args).ended).toMatchObject({ code: 2, stdout: "" });
    }
    const refused = await start("search", "--token", await weir.token({ scope: "events.write" })).ended;
    expect(refused).toMatchObject({ code: 3, stderr: expect.stringContaining("events.read") as string });
  });
});

describe("weir export", () => {
  test("writes every event once, with its data byte for byte, over connections that break", async () => {
    const running = start("export");
    for (let cuts = 0; cuts < 3; cuts++) {
      await untilStreaming();
      proxy.stall();
      proxy.cut();
      await expect.poll(openStreams, { timeout: 10_000 }).toBe(0);
      proxy.resume();
    }
    const run = await running.ended;
    expect(run).toMatchObject({ code: 0, stderr: "" });
    expect(idsOf(run)).toEqual(newestFirst);
    const hash = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
    expect(linesOf(run).map((line) => hash(Buffer.from(line.data_base64 ?? "", "base64")))).toEqual(
      EVENTS.toReversed().map(({ event }) => hash(event.data!.bytes)),
    );
  }, 60_000);

  test("broken off says how to go on, and goes on without a gap or a repeat", async () => {
    const running = start("export", "--oldest", "type = com.acme.*");
    await untilStreaming();
    running.kill("SIGINT");
    const first = await running.ended;
    expect(first.code).toBe(3);
    const written = idsOf(first);
    const resume = /--resume (\S+) >> FILE/.exec(first.stderr)?.[1];
    expect([written.length > 0, written.length < COUNT]).toEqual([resume !== undefined, true]);
    const args = ["--oldest", ...(resume === undefined ? [] : ["--resume", resume])];
    const rest = await start("export", ...args, '(type:"com.acme.*")').ended;
    expect(rest).toMatchObject({ code: 0, stderr: "" });
    expect([...written, ...idsOf(rest)]).toEqual(newestFirst.toReversed());
  }, 60_000);

  test("says what is wrong with its filter, its token and its order, and tries that once", async () => {
    expect(await start("export", "type =").ended).toMatchObject({ code: 2, stdout: "" });
    const refused = await start("export", "--resume", "made-up").ended;
    expect(refused).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("page_token: The page token") as string,
    });
  });
});
