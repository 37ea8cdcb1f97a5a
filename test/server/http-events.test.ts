import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { type ReceivedRecord } from "#kafka/ports.ts";

import { readTopic } from "../support/topic.ts";
import { startWeir, type Weir } from "../support/weir.ts";
import { httpRefusalOf } from "./clients.ts";
import { sketch, toBinaryMode, toStructured, toStructuredProtobuf } from "./events.ts";

let weir: Weir;
let token: string;
beforeAll(async () => {
  weir = await startWeir({ env: { WEIR_READ_LIMIT: "2MiB", WEIR_CORS_ORIGINS: "https://console.example" } });
  token = await weir.token({ scope: "events.write" });
});
afterAll(() => weir[Symbol.asyncDispose]());

interface Post {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array<ArrayBuffer> | ReadableStream;
}

function post({ headers, body }: Post, path = "/v1/events"): Promise<Response> {
  const authorized = { authorization: `Bearer ${token}`, ...headers };
  const init = { method: "POST", headers: authorized, body, duplex: "half" } as const;
  return fetch(`${weir.baseUrl}${path}`, init);
}

async function recordOf(id: string): Promise<ReceivedRecord | undefined> {
  const records = await readTopic(weir.brokers, weir.topic);
  return records.find(({ headers }) =>
    headers.some(([name, value]) => name === "ce_id" && value?.toString() === id),
  );
}

/** Posts with headers as they stand, repeated ones too, which fetch would join. */
async function rawPost(headers: readonly string[], body: string): Promise<Response> {
  const { hostname, port } = new URL(weir.baseUrl);
  const all = [
    "host",
    hostname,
    "authorization",
    `Bearer ${token}`,
    "content-length",
    String(body.length),
    ...headers,
  ];
  const request = httpRequest({
    hostname,
    port,
    method: "POST",
    path: "/v1/events",
    headers: all,
    agent: false,
  });
  request.end(body);
  const [response] = (await once(request, "response")) as [import("node:http").IncomingMessage];
  const chunks = await response.toArray();
  return new Response(Buffer.concat(chunks as Buffer[]), { status: response.statusCode ?? 0 });
}

describe("an event is taken", () => {
  test("in structured mode, and answered as CreateEvent answers in JSON", async () => {
    const event = sketch({ source: "/a:b", subject: "x" }, '{"z": 1.0}');
    const response = await post(toStructured(event));
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("application/json");
    const { receipt } = (await response.json()) as { receipt: Record<string, unknown> };
    const id = event.attributes["id"]!;
    expect(receipt).toEqual({
      name: `events/%2Fa%3Ab:${id}`,
      partitionKey: "/a:b#x",
      position: expect.objectContaining({ topic: weir.topic }) as unknown,
      stage: "STAGE_ACCEPTED",
      acceptTime: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z$/) as unknown,
    });
    const record = await recordOf(id);
    expect(record?.value?.toString()).toBe('{"z": 1.0}');
    const position = { topic: weir.topic, partition: record?.partition, offset: String(record?.offset) };
    // Protobuf's JSON leaves zeros out.
    expect({ partition: 0, offset: "0", ...(receipt["position"] as object) }).toEqual(position);
  });

  test("in structured mode as protobuf, its type and bytes kept", async () => {
    const event = sketch({ id: "in-protobuf", source: "/a:b", partitionkey: "k" }, "\u0000ü");
    const response = await post(toStructuredProtobuf(event));
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({
      receipt: { name: "events/%2Fa%3Ab:in-protobuf", partitionKey: "k" },
    });
    const record = await recordOf("in-protobuf");
    expect([String(record?.key), record?.value?.toString()]).toEqual(["k", "\u0000ü"]);
  });

  test("in binary mode, its attributes percent-decoded, its body byte for byte", async () => {
    const bytes = new Uint8Array([0, 255, 10, 13]);
    const { headers } = toBinaryMode(
      sketch({ id: "binary", subject: "Ā €\u{1f600}", datacontenttype: "image/png" }),
    );
    expect((await post({ headers, body: bytes })).status).toBe(200);
    const record = await recordOf("binary");
    expect(new Uint8Array(record!.value!)).toEqual(bytes);
    const subject = record?.headers.find(([name]) => name === "ce_subject")?.[1];
    expect(subject?.toString()).toBe("Ā €\u{1f600}");
  });

  test.each([
    ["gzip", gzipSync],
    ["br", brotliCompressSync],
  ] as const)("in a body that is compressed with %s", async (coding, compress) => {
    const event = toStructured(sketch({ id: `in-${coding}` }, '"zipped"'));
    const headers = { ...event.headers, "content-encoding": coding };
    expect((await post({ headers, body: compress(event.body) })).status).toBe(200);
    expect((await recordOf(`in-${coding}`))?.value?.toString()).toBe('"zipped"');
  });

  test("in chunks", async () => {
    const { headers, body } = toStructured(sketch({ id: "chunked" }));
    const middle = body.length / 2;
    const chunks = [body.slice(0, middle), body.slice(middle)].map((part) => new TextEncoder().encode(part));
    expect((await post({ headers, body: ReadableStream.from(chunks) })).status).toBe(200);
    expect(await recordOf("chunked")).toBeDefined();
  });

  test("from a browser, whatever its attributes are called", async () => {
    const asked = "authorization,ce-id,ce-anything,content-type";
    const preflight = await fetch(`${weir.baseUrl}/v1/events`, {
      method: "OPTIONS",
      headers: {
        origin: "https://console.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": asked,
      },
    });
    expect(preflight.headers.get("access-control-allow-origin")).toBe("https://console.example");
    expect(preflight.headers.get("access-control-allow-headers")).toBe(asked);
  });
});

describe("the content mode", () => {
  test("is structured where the media type says so, even where headers repeat attributes", async () => {
    const { headers, body } = toStructured(sketch({ id: "from-the-body" }));
    const repeated = { ...headers, "ce-specversion": "1.0", "ce-id": "from-the-headers" };
    expect((await post({ headers: repeated, body })).status).toBe(200);
    expect(await recordOf("from-the-body")).toBeDefined();
    expect(await recordOf("from-the-headers")).toBeUndefined();
  });

  test.each([
    ["neither", { "content-type": "application/json", "ce-id": "1" }, "UNKNOWN_MODE"],
    ["a batch", { "content-type": "application/cloudevents-batch+json" }, "UNSUPPORTED_MEDIA_TYPE"],
    ["another format", { "content-type": "application/cloudevents+xml" }, "UNSUPPORTED_MEDIA_TYPE"],
    ["no format", { "content-type": "application/cloudevents" }, "UNSUPPORTED_MEDIA_TYPE"],
    ["another media type of that name", { "content-type": "application/cloudeventsx+json" }, "UNKNOWN_MODE"],
  ])("is refused with 415 where it is %s", async (_, headers, reason) => {
    for (const path of ["/v1/events", "/v1/events:validate"]) {
      const refusal = await httpRefusalOf(await post({ headers, body: "{}" }, path));
      expect(refusal).toMatchObject({ status: 415, code: Code.InvalidArgument, reason });
      expect(refusal.message).toContain("application/cloudevents+json");
    }
  });
});

describe("a request is refused", () => {
  test("with every fault at its header, repeated headers too", async () => {
    const { attributes } = sketch();
    const headers = [
      "ce-specversion",
      "1.0",
      "CE-Id",
      "1",
      "ce-id",
      "2",
      "ce-source",
      "/s",
      "ce-type",
      "%zz",
    ];
    const refusal = await httpRefusalOf(await rawPost([...headers, "Ce-Time", attributes["time"]!], "x"));
    expect(refusal.status).toBe(400);
    expect(refusal.violations.map(({ field }) => field).toSorted()).toEqual(["ce-id", "ce-type"]);
  });

  test.each([
    ["no JSON", "{", "MALFORMED"],
    ["no object", "[]", "MALFORMED"],
    ["no UTF-8", new Uint8Array([0x7b, 0xff, 0x7d]), "MALFORMED"],
    ["nothing", "", "MALFORMED"],
    ["deep", "[".repeat(100_000), "MALFORMED"],
  ])("where its body is %s", async (_, body, reason) => {
    const refusal = await httpRefusalOf(
      await post({ headers: { "content-type": "application/cloudevents+json" }, body }),
    );
    expect(refusal).toMatchObject({ status: 400, reason });
  });

  test("where data and data_base64 are both given, each member by its name", async () => {
    const { headers, body } = toStructured(sketch({}, "1"));
    const refusal = await httpRefusalOf(
      await post({ headers, body: body.replace(/}$/, ',"data_base64":"%"}') }),
    );
    expect(refusal).toMatchObject({ status: 400, reason: "INVALID_DATA" });
    expect(refusal.violations.map(({ field }) => field).toSorted()).toEqual(["data", "data_base64"]);
  });

  test.each([
    ["GET", "/v1/events"],
    ["HEAD", "/v1/events"],
    ["PUT", "/v1/events"],
    ["DELETE", "/v1/events:validate"],
  ])("with 405 and Allow for %s %s", async (method, path) => {
    const response = await fetch(`${weir.baseUrl}${path}`, { method });
    expect(response.status).toBe(405);
    expect(response.headers.get("allow")).toBe("POST");
  });

  test("with 401 where it has no token, with 403 where the token has not the scope, with 404 elsewhere", async () => {
    const event = toStructured(sketch());
    const none = await post({ ...event, headers: { ...event.headers, authorization: "" } });
    expect(none.headers.get("www-authenticate")).toContain("Bearer");
    expect(await httpRefusalOf(none)).toMatchObject({ status: 401, reason: "TOKEN_MISSING" });
    const reader = await weir.token({ scope: "events.read" });
    const denied = await post({ ...event, headers: { ...event.headers, authorization: `Bearer ${reader}` } });
    expect(await httpRefusalOf(denied)).toMatchObject({
      status: 403,
      reason: "SCOPE_MISSING",
      metadata: { scope: "events.write" },
    });
    expect((await post(event, "/v1/event")).status).toBe(404);
  });

  test("with 415 where its body is in a coding that is not read", async () => {
    const { headers, body } = toStructured(sketch());
    const response = await post({
      headers: { ...headers, "content-encoding": "deflate" },
      body: deflateSync(body),
    });
    expect(await httpRefusalOf(response)).toMatchObject({ status: 415, reason: "UNSUPPORTED_MEDIA_TYPE" });
  });

  test("with 400 where its body is not in the coding that it names, or ends too early", async () => {
    const { headers, body } = toStructured(sketch());
    for (const sent of [Buffer.from(body), gzipSync(body).subarray(0, -9)]) {
      const response = await post({ headers: { ...headers, "content-encoding": "gzip" }, body: sent });
      expect(await httpRefusalOf(response)).toMatchObject({ status: 400, reason: "INVALID_REQUEST" });
    }
  });
});

describe("what is too large is refused with 413 before it is decoded", () => {
  const limit = 2 * 1024 * 1024;
  const headers = { "content-type": "application/cloudevents+json" };

  test("by the length that it announces, before it is sent", async () => {
    const { hostname, port } = new URL(weir.baseUrl);
    const socket = connect(Number(port), hostname);
    socket.write(
      `POST /v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n` +
        `content-type: application/cloudevents+json\r\ncontent-length: ${limit + 1}\r\n\r\n`,
    );
    const [answer] = (await once(socket, "data")) as [Buffer];
    socket.destroy();
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 413 /);
    expect(answer.toString()).toContain("MESSAGE_TOO_LARGE");
  });

  test("by what has come, where it does not announce its length", async () => {
    const endless = new ReadableStream({
      pull: (controller) => controller.enqueue(new Uint8Array(65_536)),
    });
    const refusal = await httpRefusalOf(await post({ headers, body: endless }));
    expect(refusal).toMatchObject({ status: 413, code: Code.ResourceExhausted, reason: "MESSAGE_TOO_LARGE" });
    expect(refusal.metadata).toMatchObject({ limit: String(limit), unit: "bytes" });
  });

  test.each([
    ["gzip", gzipSync],
    ["br", brotliCompressSync],
  ] as const)("by what it inflates to, with %s", async (coding, compress) => {
    const bomb = compress(Buffer.alloc(20_000_000));
    expect(bomb.length).toBeLessThan(limit);
    const response = await post({ headers: { ...headers, "content-encoding": coding }, body: bomb });
    expect(await httpRefusalOf(response)).toMatchObject({ status: 413 });
  });

  test("by the event's own limit, with what it is", async () => {
    const { body, headers: binary } = toBinaryMode(
      sketch({ datacontenttype: "text/plain" }, "x".repeat(1_048_576)),
    );
    const refusal = await httpRefusalOf(await post({ headers: binary, body }));
    expect(refusal).toMatchObject({ status: 413, code: Code.InvalidArgument, reason: "TOO_LARGE" });
    expect(refusal.metadata).toMatchObject({ limit: "1048576", unit: "bytes" });
    expect(Number(refusal.metadata["actual"])).toBeGreaterThan(1_048_576);
  });
});

describe("POST /v1/events:validate", () => {
  test("says that a sound event is valid, in either mode, and publishes nothing", async () => {
    const event = sketch({ id: "only-validated" });
    for (const sent of [toStructured(event), toBinaryMode(event)]) {
      const response = await post(sent, "/v1/events:validate");
      expect([response.status, await response.json()]).toEqual([200, { valid: true }]);
    }
    expect(await recordOf("only-validated")).toBeUndefined();
  });

  test("lists what is wrong", async () => {
    const response = await post(
      { headers: { "content-type": "application/cloudevents+json" }, body: "no JSON" },
      "/v1/events:validate",
    );
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({
      valid: false,
      violations: [{ reason: "MALFORMED", description: expect.any(String) as unknown }],
    });
  });
});
