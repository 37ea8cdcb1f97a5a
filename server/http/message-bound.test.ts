import { brotliCompressSync, gzipSync } from "node:zlib";
import { create, toBinary, toJsonString } from "@bufbuild/protobuf";
import { type ConnectError } from "@connectrpc/connect";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { BatchCreateEventsRequestSchema, type BatchCreateEventsRequest } from "#gen/weir/v1/ingest_pb.ts";
import { reasonOf } from "../errors.ts";
import { boundMessages, jsonParts, MAX_PARTS } from "./message-bound.ts";

const READ_LIMIT = 4 * 1024 * 1024;
const SCHEMA = BatchCreateEventsRequestSchema;

/** What comes out for a body that comes in chunks of a size. */
async function pass(body: Uint8Array, headers: Record<string, string>, chunk = 65_536): Promise<Uint8Array> {
  async function* chunks(): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < body.length; at += chunk) yield body.subarray(at, at + chunk);
  }
  const out: Uint8Array[] = [];
  const bound = boundMessages(chunks(), new Headers(headers), SCHEMA, READ_LIMIT, () => undefined);
  for await (const each of bound) out.push(each);
  return Buffer.concat(out);
}

async function refusal(body: Uint8Array, headers: Record<string, string>): Promise<string | undefined> {
  const error = await pass(body, headers).then(
    () => undefined,
    (reason: unknown) => reason as ConnectError,
  );
  return error && reasonOf(error);
}

function frame(message: Uint8Array, flags = 0): Uint8Array {
  const head = Buffer.alloc(5);
  head[0] = flags;
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

function batch(events: number): BatchCreateEventsRequest {
  return create(SCHEMA, { events: Array.from({ length: events }, () => ({})) });
}

const TOO_MANY = batch(MAX_PARTS + 1);
const ENOUGH = batch(MAX_PARTS - 2);

const WIRES: Readonly<
  Record<string, { headers: Record<string, string>; encode: (m: BatchCreateEventsRequest) => Uint8Array }>
> = {
  "Connect binary": { headers: { "content-type": "application/proto" }, encode: (m) => toBinary(SCHEMA, m) },
  "Connect JSON": {
    headers: { "content-type": "application/json; charset=utf-8" },
    encode: (m) => Buffer.from(toJsonString(SCHEMA, m).replaceAll("{},{}", "1,1")),
  },
  "Connect binary in gzip": {
    headers: { "content-type": "application/proto", "content-encoding": "gzip" },
    encode: (m) => gzipSync(toBinary(SCHEMA, m)),
  },
  gRPC: { headers: { "content-type": "application/grpc" }, encode: (m) => frame(toBinary(SCHEMA, m)) },
  "gRPC in gzip": {
    headers: { "content-type": "application/grpc+proto", "grpc-encoding": "gzip" },
    encode: (m) => frame(gzipSync(toBinary(SCHEMA, m)), 1),
  },
  "gRPC-Web": {
    headers: { "content-type": "application/grpc-web+proto" },
    encode: (m) => Buffer.concat([frame(toBinary(SCHEMA, batch(3))), frame(toBinary(SCHEMA, m))]),
  },
  "a stream of Connect": {
    headers: { "content-type": "application/connect+proto" },
    encode: (m) => frame(toBinary(SCHEMA, m)),
  },
};

describe.each(Object.entries(WIRES))("by %s", (_, { headers, encode }) => {
  test("a message with more parts than a batch ever has is refused before it is parsed", async () => {
    expect(await refusal(encode(TOO_MANY), headers)).toBe("TOO_LARGE");
  });

  test("any other passes as it is", async () => {
    const body = encode(ENOUGH);
    expect(Buffer.compare(await pass(body, headers), body)).toBe(0);
  });
});

test("attributes of an event and packed elements count too", async () => {
  const headers = { "content-type": "application/proto" };
  // One event of so many attributes, each an entry of the map with nothing in it.
  const attributes = Buffer.alloc((MAX_PARTS + 1) * 2, Buffer.from([0x2a, 0]));
  const reader = Buffer.concat([Buffer.from([0x0a, ...varint(attributes.length)]), attributes]);
  expect(await refusal(reader, headers)).toBe("TOO_LARGE");
  // The payload of an event is one part, whatever it is.
  const payload = Buffer.alloc((MAX_PARTS + 1) * 2, Buffer.from([0x0a, 0]));
  const event = Buffer.concat([Buffer.from([0x32, ...varint(payload.length)]), payload]);
  expect(
    await refusal(Buffer.concat([Buffer.from([0x0a, ...varint(event.length)]), event]), headers),
  ).toBeUndefined();
});

function varint(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...varint(value >>> 7)];
}

test("what stands in a JSON string is one part, its escapes included", async () => {
  const text = JSON.stringify({ text: `\\",[{`.repeat(MAX_PARTS) });
  expect(await refusal(Buffer.from(text), { "content-type": "application/json" })).toBeUndefined();
});

test.each([
  ["[]", 1],
  ["[1]", 1],
  ['[{"a":[1,2],"b":{}}, "x,[\\"{", 3]', 8],
  ['{"a":{"b":[1,2,3]},"c":"]}"}', 6],
])("%s has %i elements or members", (text, parts) => {
  expect(jsonParts(Buffer.from(text))).toBe(parts);
});

test("bytes of any kind pass as they are where they are no JSON, in chunks of any size", async () => {
  const types = fc.constantFrom(
    "application/proto",
    "application/grpc",
    "application/grpc-web+proto",
    "application/connect+proto",
    "text/plain",
  );
  const frames = fc
    .array(fc.tuple(fc.uint8Array({ maxLength: 40 }), fc.nat(3)), { maxLength: 6 })
    .map((parts) => Buffer.concat(parts.map(([bytes, flags]) => frame(bytes, flags))));
  await fc.assert(
    fc.asyncProperty(
      types,
      fc.oneof(fc.uint8Array(), frames),
      fc.integer({ min: 1, max: 20 }),
      async (type, body, chunk) => {
        const headers = { "content-type": type };
        expect(Buffer.compare(await pass(body, headers, chunk), body)).toBe(0);
      },
    ),
    { numRuns: 300 },
  );
});

test("what is over the read limit passes, for the RPC library to refuse", async () => {
  for (const type of ["application/proto", "application/grpc"]) {
    const body = frame(Buffer.alloc(READ_LIMIT + 1, Buffer.from([0x0a, 0])));
    expect(await refusal(body, { "content-type": type })).toBeUndefined();
  }
});

test("compressed bytes with more behind their end are refused, which the library would read as a message", async () => {
  const hidden = Buffer.concat([brotliCompressSync('"\xff"'), Buffer.from("more")]);
  const types = { json: "application/json", frames: "application/connect+json" };
  const whole = { "content-type": types.json, "content-encoding": "br" };
  expect(await refusal(hidden, whole)).toBe("INVALID_REQUEST");
  const framed = { "content-type": types.frames, "connect-content-encoding": "br" };
  expect(await refusal(frame(hidden, 1), framed)).toBe("INVALID_REQUEST");
});
