import { toBinary, toJsonString } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { CreateEventRequestSchema, IngestService } from "#gen/weir/v1/ingest_pb.ts";
import { type CloudEvent_CloudEventAttributeValue as AttributeValue } from "#gen/io/cloudevents/v1/cloudevents_pb.ts";

import { startWeir, type Weir } from "../support/weir.ts";
import { createClients, httpRefusalOf, PROTOCOLS, refusalOf } from "./clients.ts";
import { sketch, toBinaryMode, toMessage, toStructured } from "./events.ts";

let weir: Weir;
let token: string;
beforeAll(async () => {
  weir = await startWeir();
  token = await weir.token();
});
afterAll(() => weir[Symbol.asyncDispose]());

const CREATE = `/${IngestService.typeName}/CreateEvent`;
const message = toMessage(sketch({ subject: "s", ext: "1", datacontenttype: "application/json" }, '{"a":1}'));
const request = { $typeName: "weir.v1.CreateEventRequest", waitFor: 0, event: message } as const;

function frame(bytes: Uint8Array): Uint8Array {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

const structured = toStructured(sketch({ ext: "1" }, '{"a":[1,"b"]}'));
const binary = toBinaryMode(sketch({ datacontenttype: "text/plain" }, "x"));

/** Every way in, with a request that is sound. */
const EDGES: Readonly<Record<string, { path: string; headers: Record<string, string>; sound: Uint8Array }>> =
  {
    "Connect JSON": {
      path: CREATE,
      headers: { "content-type": "application/json" },
      sound: Buffer.from(toJsonString(CreateEventRequestSchema, request)),
    },
    "Connect binary": {
      path: CREATE,
      headers: { "content-type": "application/proto" },
      sound: toBinary(CreateEventRequestSchema, request),
    },
    "gRPC-Web": {
      path: CREATE,
      headers: { "content-type": "application/grpc-web+proto" },
      sound: frame(toBinary(CreateEventRequestSchema, request)),
    },
    structured: { path: "/v1/events", headers: structured.headers, sound: Buffer.from(structured.body) },
    binary: { path: "/v1/events", headers: binary.headers, sound: Buffer.from(binary.body) },
  };

async function send(
  edge: (typeof EDGES)[string],
  body: Uint8Array,
): Promise<{ status: number; text: string }> {
  const headers = { ...edge.headers, authorization: `Bearer ${token}` };
  const init = { method: "POST", headers, body: Buffer.from(body), signal: AbortSignal.timeout(10_000) };
  const response = await fetch(`${weir.baseUrl}${edge.path}`, init);
  return { status: response.status, text: await response.text() };
}

/** A body with some of its bytes changed, left out or put in. */
function mutations(sound: Uint8Array): fc.Arbitrary<Uint8Array> {
  const edit = fc.record({ at: fc.nat(sound.length), cut: fc.nat(4), put: fc.uint8Array({ maxLength: 4 }) });
  return fc.array(edit, { minLength: 1, maxLength: 4 }).map((edits) =>
    edits.reduce((bytes: Uint8Array, { at, cut, put }) => {
      return Buffer.concat([bytes.subarray(0, at), put, bytes.subarray(at + cut)]);
    }, sound),
  );
}

describe.each(Object.entries(EDGES))("whatever comes in by %s", (_, edge) => {
  test("is answered, and is never a fault of ours", async () => {
    expect((await send(edge, edge.sound)).status).toBe(200);
    const bodies = fc.oneof(
      mutations(edge.sound),
      fc.uint8Array({ maxLength: 64 }),
      fc.json().map((text) => Buffer.from(text)),
    );
    await fc.assert(
      fc.asyncProperty(bodies, async (body) => {
        const { status, text } = await send(edge, body);
        // 501: the bytes have come to ask for a stage that is not served.
        expect([200, 400, 413, 415, 429, 501]).toContain(status);
        expect(text).not.toContain("INTERNAL");
      }),
      { numRuns: 150 },
    );
    expect(weir.log().filter(({ level }) => level === "error")).toEqual([]);
  });
});

describe.each(PROTOCOLS)("what is made to be large, by %s,", (protocol) => {
  const text = (value: string): AttributeValue => ({
    $typeName: "io.cloudevents.v1.CloudEvent.CloudEventAttributeValue",
    attr: { case: "ceString", value },
  });

  test("is refused in an answer that is small enough for every client", async () => {
    const { ingest } = createClients(weir.baseUrl, token, protocol);
    const event = toMessage(sketch({ id: "" }));
    for (let index = 0; index < 20_000; index += 1)
      event.attributes[`ÄÖÜ${"€".repeat(60)}${index}`] = text("\u0001");
    const error = await ingest.createEvent({ event }).catch((reason: unknown) => ConnectError.from(reason));
    if (!(error instanceof ConnectError)) throw new Error("The call was answered.");
    const refusal = await refusalOf(Promise.reject(error));
    expect(refusal).toMatchObject({ reason: "INVALID_ATTRIBUTES" });
    expect(refusal.violations.map(({ field }) => field)).toContain("event.id");
    expect(Number(refusal.metadata["faults"])).toBeGreaterThan(refusal.violations.length);
    // gRPC sends errors in trailers, of which Java's and C's clients take 8 KiB.
    const details = error.details.reduce((sum, each) => sum + ("type" in each ? each.value.length : 0), 0);
    const encoded = Math.ceil((details * 4) / 3) + encodeURIComponent(error.rawMessage).length;
    expect(details).toBeGreaterThan(1_000);
    expect(encoded).toBeLessThan(7_500);
  });

  test("does not stand in the answer", async () => {
    const { ingest } = createClients(weir.baseUrl, token, protocol);
    const event = toMessage(sketch({ subject: "\u0001".repeat(100_000) }));
    event.attributes["N".repeat(100_000)] = text("1");
    const refusal = await refusalOf(ingest.createEvent({ event }));
    expect(JSON.stringify(refusal).length).toBeLessThan(4_000);
  });
});

test("a header block full of attributes is refused, and the connection's next request is served", async () => {
  const headers = Object.fromEntries(Array.from({ length: 150 }, (_, index) => [`ce-x${index}`, "%"]));
  const refusal = await httpRefusalOf(
    await fetch(`${weir.baseUrl}/v1/events`, {
      method: "POST",
      headers: { ...headers, "ce-specversion": "1.0", authorization: `Bearer ${token}` },
    }),
  );
  expect(refusal).toMatchObject({ status: 400, reason: "INVALID_ATTRIBUTES" });
  expect((await send(EDGES["binary"]!, EDGES["binary"]!.sound)).status).toBe(200);
});
