import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { attributesOf, buildEvent, MAX_ATTRIBUTES } from "./attributes.ts";
import { BATCH_JSON, decodeBatchJson, encodeBatchJson } from "./batch-json.ts";
import { BATCH_PROTOBUF, decodeBatchProtobuf, encodeBatchProtobuf } from "./batch-protobuf.ts";
import { decodeDeadLetter } from "./dead-letter.ts";
import { type CloudEvent } from "./event.ts";
import { parseEventName } from "./event-name.ts";
import { MAX_FAULTS } from "./faults.ts";
import { decodeHttp } from "./http.ts";
import { decodeHttpBinary } from "./http-binary.ts";
import { decodeKafkaRecord } from "./kafka-binary.ts";
import { decodePageToken } from "./page-token.ts";
import { REASONS, type Result } from "./reason.ts";
import { decodeStructuredJson, encodeStructuredJson, STRUCTURED_JSON } from "./structured-json.ts";
import {
  decodeStructuredProtobuf,
  encodeStructuredProtobuf,
  STRUCTURED_PROTOBUF,
} from "./structured-protobuf.ts";
import { timestampFrom } from "./timestamp.ts";
import { concatBytes, encodeUtf8 } from "./utf8.ts";

// A global of every engine, yet in none of the type libraries that core is checked with.
declare const performance: { now(): number };

const EVENT: CloudEvent = {
  id: "1",
  source: "/s",
  type: "t",
  subject: "größe",
  time: timestampFrom(1_793_525_400, 120_000_000),
  datacontenttype: "text/plain",
  dataschema: "urn:x",
  extensions: new Map([["ext", "5"]]),
  data: { bytes: encodeUtf8("payload"), protoType: undefined },
};
const TYPED: CloudEvent = { ...EVENT, data: { bytes: new Uint8Array([1]), protoType: "a.B" } };
const ENCODED = [
  encodeStructuredJson(EVENT),
  encodeStructuredProtobuf(EVENT),
  encodeStructuredProtobuf(TYPED),
  encodeBatchJson([EVENT, EVENT]),
  encodeBatchProtobuf([EVENT, TYPED]),
];

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

function flawsOfAll(result: Result<readonly Result<CloudEvent>[]>): unknown[] {
  return result.ok ? result.value.flatMap(flawsOf) : flawsOf(result);
}

function flawsOfHttp(result: ReturnType<typeof decodeHttp>): unknown[] {
  if (!result.ok) return flawsOf(result);
  return result.value.mode === "batch" ? result.value.events.flatMap(flawsOf) : flawsOf(result.value.event);
}

describe("no input throws", () => {
  const bytes = fc.uint8Array({ maxLength: 200 });
  // Near misses reach further into a decoder than noise does.
  const almost = fc
    .tuple(fc.constantFrom(...ENCODED), fc.nat(), fc.uint8Array({ maxLength: 4 }), fc.boolean())
    .map(([encoded, place, noise, isCut]) => {
      const at = place % encoded.length;
      if (isCut) return concatBytes([encoded.subarray(0, at), noise, encoded.subarray(at)]);
      const broken = encoded.slice();
      broken.set(noise.subarray(0, broken.length - at), at);
      return broken;
    });
  const input = fc.oneof(bytes, almost);
  const runs = { numRuns: 2_000 };

  test("in JSON and protobuf, one event or many", () => {
    fc.assert(
      fc.property(input, fc.nat(3), (body, maxEvents) => {
        expect(flawsOf(decodeStructuredJson(body))).toEqual([]);
        expect(flawsOf(decodeStructuredProtobuf(body))).toEqual([]);
        expect(flawsOfAll(decodeBatchJson(body, maxEvents))).toEqual([]);
        expect(flawsOfAll(decodeBatchProtobuf(body, maxEvents))).toEqual([]);
        expect(decodeDeadLetter(body).ok).toBe(false);
      }),
      runs,
    );
  });

  const contentType = fc.constantFrom(
    STRUCTURED_JSON,
    STRUCTURED_PROTOBUF,
    BATCH_JSON,
    BATCH_PROTOBUF,
    "application/cloudevents+avro",
  );

  test("in Kafka records", () => {
    const name = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.constantFrom("ce_specversion", "ce_id", "ce_time", "content-type", "weir-data-type", "ce_"),
    );
    const header = fc.tuple(
      name,
      fc.option(
        fc.oneof(bytes, fc.constantFrom("1.0", "x", "").map(encodeUtf8), contentType.map(encodeUtf8)),
      ),
    );
    fc.assert(
      fc.property(fc.array(header, { maxLength: 8 }), fc.option(input), (headers, value) => {
        expect(flawsOf(decodeKafkaRecord({ headers, value }))).toEqual([]);
      }),
      runs,
    );
  });

  test("in HTTP messages", () => {
    const name = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.constantFrom("ce-specversion", "CE-ID", "ce-source", "ce-type", "ce-time", "Content-Type", "ce-"),
    );
    const header = fc.tuple(
      name,
      fc.oneof(fc.string({ unit: "binary" }), fc.constantFrom("1.0", "%", '"', '"\\'), contentType),
    );
    fc.assert(
      fc.property(fc.array(header, { maxLength: 8 }), input, (headers, body) => {
        expect(flawsOfHttp(decodeHttp(headers, body, { maxEvents: 3 }))).toEqual([]);
        expect(flawsOf(decodeHttpBinary(headers, body))).toEqual([]);
      }),
      runs,
    );
  });

  test("in names and page tokens", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        expect(decodePageToken(text, { filter: "", order: "time" }).ok).toBe(false);
        expect(typeof parseEventName(`events/${text}`).ok).toBe("boolean");
      }),
      { numRuns: 300 },
    );
  });
});

/** The event in JSON, without its closing brace. */
const OPEN = '{"specversion":"1.0","id":"1","source":"/s","type":"t"';
/** Field 5, an entry: the key `name` and the value ce_string "x". */
function entry(name: string): Uint8Array {
  const key = encodeUtf8(name);
  return new Uint8Array([0x2a, key.length + 7, 0x0a, key.length, ...key, 0x12, 3, 0x1a, 1, 0x78]);
}
function flood(count: number, part: Uint8Array): Uint8Array {
  const whole = new Uint8Array(count * part.length);
  for (let at = 0; at < whole.length; at += part.length) whole.set(part, at);
  return whole;
}
function names(count: number): string[] {
  return Array.from({ length: count }, (_, at) => `a${at}`);
}

const json = (text: (count: number) => string) => (count: number) => {
  const bytes = encodeUtf8(text(count));
  return () => decodeStructuredJson(bytes);
};
const jsonBatch = (text: (count: number) => string) => (count: number) => {
  const bytes = encodeUtf8(text(count));
  return () => decodeBatchJson(bytes, count);
};
const protobuf = (make: (count: number) => Uint8Array) => (count: number) => {
  const bytes = make(count);
  return () => decodeStructuredProtobuf(bytes);
};

describe("time is in proportion to size", () => {
  test.each<[string, (count: number) => () => unknown]>([
    ["JSON: brackets that open", json((n) => "[".repeat(n))],
    ["JSON: brackets within data", json((n) => `${OPEN},"data":${"[".repeat(n)}${"]".repeat(n)}}`)],
    ["JSON: objects within data", json((n) => `${OPEN},"data":${'{"a":'.repeat(n)}1${"}".repeat(n)}}`)],
    ["JSON: a number", json((n) => `${OPEN},"ext":${"9".repeat(n)}}`)],
    ["JSON: escapes", json((n) => `${OPEN},"ext":"${"\\u00e4".repeat(n)}"}`)],
    ["JSON: backslashes", json((n) => `${OPEN},"ext":"${"\\".repeat(n)}`)],
    ["JSON: spaces", json((n) => `${OPEN}${" ".repeat(n)},"ext":"${" ".repeat(n)}"}`)],
    [
      "JSON: members",
      json(
        (n) =>
          `${OPEN},${names(n)
            .map((name) => `"${name}":1`)
            .join()}}`,
      ),
    ],
    ["JSON: one member again and again", json((n) => `${OPEN}${',"ext":null'.repeat(n)}}`)],
    ["JSON: a name", json((n) => `${OPEN},"${"A".repeat(n)}":1}`)],
    ["JSON: a source", json((n) => `{"source":"${"/%41".repeat(n)}:["}`)],
    ["JSON: a media type", json((n) => `{"datacontenttype":"a/b${";a=b".repeat(n)}","data":1}`)],
    ["JSON: base64", json((n) => `${OPEN},"data_base64":"${"AAAA".repeat(n)}"}`)],
    ["JSON batch: events", jsonBatch((n) => `[${Array(n).fill(`${OPEN},"data":"ab"}`).join()}]`)],
    [
      "JSON batch: events, one not ASCII",
      jsonBatch((n) => `["ä",${Array(n).fill(`${OPEN},"data":1}`).join()}]`),
    ],
    ["JSON batch: numbers", jsonBatch((n) => `[${Array(n).fill(1).join()}]`)],
    ["protobuf: groups within groups", protobuf((n) => flood(n, new Uint8Array([0x7b])))],
    ["protobuf: groups", protobuf((n) => flood(n, new Uint8Array([0x7b, 0x7c])))],
    ["protobuf: unknown fields", protobuf((n) => flood(n, new Uint8Array([0x78, 1])))],
    ["protobuf: bytes with the upper bit", protobuf((n) => flood(n, new Uint8Array([0xff])))],
    ["protobuf: one attribute again and again", protobuf((n) => flood(n, entry("ext")))],
    ["protobuf: attributes", protobuf((n) => concatBytes(names(n).map(entry)))],
    ["protobuf: data again and again", protobuf((n) => flood(n, new Uint8Array([0x3a, 1, 0x61])))],
    ["protobuf: an Any in pieces", protobuf((n) => flood(n, new Uint8Array([0x42, 3, 0x12, 1, 0])))],
    [
      "protobuf batch: events",
      (n) => {
        const bytes = encodeBatchProtobuf(Array<CloudEvent>(n).fill(EVENT));
        return () => decodeBatchProtobuf(bytes, n);
      },
    ],
    [
      "HTTP: headers",
      (n) => {
        const headers = names(n).map((name) => [`ce-${name}`, "%41"] as const);
        return () => decodeHttpBinary(headers, new Uint8Array());
      },
    ],
    [
      "HTTP: a header's value",
      (n) => {
        const value = `"${"\\a %41".repeat(n)}"`;
        return () => decodeHttpBinary([["ce-a", value]], new Uint8Array());
      },
    ],
    [
      "Kafka: headers",
      (n) => {
        const headers = names(n).map((name) => [`ce_${name}`, encodeUtf8("ä")] as const);
        return () => decodeKafkaRecord({ headers: [["ce_specversion", null], ...headers], value: null });
      },
    ],
  ])("%s", (_, prepare) => {
    // Eight times the input: about eight times the time, where the square of it would be 64 times.
    const [small, large] = [prepare(4_000), prepare(32_000)];
    const fastest = { small: Infinity, large: Infinity };
    const ratio = (): number => fastest.large / Math.max(fastest.small, 0.2);
    // On a machine that does much else, it takes more rounds until neither was interrupted.
    for (let round = 0; round < 5 || (round < 50 && ratio() >= 30); round += 1) {
      fastest.small = Math.min(fastest.small, timeOf(small));
      fastest.large = Math.min(fastest.large, timeOf(large));
    }
    expect(ratio()).toBeLessThan(30);
  });

  function timeOf(work: () => unknown): number {
    const start = performance.now();
    work();
    return performance.now() - start;
  }
});

describe("a flood of attributes", () => {
  const TOO_MANY = { field: "", reason: "TOO_LARGE", metadata: { limit: "1000", unit: "attributes" } };
  const most = MAX_ATTRIBUTES - 4;
  const inJson = (count: number) =>
    encodeUtf8(
      `${OPEN},${names(count)
        .map((name) => `"${name}":1`)
        .join()}}`,
    );
  const required = encodeStructuredProtobuf({
    ...EVENT,
    subject: undefined,
    time: undefined,
    datacontenttype: undefined,
    dataschema: undefined,
    extensions: new Map(),
    data: undefined,
  });

  test("is read up to a bound, and refused beyond it", () => {
    const read = decodeStructuredJson(inJson(most));
    expect(read.ok && read.value.extensions.size).toBe(most);
    expect(decodeStructuredJson(inJson(most + 1))).toMatchObject({ ok: false, faults: [TOO_MANY] });
    const entries = (count: number) => concatBytes([required, ...names(count).map(entry)]);
    const message = decodeStructuredProtobuf(entries(MAX_ATTRIBUTES));
    expect(message.ok && message.value.extensions.size).toBe(MAX_ATTRIBUTES);
    expect(decodeStructuredProtobuf(entries(MAX_ATTRIBUTES + 1))).toMatchObject({
      ok: false,
      faults: [TOO_MANY],
    });
  });

  test("in one event of a batch refuses that event alone", () => {
    const document = concatBytes([
      encodeUtf8("["),
      inJson(most + 1),
      encodeUtf8(","),
      inJson(most),
      encodeUtf8("]"),
    ]);
    const read = decodeBatchJson(document, 2);
    expect(read.ok && read.value.map(({ ok }) => ok)).toEqual([false, true]);
  });

  test("that are all at fault is answered with the first of them and their number", () => {
    const headers = names(MAX_ATTRIBUTES * 2).map((name) => [`ce-${name}`, "%"] as const);
    const read = decodeHttpBinary(headers, new Uint8Array());
    expect(read.ok ? [] : read.faults).toHaveLength(MAX_FAULTS + 1);
  });
});
