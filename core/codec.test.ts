import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { buildEvent, type Decoded } from "./attributes.ts";
import { BATCH_JSON, decodeBatchJson, encodeBatchJson } from "./batch-json.ts";
import { BATCH_PROTOBUF, decodeBatchProtobuf, encodeBatchProtobuf } from "./batch-protobuf.ts";
import { isCloudEventsMediaType } from "./content-mode.ts";
import { type CloudEvent, type EventData } from "./event.ts";
import { decodeHttp } from "./http.ts";
import { encodeHttpBinary } from "./http-binary.ts";
import { decodeKafkaRecord, encodeKafkaBinary } from "./kafka-binary.ts";
import { isJsonMediaType } from "./media-type.ts";
import { type Result } from "./reason.ts";
import { decodeStructuredJson, encodeStructuredJson, STRUCTURED_JSON } from "./structured-json.ts";
import {
  decodeStructuredProtobuf,
  encodeStructuredProtobuf,
  STRUCTURED_PROTOBUF,
} from "./structured-protobuf.ts";
import { timestampFrom } from "./timestamp.ts";
import { decodeUtf8, encodeUtf8 } from "./utf8.ts";

// A CloudEvents string: what is left of any text without the forbidden characters.
const text = fc
  .string({ unit: "binary", maxLength: 24 })
  .map((value) => value.replace(/[\p{Cc}\p{Cs}\p{Noncharacter_Code_Point}]/gu, ""));
const filled = text.filter((value) => value !== "");
const uriReference = fc.oneof(
  fc.webUrl({ withQueryParameters: true, withFragments: true }),
  fc.webPath().filter((path) => path !== "" && !path.startsWith("//")),
  fc.uuid().map((id) => `urn:uuid:${id}`),
  fc.constantFrom("1-555-123-4567", "mailto:events@example.com", "/weir/%C3%A4?q=%2F#f", "//[::1]:80/a"),
);
const time = fc.oneof(
  fc
    .tuple(fc.integer({ min: -62_135_596_800, max: 253_402_300_799 }), fc.nat(999_999_999))
    .map((parts) => timestampFrom(...parts).text),
  fc.constantFrom(
    "2026-11-01T10:30:00.5+01:00",
    "1985-04-12t23:20:50.52z",
    "1996-12-19T16:39:57-08:00",
    "2026-11-01T10:30:00.123456789123456789Z",
  ),
);
const mediaType = fc.constantFrom(
  "application/json",
  "text/json; charset=utf-8",
  "application/vnd.acme+JSON",
  "text/plain",
  'text/plain; charset="utf-8"; x="a\\"b"',
  "application/octet-stream",
  "application/cloudevents+json",
  "Application/CloudEvents-batch+avro; v=1",
);
const extensionName = fc
  .stringMatching(/^[a-z0-9]{1,20}$/)
  .filter(
    (name) =>
      !["data", "specversion", "id", "source", "type", "subject", "time", "dataschema"].includes(name),
  );
const payload = fc.oneof(
  fc.uint8Array({ maxLength: 64 }),
  fc.string({ unit: "binary", maxLength: 32 }).map(encodeUtf8),
  fc.json({ maxDepth: 4 }).map(encodeUtf8),
  fc
    .constantFrom(
      "null",
      "1.0",
      "1e3",
      "123456789012345678901234567890",
      ' {"b":1, "a":2}\n',
      '"\\ud800"',
      "\ufeff{}",
    )
    .map(encodeUtf8),
);

function eventWith(data: fc.Arbitrary<EventData | undefined>): fc.Arbitrary<CloudEvent> {
  const attributes = fc.record(
    {
      specversion: fc.constant("1.0"),
      id: filled,
      source: uriReference,
      type: filled,
      subject: filled,
      time,
      datacontenttype: mediaType,
      dataschema: fc.webUrl({ withFragments: true }),
    },
    { requiredKeys: ["specversion", "id", "source", "type"] },
  );
  const extensions = fc.dictionary(extensionName, text, { maxKeys: 4 });
  return fc.tuple(attributes, extensions, data).map(([core, more, payloadOrNone]) => {
    const given = [...Object.entries(core), ...Object.entries(more)];
    const result = buildEvent({ attributes: given, data: payloadOrNone });
    if (!result.ok) throw new Error(JSON.stringify({ given, faults: result.faults }));
    return result.value;
  });
}

const payloads = fc.option(
  fc.record({ bytes: payload, protoType: fc.option(uriReference, { nil: undefined }) }),
  { nil: undefined },
);
const events = fc.array(eventWith(payloads), { minLength: 1, maxLength: 4 });

function value<T>(result: Result<T>): T {
  if (!result.ok) throw new Error(JSON.stringify(result.faults));
  return result.value;
}

/** A way for events to travel: there and back, and what of an event cannot travel so. */
interface Mode {
  readonly name: string;
  readonly travel: (events: readonly CloudEvent[]) => readonly Decoded[];
  readonly canonical: (event: CloudEvent) => CloudEvent;
}

const maxEvents = 1_000;

function each(travel: (event: CloudEvent) => Decoded): Mode["travel"] {
  return (many) => many.map(travel);
}

function overHttp(contentType: string, body: Uint8Array): readonly Decoded[] {
  const read = value(decodeHttp([["Content-Type", contentType]], body, { maxEvents }));
  return read.mode === "batch" ? read.events : [read.event];
}

function overKafka(contentType: string, body: Uint8Array): Decoded {
  return decodeKafkaRecord({ headers: [["content-type", encodeUtf8(contentType)]], value: body });
}

const MODES: readonly Mode[] = [
  {
    name: "JSON, structured",
    travel: each((event) => decodeStructuredJson(encodeStructuredJson(event))),
    canonical: untyped,
  },
  {
    name: "protobuf, structured",
    travel: each((event) => decodeStructuredProtobuf(encodeStructuredProtobuf(event))),
    canonical: inUtc,
  },
  {
    name: "JSON, batch",
    travel: (many) => value(decodeBatchJson(encodeBatchJson(many), maxEvents)),
    canonical: untyped,
  },
  {
    name: "protobuf, batch",
    travel: (many) => value(decodeBatchProtobuf(encodeBatchProtobuf(many), maxEvents)),
    canonical: inUtc,
  },
  {
    name: "HTTP, binary",
    travel: each((event) => {
      const { headers, body } = encodeHttpBinary(event);
      const read = value(decodeHttp(headers, body, { maxEvents }));
      return read.mode === "batch" ? read.events[0]! : read.event;
    }),
    canonical: (event) => canonicalOverHttp(untyped(event)),
  },
  {
    name: "HTTP, structured JSON",
    travel: (many) => many.flatMap((event) => overHttp(STRUCTURED_JSON, encodeStructuredJson(event))),
    canonical: untyped,
  },
  {
    name: "HTTP, structured protobuf",
    travel: (many) => many.flatMap((event) => overHttp(STRUCTURED_PROTOBUF, encodeStructuredProtobuf(event))),
    canonical: inUtc,
  },
  {
    name: "HTTP, batch JSON",
    travel: (many) => overHttp(`${BATCH_JSON}; charset=UTF-8`, encodeBatchJson(many)),
    canonical: untyped,
  },
  {
    name: "HTTP, batch protobuf",
    travel: (many) => overHttp(BATCH_PROTOBUF, encodeBatchProtobuf(many)),
    canonical: inUtc,
  },
  {
    name: "Kafka, binary",
    travel: each((event) => decodeKafkaRecord(encodeKafkaBinary(event))),
    canonical: (event) => event,
  },
  {
    name: "Kafka, structured JSON",
    travel: each((event) => overKafka(`${STRUCTURED_JSON}; charset=UTF-8`, encodeStructuredJson(event))),
    canonical: untyped,
  },
  {
    name: "Kafka, structured protobuf",
    travel: each((event) => overKafka(STRUCTURED_PROTOBUF, encodeStructuredProtobuf(event))),
    canonical: inUtc,
  },
];

/** JSON and HTTP have no place for a type URL. */
function untyped(event: CloudEvent): CloudEvent {
  return { ...event, data: event.data && { bytes: event.data.bytes, protoType: undefined } };
}

/** A google.protobuf.Timestamp knows neither offset nor more than nine digits. */
function inUtc(event: CloudEvent): CloudEvent {
  return { ...event, time: event.time && timestampFrom(event.time.seconds, event.time.nanos) };
}

/** HTTP cannot tell no body from an empty one. */
function canonicalOverHttp(event: CloudEvent): CloudEvent {
  const type = event.datacontenttype;
  const isEmpty = event.data === undefined || event.data.bytes.length === 0;
  // A CloudEvent within a CloudEvent travels in structured mode, which keeps the difference.
  if (!isEmpty || (type !== undefined && isCloudEventsMediaType(type))) return event;
  const isPayload = type !== undefined && !isJsonMediaType(type);
  return { ...event, data: isPayload ? { bytes: new Uint8Array(), protoType: undefined } : undefined };
}

const JSON_TYPE = "application/json";
const PLAIN: CloudEvent = {
  id: "1",
  source: "/s",
  type: "t",
  subject: undefined,
  time: undefined,
  datacontenttype: undefined,
  dataschema: undefined,
  extensions: new Map(),
  data: undefined,
};

describe.each(MODES)("decode(encode(event)) is the canonical event: $name", ({ travel, canonical }) => {
  test("any events", () => {
    fc.assert(
      fc.property(events, (sent) => {
        expect(travel(sent).map(value)).toEqual(sent.map(canonical));
      }),
      { numRuns: 200 },
    );
  });

  test.each<[string, string | undefined, string | Uint8Array]>([
    ["an integer beyond 2^53", JSON_TYPE, "123456789012345678901234567890"],
    ["the spelling 1.0", JSON_TYPE, "1.0"],
    ["the spelling 1e3", JSON_TYPE, "1e3"],
    ["a negative zero", JSON_TYPE, "-0.0E+00"],
    ["a number of 100,000 digits", JSON_TYPE, "9".repeat(100_000)],
    ["key order, white space, a key twice", JSON_TYPE, '{"b": 1,\n\t"a": [ 2.50 ] , "b":1}'],
    ["white space around", JSON_TYPE, " {} \n"],
    ["null, which is not no data", JSON_TYPE, "null"],
    ["a string", JSON_TYPE, '"\\u00e4 \\/ ä"'],
    ["a lone surrogate, escaped", JSON_TYPE, '"\\ud800"'],
    ["100,000 brackets", JSON_TYPE, "[".repeat(100_000) + "]".repeat(100_000)],
    ["a byte order mark", JSON_TYPE, "\ufeff{}"],
    ["what is no JSON, though it says so", JSON_TYPE, "{"],
    ["text with a byte order mark and line breaks", "text/plain", "\ufeffa\r\nb\u0000"],
    ["an empty text", "text/plain", ""],
    ["bytes that are no UTF-8, though they say text", "text/plain; charset=UTF-8", new Uint8Array([0xff, 0])],
    ["bytes that are no UTF-8, though they say JSON", JSON_TYPE, new Uint8Array([0x22, 0xff, 0x22])],
    ["bytes of no declared type", undefined, new Uint8Array([0xff])],
    ["text of no declared type", undefined, "{}"],
  ])("data: %s", (_, datacontenttype, data) => {
    const bytes = typeof data === "string" ? encodeUtf8(data) : data;
    const event: CloudEvent = { ...PLAIN, datacontenttype, data: { bytes, protoType: undefined } };
    const [read] = travel([event]).map(value);
    expect(read?.datacontenttype).toBe(datacontenttype);
    // A part, to be shown where it differs, and then all.
    expect(read?.data && [...read.data.bytes.subarray(0, 200)]).toEqual([...bytes.subarray(0, 200)]);
    expect(read?.data && sameBytes(read.data.bytes, bytes)).toBe(true);
  });

  test("no data, and empty data of no declared type", () => {
    const empty = { bytes: new Uint8Array(), protoType: undefined };
    const sent = [PLAIN, { ...PLAIN, data: empty }];
    expect(travel(sent).map(value)).toEqual(sent.map(canonical));
  });

  test.each([
    "2026-11-01T10:30:00.50+01:00",
    "1985-04-12t23:20:50.52z",
    "2026-11-01T10:30:00.123456789123456789-00:00",
    "2026-11-01T10:30:00.000Z",
    "0001-01-01T00:00:00Z",
  ])("time: %s", (text) => {
    const event = value(
      buildEvent({
        attributes: Object.entries({ specversion: "1.0", id: "1", source: "/s", type: "t", time: text }),
        data: undefined,
      }),
    );
    const [read] = travel([event]).map(value);
    expect(read?.time).toEqual(canonical(event).time);
    expect([read?.time?.seconds, read?.time?.nanos]).toEqual([event.time?.seconds, event.time?.nanos]);
  });
});

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}

test("a payload sent in JSON comes back in JSON as it was written, whichever way it travelled", () => {
  const raw = '{"b" : 12345678901234567890.10, "a":[1e3 , null]\n}';
  const sent = encodeUtf8(`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":${raw}}`);
  for (const { name, travel } of MODES) {
    const [event] = travel([value(decodeStructuredJson(sent))]).map(value);
    expect([name, decodeUtf8(encodeStructuredJson(event!))]).toEqual([
      name,
      `{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"application/json","data":${raw}}`,
    ]);
  }
});

test("in structured JSON no payload grows by more than a third", () => {
  const data = { bytes: new Uint8Array(30_000).fill(1), protoType: undefined };
  for (const datacontenttype of ["text/plain", "application/cloudevents", "application/json"]) {
    const event: CloudEvent = { ...PLAIN, datacontenttype, data };
    const encoded = encodeStructuredJson(event);
    expect(encoded.length).toBeLessThan(41_000);
    expect(value(decodeStructuredJson(encoded))).toEqual(event);
  }
});
