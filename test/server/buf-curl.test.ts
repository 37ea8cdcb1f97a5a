import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { startWeir, type Weir } from "../support/weir.ts";
import { publish, sql } from "./poison.ts";

const ROOT = join(import.meta.dirname, "../..");
const BUF = join(ROOT, "node_modules/.bin/buf");

const EVENT = {
  id: "1",
  source: "/buf-curl",
  specVersion: "1.0",
  type: "com.example.tried",
  attributes: { time: { ceTimestamp: new Date().toISOString() } },
  textData: "hello",
};
const NAME = "events/%2Fbuf-curl:1";

let weir: Weir;
let token: string;
/** Two redrives, which no worker takes. */
const [OPEN, ENDED] = [1, 2].map((last) => `00000000-0000-4000-8000-00000000000${last}`);
/** A dead letter's name. */
let letter: string;
beforeAll(async () => {
  weir = await startWeir({ workers: true });
  token = await weir.token();
  await curl(["--reflect"], "weir.v1.IngestService/CreateEvent", { event: EVENT });
  await vi.waitFor(() => curl(["--reflect"], "weir.v1.SearchService/GetEvent", { name: NAME }), {
    timeout: 20_000,
    interval: 200,
  });
  const [offset] = await publish(weir, [{ partition: 1, value: Buffer.from("no event") }]);
  letter = `deadLetters/${weir.topic.replace("events", "persist")}:${weir.topic}:1:${offset}`;
  await vi.waitFor(
    () => curl(["--reflect"], "weir.admin.v1.DeadLetterAdminService/GetDeadLetter", { name: letter }),
    { timeout: 20_000, interval: 200 },
  );
  await sql(
    weir,
    `insert into admin.redrive (id, group_id, state, filter, max_per_second, dry_run, started_by, snapshot_time, ended_at, lease_until, owner)
     values ($1, $3, 'PAUSED', '', 10, false, 'alice', now(), null, 'infinity', 'nobody'),
       ($2, $3, 'CANCELLED', '', 10, false, 'alice', now(), now(), null, null)`,
    [OPEN, ENDED, weir.topic.replace("events", "persist")],
  );
});
afterAll(() => weir[Symbol.asyncDispose]());

/** What buf prints, run as a user would in the repository. */
async function buf(...args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(BUF, ["curl", ...args], { cwd: ROOT });
  return stdout;
}

async function curl(
  flags: readonly string[],
  method: string,
  message: object,
  bearer = token,
): Promise<unknown> {
  const header = `Authorization: Bearer ${bearer}`;
  const data = JSON.stringify(message);
  return JSON.parse(await buf(...flags, "--header", header, "--data", data, `${weir.baseUrl}/${method}`));
}

/** Every method that answers once, what it is asked and what comes back. */
const METHODS: Readonly<Record<string, readonly [message: object | (() => object), answer: object]>> = {
  "grpc.health.v1.Health/Check": [{ service: "weir.v1.IngestService" }, { status: "SERVING" }],
  "grpc.health.v1.Health/List": [{}, { statuses: { "": { status: "SERVING" } } }],
  "weir.admin.v1.AuditService/ListAuditEntries": [{}, {}],
  "weir.admin.v1.DeadLetterAdminService/GetDeadLetter": [
    () => ({ name: letter }),
    { deadLetter: { reason: "UNKNOWN_MODE", record: { value: "bm8gZXZlbnQ=" } } },
  ],
  "weir.admin.v1.DeadLetterAdminService/GetDeadLetterDepth": [{}, { total: "1", letterTopicRecords: "1" }],
  "weir.admin.v1.DeadLetterAdminService/ListDeadLetters": [
    { reason: "UNKNOWN_MODE" },
    { deadLetters: [{ reason: "UNKNOWN_MODE", preview: "bm8gZXZlbnQ=" }], scanned: "1" },
  ],
  "weir.admin.v1.DeadLetterAdminService/ReplayDeadLetters": [
    () => ({ names: [letter] }),
    { plan: [{ action: "REPLAY_ACTION_REPLAY", attempt: 1 }], dryRun: true },
  ],
  "weir.admin.v1.DeadLetterAdminService/StartRedrive": [
    {},
    { redrive: { dryRun: true, maxPerSecond: 1_000, counts: { replayed: "1" } } },
  ],
  "weir.admin.v1.DeadLetterAdminService/GetRedrive": [
    { name: `redrives/${ENDED}` },
    { redrive: { state: "REDRIVE_STATE_CANCELLED", startedBy: "alice" } },
  ],
  "weir.admin.v1.DeadLetterAdminService/ListRedrives": [
    { pageSize: 2 },
    { redrives: [{ maxPerSecond: 10 }, { maxPerSecond: 10 }] },
  ],
  "weir.admin.v1.DeadLetterAdminService/PauseRedrive": [
    { name: `redrives/${OPEN}` },
    { redrive: { state: "REDRIVE_STATE_PAUSED" } },
  ],
  "weir.admin.v1.DeadLetterAdminService/ResumeRedrive": [
    { name: `redrives/${OPEN}` },
    { redrive: { state: "REDRIVE_STATE_RUNNING" } },
  ],
  "weir.admin.v1.DeadLetterAdminService/CancelRedrive": [
    { name: `redrives/${ENDED}` },
    { redrive: { state: "REDRIVE_STATE_CANCELLED" } },
  ],
  "weir.v1.IngestService/CreateEvent": [
    { event: EVENT },
    { receipt: { name: NAME, partitionKey: "/buf-curl", stage: "STAGE_ACCEPTED" } },
  ],
  "weir.v1.IngestService/ValidateEvent": [
    { event: { ...EVENT, id: "" } },
    { violations: [{ field: "event.id", reason: "INVALID_ATTRIBUTES" }] },
  ],
  "weir.v1.IngestService/BatchCreateEvents": [
    { events: [EVENT, { ...EVENT, id: "" }] },
    {
      results: [
        { receipt: { name: NAME } },
        { error: { code: 3, details: [{ reason: "INVALID_ATTRIBUTES" }, {}] } },
      ],
    },
  ],
  "weir.v1.OverviewService/GetOverview": [
    {},
    { count: "1", sources: [{ value: "/buf-curl", count: "1" }], staleness: "0s" },
  ],
  "weir.v1.SearchService/GetEvent": [
    { name: NAME },
    { event: { name: NAME, cloudEvent: { textData: "hello" } } },
  ],
  "weir.v1.SearchService/GetEventJourney": [
    { name: NAME },
    // The rows before may have sent it again.
    {
      event: { name: NAME },
      stations: expect.arrayContaining([
        expect.objectContaining({ accepted: { principal: "alice" } }),
        expect.objectContaining({ stored: {} }),
      ]) as unknown,
    },
  ],
  "weir.v1.SearchService/SearchEvents": [
    { pageSize: 1, filter: 'source = "/buf-curl" time >= now-1h' },
    {
      events: [{ name: NAME, dataSize: "5" }],
      facets: [{ field: "type", values: [{ value: "com.example.tried", count: "1" }] }, {}, {}, {}, {}],
      histogram: { interval: "1s", buckets: [{ count: "1" }] },
      total: { count: "1" },
    },
  ],
};

/** And the methods that stream, which have tests of their own here. */
const STREAMS = [
  "grpc.health.v1.Health/Watch",
  "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
  "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
  "weir.admin.v1.AccountingService/AuditLog",
  "weir.v1.IngestService/StreamEvents",
  "weir.v1.SearchService/ExportEvents",
  "weir.v1.TailService/TailEvents",
];

const SOURCES = [
  ["reflection alone", ["--reflect"]],
  ["reflection v1alpha", ["--reflect", "--reflect-protocol", "grpc-v1alpha"]],
  ["--schema proto, over HTTP/1.1", ["--schema", "proto"]],
  ["--schema ., the whole workspace", ["--schema", "."]],
  ["--schema proto, over h2c", ["--schema", "proto", "--http2-prior-knowledge"]],
] as const;

describe("buf curl", () => {
  it("lists every method there is, and each has a test", async () => {
    const listed = (await buf("--list-methods", weir.baseUrl)).trim().split("\n");
    expect(listed.toSorted()).toEqual([...Object.keys(METHODS), ...STREAMS].toSorted());
  });

  for (const [source, flags] of SOURCES) {
    describe(`with ${source}`, () => {
      const own = Object.entries(METHODS).filter(
        ([method]) => flags[1] !== "proto" || method.startsWith("weir."),
      );
      it.each(own)("calls %s", async (method, [message, answer]) => {
        const asked = typeof message === "function" ? (message as () => object)() : message;
        expect(await curl(flags, method, asked)).toMatchObject(answer);
      });
    });
  }

  it.each(["grpc", "grpcweb"])("calls by --protocol %s", async (protocol) => {
    const [message, answer] = METHODS["weir.v1.SearchService/GetEvent"]!;
    const flags = ["--reflect", "--protocol", protocol];
    expect(await curl(flags, "weir.v1.SearchService/GetEvent", message)).toMatchObject(answer);
  });

  it.each([
    ["reflection", []],
    ["--schema proto", ["--schema", "proto"]],
  ])("streams events by %s and is answered for each", async (_, flags) => {
    const sent = [1, 2, 3].map((sequence) => JSON.stringify({ sequence, event: EVENT })).join("\n");
    const url = `${weir.baseUrl}/weir.v1.IngestService/StreamEvents`;
    const bearer = `authorization: Bearer ${await weir.token()}`;
    const args = ["curl", ...flags, "--http2-prior-knowledge", "-H", bearer, "--data", "@-", url];
    const call = spawn(BUF, args, { cwd: ROOT });
    call.stdin.end(sent);
    const [output, [code]] = await Promise.all([call.stdout.toArray(), once(call, "exit")]);
    expect(code).toBe(0);
    const answers = Buffer.concat(output as Buffer[]).toString();
    expect(answers.match(/"credit": ?\d+/g)).toHaveLength(4);
    expect(answers.match(/"receipt"/g)).toHaveLength(3);
  });

  it("audits the log, a message for each partition", async () => {
    const url = `${weir.baseUrl}/weir.admin.v1.AccountingService/AuditLog`;
    const output = await buf("-H", `authorization: Bearer ${token}`, "--data", "{}", url);
    const told = JSON.parse(`[${output.trim().replaceAll("}\n{", "},{")}]`) as Record<string, unknown>[];
    expect(told.map(({ topic, group }) => [topic, group])).toEqual(
      Array(3).fill([weir.topic, expect.stringContaining("test.persist.")]),
    );
    expect(told).toContainEqual(
      expect.objectContaining({ stored: "1", highWater: expect.any(String) as string }),
    );
    expect(told.filter(({ unaccounted }) => unaccounted !== undefined)).toEqual([]);
  });

  it("exports events, with their data", async () => {
    const url = `${weir.baseUrl}/weir.v1.SearchService/ExportEvents`;
    const data = JSON.stringify({ filter: 'source = "/buf-curl"', orderBy: "time" });
    const output = await buf("-H", `authorization: Bearer ${token}`, "--data", data, url);
    expect(JSON.parse(output)).toMatchObject({
      events: [{ name: NAME, cloudEvent: { textData: "hello" } }],
      nextPageToken: expect.stringMatching(/^[\w-]+$/) as string,
    });
  });

  it("follows events as they are stored", async () => {
    const url = `${weir.baseUrl}/weir.v1.TailService/TailEvents`;
    const data = JSON.stringify({ last: 1, filter: 'source = "/buf-curl"', withData: true });
    const bearer = `authorization: Bearer ${token}`;
    const follow = spawn(BUF, ["curl", "-H", bearer, "--data", data, url], { cwd: ROOT });
    const exited = once(follow, "exit");
    let output = "";
    follow.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
    await vi.waitFor(() => expect(output.trim()).toMatch(/}\s*{[^]*}$/), { timeout: 20_000 });
    follow.kill();
    await exited;
    expect(JSON.parse(`[${output.trim().replaceAll("}\n{", "},{")}]`)).toMatchObject([
      { opened: { cursor: expect.stringMatching(/^[\w-]+$/) as string } },
      { batch: { events: [{ name: NAME, cloudEvent: { textData: "hello" } }] } },
    ]);
  });

  it("watches health", async () => {
    const url = `${weir.baseUrl}/grpc.health.v1.Health/Watch`;
    const watch = spawn(BUF, ["curl", "--data", '{"service":"weir.v1.SearchService"}', url], { cwd: ROOT });
    const exited = once(watch, "exit");
    const [first] = (await once(watch.stdout, "data")) as [Buffer];
    expect(JSON.parse(first.toString())).toEqual({ status: "SERVING" });
    watch.kill();
    await exited;
  });

  it("is told why it is refused: by the exit code, and by details in words", async () => {
    const read = await weir.token({ scope: "events.read" });
    const refused = curl(["--reflect"], "weir.v1.IngestService/CreateEvent", { event: EVENT }, read);
    const { code, stderr } = await refused.then(
      () => expect.fail("accepted"),
      (error: unknown) => error as { code: number; stderr: string },
    );
    // The gRPC code, PERMISSION_DENIED, eight times.
    expect(code).toBe(7 * 8);
    expect(JSON.parse(stderr)).toMatchObject({
      code: "permission_denied",
      message: "The token lacks the scope events.write, which this call needs.",
      details: [{ type: "google.rpc.ErrorInfo", debug: { reason: "SCOPE_MISSING", domain: "weir" } }],
    });
  });
});
