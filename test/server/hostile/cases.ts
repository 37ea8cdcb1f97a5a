import { brotliCompressSync, gzipSync } from "node:zlib";
import { create, toBinary, toJsonString } from "@bufbuild/protobuf";

import {
  BatchCreateEventsRequestSchema,
  CreateEventRequestSchema,
  IngestService,
  StreamEventsRequestSchema,
} from "#gen/weir/v1/ingest_pb.ts";

import {
  sketch,
  type Sketch,
  toBinaryMode,
  toJsonBatch,
  toMessage,
  toProtobufBatch,
  toStructured,
  toStructuredProtobuf,
} from "../events.ts";
import { createRandom, type Random } from "./random.ts";

/** A request to be sent as it is. */
export interface Case {
  readonly edge: string;
  readonly http2: boolean;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly body: Buffer;
  /** It was left as it is sound, so it must be taken. */
  readonly isSound: boolean;
}

interface Edge {
  readonly name: string;
  readonly path: string;
  readonly http2?: boolean;
  readonly sound: (events: readonly Sketch[]) => {
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string | Uint8Array;
  };
}

const RPC = `/${IngestService.typeName}`;

function frame(...messages: readonly Uint8Array[]): Buffer {
  const parts = messages.flatMap((message) => {
    const head = Buffer.alloc(5);
    head.writeUInt32BE(message.length, 1);
    return [head, message];
  });
  return Buffer.concat(parts);
}

type Sound = ReturnType<Edge["sound"]>;

function proto(contentType: string, body: Uint8Array): Sound {
  return { headers: { "content-type": contentType, te: "trailers" }, body };
}

function createBytes([event]: readonly Sketch[]): Uint8Array {
  return toBinary(CreateEventRequestSchema, create(CreateEventRequestSchema, { event: toMessage(event!) }));
}

function batchBytes(events: readonly Sketch[]): Uint8Array {
  const request = create(BatchCreateEventsRequestSchema, { events: events.map(toMessage) });
  return toBinary(BatchCreateEventsRequestSchema, request);
}

const JSON_TYPE = { "content-type": "application/json" };

/** Every way in. */
const EDGES: readonly Edge[] = [
  {
    name: "Connect JSON",
    path: `${RPC}/CreateEvent`,
    sound: ([event]) => {
      const request = create(CreateEventRequestSchema, { event: toMessage(event!) });
      return { headers: JSON_TYPE, body: toJsonString(CreateEventRequestSchema, request) };
    },
  },
  {
    name: "Connect JSON batch",
    path: `${RPC}/BatchCreateEvents`,
    sound: (events) => {
      const request = create(BatchCreateEventsRequestSchema, { events: events.map(toMessage) });
      return { headers: JSON_TYPE, body: toJsonString(BatchCreateEventsRequestSchema, request) };
    },
  },
  {
    name: "Connect binary",
    path: `${RPC}/CreateEvent`,
    sound: (e) => proto("application/proto", createBytes(e)),
  },
  {
    name: "Connect binary batch",
    path: `${RPC}/BatchCreateEvents`,
    sound: (events) => proto("application/proto", batchBytes(events)),
  },
  {
    name: "Connect binary validate",
    path: `${RPC}/ValidateEvent`,
    sound: (events) => proto("application/proto", createBytes(events)),
  },
  {
    name: "gRPC-Web",
    path: `${RPC}/CreateEvent`,
    sound: (events) => proto("application/grpc-web+proto", frame(createBytes(events))),
  },
  {
    name: "gRPC-Web batch",
    path: `${RPC}/BatchCreateEvents`,
    sound: (events) => proto("application/grpc-web+proto", frame(batchBytes(events))),
  },
  {
    name: "gRPC",
    http2: true,
    path: `${RPC}/CreateEvent`,
    sound: (events) => proto("application/grpc+proto", frame(createBytes(events))),
  },
  {
    name: "gRPC batch",
    http2: true,
    path: `${RPC}/BatchCreateEvents`,
    sound: (events) => proto("application/grpc+proto", frame(batchBytes(events))),
  },
  {
    name: "gRPC stream",
    http2: true,
    path: `${RPC}/StreamEvents`,
    sound: (events) => {
      const requests = events.map((event, index) =>
        create(StreamEventsRequestSchema, { sequence: BigInt(index + 1), event: toMessage(event) }),
      );
      const messages = requests.map((request) => toBinary(StreamEventsRequestSchema, request));
      return proto("application/grpc+proto", frame(...messages));
    },
  },
  { name: "structured JSON", path: "/v1/events", sound: ([event]) => toStructured(event!) },
  { name: "structured protobuf", path: "/v1/events", sound: ([event]) => toStructuredProtobuf(event!) },
  { name: "binary mode", path: "/v1/events", sound: ([event]) => toBinaryMode(event!) },
  { name: "JSON batch", path: "/v1/events:batchCreate", sound: toJsonBatch },
  { name: "protobuf batch", path: "/v1/events:batchCreate", sound: toProtobufBatch },
  { name: "validate", path: "/v1/events:validate", sound: ([event]) => toStructured(event!) },
];

const TOKENS = [
  ...'1e999999 -0 -1 1.0 0x1 NaN null true {} [] [[[[ }}}} "\\ud800" "\\u0000" "\\uDC00\\uD800" "__proto__":{} '.split(
    " ",
  ),
  "9".repeat(400),
  `"${"é".repeat(3_000)}"`,
  '{"a":'.repeat(300),
  '"specversion":"0.3"',
  '"data":1,"data_base64":"AA=="',
  '"time":"2026-13-45T99:99:99Z"',
  "\u0000\ufeff\u2028",
  "%00%ff%C3",
].map((token) => Buffer.from(token));

/** Changes some of a body: bytes, tokens, slices, its end, or all of it. */
function mutate(body: Buffer, random: Random): Buffer {
  const at = random.below(body.length + 1);
  const end = Math.min(body.length, at + random.below(12));
  const splice = (put: Buffer): Buffer => Buffer.concat([body.subarray(0, at), put, body.subarray(end)]);
  switch (random.below(8)) {
    case 0:
      return splice(random.bytes(random.below(6)));
    case 1:
      return splice(random.pick(TOKENS));
    case 2:
      return body.subarray(0, at);
    case 3:
      return splice(body.subarray(random.below(body.length + 1)));
    case 4:
      return random.bytes(random.below(200));
    case 5:
      return random.chance(0.02) ? Buffer.from("[{".repeat(random.below(50_000))) : splice(Buffer.alloc(0));
    case 6: {
      const changed = Buffer.from(body);
      if (at < changed.length) changed[at] = changed[at]! ^ (1 << random.below(8));
      return changed;
    }
    default:
      return Buffer.concat([body, random.pick([body, random.pick(TOKENS), random.bytes(3)])]);
  }
}

const CONTENT_TYPES = [
  "application/json; charset=UTF-8",
  "application/json;charset=latin1",
  "application/cloudevents",
  "application/cloudevents+xml",
  'APPLICATION/CLOUDEVENTS+JSON ; a="b;c"',
  "application/cloudevents-batch+json",
  "application/cloudevents-batch+avro",
  "application/connect+proto",
  "application/connect+json",
  "application/grpc-web-text",
  "text/plain",
  "/",
  "",
];

/** Headers as no client should send them, with the body where that goes with them. */
const HEADERS: readonly ((random: Random, body: Buffer) => { headers: Case["headers"]; body?: Buffer })[] = [
  (random) => ({ headers: { "content-type": random.pick(CONTENT_TYPES) } }),
  (_, body) => ({ headers: { "content-encoding": "gzip" }, body: gzipSync(body, { level: 1 }) }),
  (_, body) => ({
    headers: { "content-encoding": "br" },
    body: brotliCompressSync(body, { params: { 1: 1 } }),
  }),
  (random, body) => ({
    headers: { "content-encoding": "gzip" },
    body: mutate(gzipSync(body, { level: 1 }), random),
  }),
  (random) => ({
    headers: { "content-encoding": random.pick(["gzip", "br", "deflate", "gzip, br", "\u00ff", "identity"]) },
  }),
  (random) => ({ headers: { "grpc-encoding": random.pick(["gzip", "br", "snappy", ""]) } }),
  (random) => ({
    headers: { "connect-timeout-ms": random.pick(["", "-1", "soon", "99999999999", "9999999999"]) },
  }),
  (random) => ({
    headers: { "grpc-timeout": random.pick(["", "1", "99999999H", "123456789S", "-1S", "1x"]) },
  }),
  (random) => ({ headers: { "connect-protocol-version": random.pick(["0", "2", ""]) } }),
  (random) => ({
    headers: {
      traceparent: random.pick(["00", "00-0-0-0", "\u00e4", "ff-".repeat(50)]),
      tracestate: "\u00ff=,=",
    },
  }),
  (random) => ({
    headers: {
      [`ce-${random.pick(["id", "time", "x", "a_b", "data", "__proto__"])}`]: random.pick([
        "%",
        "%zz",
        "%00",
        '"',
        '"a',
        "\u00e9",
        "x".repeat(5_000),
        " ",
      ]),
    },
  }),
  (random) => ({
    headers: {
      "ce-id": ["1", random.pick(["1", "2"])],
      "ce-specversion": random.pick(["1.0", "0.3", "", "1.0,1.0"]),
    },
  }),
  (random) => ({
    headers: {
      authorization: random.pick([
        "",
        "Bearer",
        "Bearer a.b.c",
        `Bearer ${"x".repeat(2_000)}`,
        "Basic eDp5",
        "\u00ff",
      ]),
    },
  }),
  (random) => ({
    headers: {
      accept: random.pick(["*/*", "text/html", ""]),
      "accept-encoding": random.pick(["gzip", "br;q=0", "\u00ff", "*"]),
    },
  }),
];

const METHODS = ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"];
const QUERIES = [
  "?",
  "?connect=v1&encoding=json&message=%7B%7D",
  "?connect=v1&encoding=proto&base64=1&message=%%%",
  "?a=\u00ff",
  "//",
  "%00",
  "?".repeat(500),
];

const VARIANTS = 24;

/** Sound requests of every edge to begin with; a repeat of an event is taken again. */
const SOUND: readonly (readonly Sound[])[] = EDGES.map((edge) =>
  Array.from({ length: VARIANTS }, (_, variant) => {
    const attributes = [
      {},
      { subject: "s ö", ext: "1", datacontenttype: "application/json" },
      { dataschema: "https://example.com/s", partitionkey: "k", tags: "a,b" },
    ][variant % 3];
    const events = Array.from({ length: 1 + (variant % 4) }, () => sketch(attributes, '{"n":[1.0,"x"]}'));
    return edge.sound(events);
  }),
);

/** The case of a number, the same for the same seed. */
export function createCase(seed: number, index: number, token: string): Case {
  const random = createRandom(seed ^ Math.imul(index + 1, 0x9e3779b1));
  const edge = EDGES[index % EDGES.length]!;
  const sound = random.pick(SOUND[index % EDGES.length]!);
  let body: Buffer = Buffer.from(sound.body);
  let headers: Case["headers"] = { authorization: `Bearer ${token}`, ...sound.headers };
  let method = "POST";
  let { path } = edge;
  const isSound = random.chance(0.05);
  if (!isSound) {
    const mutations = random.chance(0.8) ? 1 + random.below(3) : 0;
    for (let times = 0; times < mutations; times += 1) body = mutate(body, random);
    if (random.chance(0.25)) {
      const change = random.pick(HEADERS)(random, body);
      headers = { ...headers, ...change.headers };
      body = change.body ?? body;
    }
    if (random.chance(0.02)) method = random.pick(METHODS);
    if (random.chance(0.02)) path += random.pick(QUERIES);
  }
  return {
    edge: edge.name,
    http2: edge.http2 === true,
    method,
    path: encodeURI(path),
    headers,
    body,
    isSound,
  };
}
