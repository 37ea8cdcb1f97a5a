import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { attributesOf, buildEvent } from "./attributes.ts";
import { isCloudEventsMediaType } from "./content-mode.ts";
import { decodeDeadLetter } from "./dead-letter.ts";
import { type CloudEvent, type EventData } from "./event.ts";
import { parseEventName } from "./event-name.ts";
import { decodeHttpBinary, encodeHttpBinary, httpContentMode } from "./http-binary.ts";
import { decodeKafkaRecord, encodeKafkaBinary } from "./kafka-binary.ts";
import { isJsonMediaType } from "./media-type.ts";
import { decodePageToken } from "./page-token.ts";
import { REASONS, type Result } from "./reason.ts";
import { decodeStructuredJson, encodeStructuredJson } from "./structured-json.ts";
import { timestampFrom } from "./timestamp.ts";
import { encodeUtf8 } from "./utf8.ts";

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

const untyped = fc.option(
  payload.map((bytes) => ({ bytes, protoType: undefined })),
  { nil: undefined },
);
const typed = fc.tuple(payload, filled).map(([bytes, protoType]) => ({ bytes, protoType }));
const runs = { numRuns: 300 };

function value<T>(result: Result<T>): T {
  if (!result.ok) throw new Error(JSON.stringify(result.faults));
  return result.value;
}

describe("decode(encode(event)) is the canonical event", () => {
  test("in structured JSON: the event itself", () => {
    fc.assert(
      fc.property(eventWith(untyped), (event) => {
        expect(value(decodeStructuredJson(encodeStructuredJson(event)))).toEqual(event);
      }),
      runs,
    );
  });

  test("in structured JSON: a payload that came as proto_data is kept, its type URL is not", () => {
    fc.assert(
      fc.property(eventWith(typed), (event) => {
        const decoded = value(decodeStructuredJson(encodeStructuredJson(event)));
        expect(decoded).toEqual({ ...event, data: { bytes: event.data?.bytes, protoType: undefined } });
      }),
      { numRuns: 50 },
    );
  });

  test("in structured JSON: no payload grows by more than a third", () => {
    const data = { bytes: new Uint8Array(30_000).fill(1), protoType: undefined };
    for (const datacontenttype of ["text/plain", "application/cloudevents", "application/json"]) {
      const event = buildEvent({
        attributes: [
          ...Object.entries({ specversion: "1.0", id: "a", source: "/b", type: "c" }),
          ["datacontenttype", datacontenttype],
        ],
        data,
      });
      const encoded = encodeStructuredJson(value(event));
      expect(encoded.length).toBeLessThan(41_000);
      expect(decodeStructuredJson(encoded)).toEqual(event);
    }
  });

  test("in Kafka binary mode: the event itself, its type URL too", () => {
    fc.assert(
      fc.property(eventWith(fc.oneof(untyped, typed)), (event) => {
        expect(value(decodeKafkaRecord(encodeKafkaBinary(event)))).toEqual(event);
      }),
      runs,
    );
  });

  test("in Kafka structured mode: the event itself", () => {
    fc.assert(
      fc.property(eventWith(untyped), (event) => {
        const headers = [
          ["content-type", encodeUtf8("application/cloudevents+json; charset=UTF-8")],
        ] as const;
        expect(value(decodeKafkaRecord({ headers, value: encodeStructuredJson(event) }))).toEqual(event);
      }),
      runs,
    );
  });

  test("in HTTP binary mode: the event itself, but that an empty body is a payload only of a type other than JSON", () => {
    fc.assert(
      fc.property(eventWith(untyped), (event) => {
        const { headers, body } = encodeHttpBinary(event);
        expect(headers.filter(([, header]) => !/^[ -~]*$/.test(header))).toEqual([]);
        const isStructured = httpContentMode(headers).mode === "structured";
        const decoded = isStructured ? decodeStructuredJson(body) : decodeHttpBinary(headers, body);
        expect(value(decoded)).toEqual(canonicalOverHttp(event));
      }),
      runs,
    );
  });
});

function canonicalOverHttp(event: CloudEvent): CloudEvent {
  const type = event.datacontenttype;
  const isEmpty = event.data === undefined || event.data.bytes.length === 0;
  // A CloudEvent within a CloudEvent travels in structured mode, which keeps the difference.
  if (!isEmpty || (type !== undefined && isCloudEventsMediaType(type))) return event;
  const isPayload = type !== undefined && !isJsonMediaType(type);
  return { ...event, data: isPayload ? { bytes: new Uint8Array(), protoType: undefined } : undefined };
}

/** What is unsound about a decoder's answer: an event that its own rules would refuse, a fault that says nothing. */
function flawsOf(result: Result<CloudEvent>): unknown[] {
  if (!result.ok) {
    return result.faults.filter(
      ({ field, reason, description }) =>
        !REASONS.includes(reason) ||
        !/^\S.*\.$/su.test(description) ||
        !`${field}${description}`.isWellFormed(),
    );
  }
  const again = buildEvent({ attributes: attributesOf(result.value), data: result.value.data });
  return again.ok ? [] : [...again.faults];
}

describe("no input throws", () => {
  const bytes = fc.uint8Array({ maxLength: 200 });
  // Near misses reach further into a decoder than noise does.
  const almost = eventWith(untyped)
    .map(encodeStructuredJson)
    .chain((encoded) =>
      fc.tuple(fc.nat(encoded.length - 1), fc.uint8Array({ maxLength: 4 })).map(([at, noise]) => {
        const broken = encoded.slice();
        broken.set(noise.subarray(0, broken.length - at), at);
        return broken;
      }),
    );
  const header = fc.tuple(
    fc.oneof(
      fc.string({ unit: "binary" }),
      fc.constantFrom("ce_specversion", "ce_id", "ce_time", "content-type", "weir-data-type", "ce_"),
    ),
    fc.option(
      fc.oneof(bytes, fc.constantFrom("1.0", "application/cloudevents+json", "x", "").map(encodeUtf8)),
    ),
  );

  test("in structured JSON and dead letters", () => {
    fc.assert(
      fc.property(fc.oneof(bytes, almost), (input) => {
        expect(flawsOf(decodeStructuredJson(input))).toEqual([]);
        expect(decodeDeadLetter(input).ok).toBe(false);
      }),
      { numRuns: 1_000 },
    );
  });

  test("in Kafka records", () => {
    fc.assert(
      fc.property(
        fc.array(header, { maxLength: 8 }),
        fc.option(fc.oneof(bytes, almost)),
        (headers, input) => {
          expect(flawsOf(decodeKafkaRecord({ headers, value: input }))).toEqual([]);
        },
      ),
      { numRuns: 1_000 },
    );
  });

  test("in HTTP messages", () => {
    const name = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.constantFrom("ce-specversion", "CE-ID", "ce-source", "ce-type", "ce-time", "Content-Type", "ce-"),
    );
    const headers = fc.array(
      fc.tuple(name, fc.oneof(fc.string({ unit: "binary" }), fc.constantFrom("1.0", "%", '"', '"\\'))),
      { maxLength: 8 },
    );
    fc.assert(
      fc.property(headers, bytes, (pairs, body) => {
        expect(flawsOf(decodeHttpBinary(pairs, body))).toEqual([]);
      }),
      { numRuns: 1_000 },
    );
  });

  test("in names and page tokens", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (input) => {
        expect(decodePageToken(input, { filter: "", order: "time" }).ok).toBe(false);
        expect(typeof parseEventName(`events/${input}`).ok).toBe("boolean");
      }),
      runs,
    );
  });
});
