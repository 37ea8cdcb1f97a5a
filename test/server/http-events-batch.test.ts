import { brotliCompressSync, gzipSync } from "node:zlib";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { freePort } from "../../dev/ports.ts";
import { readTopic } from "../support/topic.ts";
import { startWeir, type Weir } from "../support/weir.ts";
import { httpRefusalOf } from "./clients.ts";
import { type HttpEvent, sketch, type Sketch, toJsonBatch, toProtobufBatch, toStructured } from "./events.ts";

let weir: Weir;
let token: string;
beforeAll(async () => {
  weir = await startWeir();
  token = await weir.token({ scope: "events.write" });
});
afterAll(() => weir[Symbol.asyncDispose]());

const JSON_BATCH = { "content-type": "application/cloudevents-batch+json" };
const PROTOBUF_BATCH = { "content-type": "application/cloudevents-batch+protobuf" };

function post(
  { headers, body }: HttpEvent,
  path = "/v1/events:batchCreate",
  server = weir,
): Promise<Response> {
  const authorized = { authorization: `Bearer ${token}`, ...headers };
  return fetch(`${server.baseUrl}${path}`, { method: "POST", headers: authorized, body });
}

async function idsOnLog(source: string): Promise<string[]> {
  const records = await readTopic(weir.brokers, weir.topic);
  return records
    .filter(({ key }) => String(key) === source)
    .map(({ headers }) => headers.find(([name]) => name === "ce_id")?.[1]?.toString() ?? "");
}

interface Answer {
  readonly code?: string;
  readonly message?: string;
  readonly details?: readonly { readonly type: string }[];
  readonly results: readonly {
    readonly receipt?: { readonly name: string; readonly partitionKey: string; readonly stage: string };
    readonly error?: {
      readonly code: number;
      readonly message: string;
      readonly details: readonly { readonly "@type": string; readonly reason?: string }[];
    };
  }[];
}

describe.each([
  ["JSON", toJsonBatch],
  ["protobuf", toProtobufBatch],
] as const)("a batch of %s", (format, toBatch) => {
  const source = `/http-batch/${format}`;

  test("is answered with 200 where every event was taken, with one receipt an index, in the order of its events", async () => {
    const events = Array.from({ length: 256 }, () => sketch({ source }));
    const response = await post(toBatch(events));
    expect(response.status).toBe(200);
    const { results } = (await response.json()) as Answer;
    expect(results.map(({ receipt }) => receipt?.name)).toEqual(
      events.map(({ attributes }) => `events/${encodeURIComponent(source)}:${attributes["id"]}`),
    );
    expect(results[0]?.receipt).toMatchObject({ partitionKey: source, stage: "STAGE_ACCEPTED" });
    expect(await idsOnLog(source)).toEqual(events.map(({ attributes }) => attributes["id"]));
  });

  test("is answered with 207 where some events were refused, each at its index", async () => {
    const own = `${source}/partly`;
    const events = [sketch({ source: own }), sketch({ source: own, id: "" }), sketch({ source: own })];
    const response = await post(toBatch(events));
    expect(response.status).toBe(207);
    const { results, code } = (await response.json()) as Answer;
    expect(code).toBeUndefined();
    expect(results.map((result) => Object.keys(result))).toEqual([["receipt"], ["error"], ["receipt"]]);
    expect(results[1]?.error).toMatchObject({
      code: Code.InvalidArgument,
      details: [
        { "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "INVALID_ATTRIBUTES", domain: "weir" },
        { "@type": "type.googleapis.com/google.rpc.BadRequest", fieldViolations: [{ field: "id" }] },
      ],
    });
    expect(await idsOnLog(own)).toEqual([events[0], events[2]].map((event) => event?.attributes["id"]));
  });

  test("is an error where no event was taken, with the results beside", async () => {
    const long = sketch({ id: "i".repeat(600) });
    const tooLong = await post(toBatch([long, long]));
    expect(tooLong.status).toBe(413);
    expect(await tooLong.json()).toMatchObject({
      code: "invalid_argument",
      details: [{ type: "google.rpc.ErrorInfo", debug: { reason: "TOO_LARGE" } }],
      results: [{ error: { code: 3 } }, { error: { code: 3 } }],
    });
    const mixed = await post(toBatch([long, sketch({ time: "2001-01-01T00:00:00Z" })]));
    expect(mixed.status).toBe(400);
    expect(await mixed.json()).toMatchObject({
      code: "out_of_range",
      results: [{}, { error: { code: 11 } }],
    });
  });

  test.each([
    ["gzip", gzipSync],
    ["br", brotliCompressSync],
  ] as const)("is taken in %s", async (coding, compress) => {
    const { headers, body } = toBatch([sketch(), sketch()]);
    const sent = { headers: { ...headers, "content-encoding": coding }, body: compress(body) };
    expect((await post(sent)).status).toBe(200);
  });

  test("is refused whole where it is empty, or is too many, or too much", async () => {
    const before = await readTopic(weir.brokers, weir.topic);
    const empty = await httpRefusalOf(await post(toBatch([])));
    expect(empty).toMatchObject({ status: 400, code: Code.InvalidArgument, reason: "INVALID_REQUEST" });

    const unsound = sketch({ id: "" });
    const many = await httpRefusalOf(await post(toBatch(Array<Sketch>(257).fill(unsound))));
    expect(many).toMatchObject({ status: 413, code: Code.InvalidArgument, reason: "TOO_LARGE" });
    expect(many.metadata).toEqual({ limit: "256", actual: "257", unit: "events" });

    const large = toBatch(Array<Sketch>(9).fill(sketch({}, `"${"x".repeat(1_000_000)}"`)));
    const much = await httpRefusalOf(await post(large));
    expect(much).toMatchObject({ status: 413, code: Code.InvalidArgument, reason: "TOO_LARGE" });
    expect(much.metadata).toEqual({ limit: "8388608", actual: String(large.body.length), unit: "bytes" });

    const beyond = Buffer.alloc(16 * 1024 * 1024 + 1);
    const unread = await httpRefusalOf(await post({ ...large, body: beyond }));
    expect(unread).toMatchObject({ status: 413, code: Code.ResourceExhausted, reason: "MESSAGE_TOO_LARGE" });
    expect(await readTopic(weir.brokers, weir.topic)).toEqual(before);
  });
});

test.each([
  ["no JSON", JSON_BATCH, "["],
  ["no array", JSON_BATCH, toStructured(sketch()).body],
  ["nothing", JSON_BATCH, ""],
  ["no UTF-8", JSON_BATCH, new Uint8Array([0x5b, 0xff, 0x5d])],
  ["deep", JSON_BATCH, "[".repeat(100_000)],
  ["no protobuf", PROTOBUF_BATCH, new Uint8Array([0x0a, 0xff])],
] as const)("a batch that is %s is MALFORMED", async (_, headers, body) => {
  const refusal = await httpRefusalOf(await post({ headers, body }));
  expect(refusal).toMatchObject({ status: 400, code: Code.InvalidArgument, reason: "MALFORMED" });
});

test("what is no event within a batch is refused at its index, and the others are taken", async () => {
  const body = `[${toStructured(sketch()).body}, 1, null, "x", [], {}]`;
  const response = await post({ headers: JSON_BATCH, body });
  expect(response.status).toBe(207);
  const { results } = (await response.json()) as Answer;
  expect(results.map(({ receipt, error }) => receipt && error)).toEqual(Array(6).fill(undefined));
  expect(results.map(({ error }) => error?.details[0]?.reason)).toEqual([
    undefined,
    ...Array<string>(4).fill("MALFORMED"),
    "INVALID_ATTRIBUTES",
  ]);
  const sound = Buffer.from(toProtobufBatch([sketch()]).body);
  const mixed = await post({
    headers: PROTOBUF_BATCH,
    body: Buffer.concat([sound, Buffer.from([0x0a, 1, 0xff])]),
  });
  expect(mixed.status).toBe(207);
  expect(((await mixed.json()) as Answer).results[1]?.error?.details[0]?.reason).toBe("MALFORMED");
});

test("each path takes what is its own, and says where the other goes", async () => {
  const batch = toJsonBatch([sketch()]);
  for (const path of ["/v1/events", "/v1/events:validate"]) {
    const refusal = await httpRefusalOf(await post(batch, path));
    expect(refusal).toMatchObject({ status: 415, reason: "UNSUPPORTED_MEDIA_TYPE" });
    expect(refusal.message).toContain("/v1/events:batchCreate");
  }
  for (const contentType of [
    "application/cloudevents-batch+avro",
    "application/cloudevents+json",
    "text/plain",
  ]) {
    const refusal = await httpRefusalOf(await post({ headers: { "content-type": contentType }, body: "[]" }));
    expect(refusal).toMatchObject({ status: 415, reason: "UNSUPPORTED_MEDIA_TYPE" });
    expect(refusal.message).toContain("application/cloudevents-batch+json");
  }
  const get = await fetch(`${weir.baseUrl}/v1/events:batchCreate`);
  expect([get.status, get.headers.get("allow")]).toEqual([405, "POST"]);
});

test("without a token, or without its scope, a batch is refused", async () => {
  const batch = toJsonBatch([sketch()]);
  const none = await post({ ...batch, headers: { ...batch.headers, authorization: "" } });
  expect(await httpRefusalOf(none)).toMatchObject({ status: 401, reason: "TOKEN_MISSING" });
  const reader = await weir.token({ scope: "events.read" });
  const denied = await post({ ...batch, headers: { ...batch.headers, authorization: `Bearer ${reader}` } });
  expect(await httpRefusalOf(denied)).toMatchObject({ status: 403, reason: "SCOPE_MISSING" });
});

test("where the broker is away, a batch is answered with 503 and Retry-After, whatever else is wrong in it", async () => {
  await using alone = await startWeir({ brokers: `127.0.0.1:${await freePort()}`, until: "listening" });
  token = await alone.token();
  const response = await post(toJsonBatch([sketch({ id: "" }), sketch()]), undefined, alone);
  expect(response.headers.get("retry-after")).toBe("1");
  expect(response.status).toBe(503);
  expect(await response.json()).toMatchObject({
    code: "unavailable",
    results: [{ error: { code: 3 } }, { error: { code: 14 } }],
  });
  token = await weir.token();
});
