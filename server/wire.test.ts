import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { AnySchema } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { encodedSize } from "#core/encoded-size.ts";
import { type CloudEvent } from "#core/event.ts";
import { type Fault } from "#core/reason.ts";
import { timestampFrom } from "#core/timestamp.ts";
import { CloudEventSchema } from "#gen/io/cloudevents/v1/cloudevents_pb.ts";
import { Severity } from "#gen/weir/v1/event_pb.ts";
import {
  fromCloudEventMessage,
  fromMicros,
  requestPath,
  toCloudEventMessage,
  toEventMessage,
  toMicros,
} from "./wire.ts";

type Init = Exclude<MessageInitShape<typeof CloudEventSchema>, { $typeName: string }>;
type Attributes = NonNullable<Init["attributes"]>;

function decode(init: Init): ReturnType<typeof fromCloudEventMessage> {
  return fromCloudEventMessage(
    create(CloudEventSchema, { id: "1", source: "/s", specVersion: "1.0", type: "t", ...init }),
  );
}

function eventOf(init: Init): CloudEvent {
  const result = decode(init);
  if (!result.ok) throw new Error(JSON.stringify(result.faults));
  return result.value;
}

function faultsOf(init: Init): readonly Fault[] {
  const result = decode(init);
  return result.ok ? [] : result.faults;
}

function extension(attr: Attributes[string]["attr"]): Init {
  return { attributes: { ext: { attr } as Attributes[string] } };
}

describe("an attribute's value becomes its CloudEvents string", () => {
  test.each<[string, Attributes[string]["attr"], string]>([
    ["a boolean", { case: "ceBoolean", value: true }, "true"],
    ["a boolean's default", { case: "ceBoolean", value: false }, "false"],
    ["the least integer", { case: "ceInteger", value: -2147483648 }, "-2147483648"],
    ["a string", { case: "ceString", value: "Ā b" }, "Ā b"],
    ["an empty string", { case: "ceString", value: "" }, ""],
    ["bytes", { case: "ceBytes", value: new Uint8Array([251, 255, 254]) }, "+//+"],
    ["a URI", { case: "ceUri", value: "urn:a:b" }, "urn:a:b"],
    ["a URI-reference", { case: "ceUriRef", value: "../a?b#c" }, "../a?b#c"],
    [
      "a time",
      { case: "ceTimestamp", value: { seconds: 0n, nanos: 120_000_000 } as never },
      "1970-01-01T00:00:00.120Z",
    ],
    [
      "the first time",
      { case: "ceTimestamp", value: { seconds: -62135596800n, nanos: 0 } as never },
      "0001-01-01T00:00:00Z",
    ],
    [
      "the last time",
      { case: "ceTimestamp", value: { seconds: 253402300799n, nanos: 999_999_999 } as never },
      "9999-12-31T23:59:59.999999999Z",
    ],
  ])("%s", (_, attr, text) => {
    expect(eventOf(extension(attr)).extensions.get("ext")).toBe(text);
  });

  test("whichever kind it comes as, for core attributes too", () => {
    const event = eventOf({
      attributes: {
        subject: { attr: { case: "ceInteger", value: 5 } },
        time: { attr: { case: "ceString", value: "2026-11-01T10:30:00.5+01:00" } },
      },
    });
    expect(event).toMatchObject({
      subject: "5",
      time: { text: "2026-11-01T10:30:00.5+01:00", nanos: 500_000_000 },
    });
  });
});

describe("what is refused, with its place", () => {
  test.each<[string, Init, string]>([
    ["no value", extension({ case: undefined }), "event.attributes.ext"],
    ["a ce_uri without a scheme", extension({ case: "ceUri", value: "/relative" }), "event.attributes.ext"],
    ["a ce_uri_ref that is none", extension({ case: "ceUriRef", value: "a b" }), "event.attributes.ext"],
    [
      "a time before year 1",
      extension({ case: "ceTimestamp", value: { seconds: -62135596801n, nanos: 0 } as never }),
      "event.attributes.ext",
    ],
    [
      "a time of the largest int64",
      extension({ case: "ceTimestamp", value: { seconds: 2n ** 63n - 1n, nanos: 0 } as never }),
      "event.attributes.ext",
    ],
    [
      "negative nanos",
      extension({ case: "ceTimestamp", value: { seconds: 0n, nanos: -1 } as never }),
      "event.attributes.ext",
    ],
    [
      "an id twice",
      { attributes: { id: { attr: { case: "ceString", value: "1" } } } },
      "event.attributes.id",
    ],
    [
      "specversion in the map",
      { attributes: { specversion: { attr: { case: "ceString", value: "1.0" } } } },
      "event.attributes.specversion",
    ],
    ["an empty id", { id: "" }, "event.id"],
    ["an empty source", { source: "" }, "event.source"],
    ["an empty type", { type: "" }, "event.type"],
    ["no version", { specVersion: "" }, "event.spec_version"],
    ["another version", { specVersion: "2.0" }, "event.spec_version"],
    [
      "a name in capitals",
      { attributes: { Ext: { attr: { case: "ceString", value: "" } } } },
      "event.attributes.Ext",
    ],
  ])("%s", (_, init, path) => {
    expect(faultsOf(init).map(({ field, reason }) => [requestPath(field), reason])).toEqual([
      [path, "INVALID_ATTRIBUTES"],
    ]);
  });

  test.each(["", "a b", "type.googleapis.com/a\0", "ä"])("a protobuf payload of the type %j", (typeUrl) => {
    const faults = faultsOf({ data: { case: "protoData", value: create(AnySchema, { typeUrl }) } });
    expect(faults.map(({ field, reason }) => [requestPath(field), reason])).toEqual([
      ["event.data", "INVALID_DATA"],
    ]);
  });

  test("no message", () => {
    expect(fromCloudEventMessage(undefined)).toMatchObject({
      ok: false,
      faults: [{ field: "", reason: "INVALID_REQUEST" }],
    });
    expect(requestPath("")).toBe("event");
  });

  test("names that mean something to JavaScript", () => {
    // Field 5, an entry whose key is "__proto__" and whose value is ce_string "x".
    const bytes = new Uint8Array([
      0x2a,
      16,
      0x0a,
      9,
      ...new TextEncoder().encode("__proto__"),
      0x12,
      3,
      0x1a,
      1,
      0x78,
    ]);
    const message = fromBinary(CloudEventSchema, bytes);
    const result = fromCloudEventMessage(message);
    expect(result.ok ? [] : result.faults.map(({ field }) => field)).toContain("__proto__");
    expect(
      eventOf({
        attributes: Object.fromEntries([["constructor", { attr: { case: "ceString", value: "x" } }]]),
      }).extensions,
    ).toEqual(new Map([["constructor", "x"]]));
  });
});

const text = fc
  .string({ unit: "binary" })
  .map((value) => value.replace(/[\p{Cc}\p{Cs}\p{Noncharacter_Code_Point}]/gu, ""));
const filled = text.map((value) => `${value}!`);
const time = fc
  .tuple(fc.integer({ min: -62_135_596_800, max: 253_402_300_799 }), fc.nat(999_999_999))
  .map((parts) => timestampFrom(...parts));
const events = fc.record({
  id: filled,
  source: fc.webPath().map((path) => `/${path.slice(1)}`),
  type: filled,
  subject: fc.option(filled, { nil: undefined }),
  time: fc.option(time, { nil: undefined }),
  datacontenttype: fc.option(fc.constantFrom("text/plain", "application/json"), { nil: undefined }),
  dataschema: fc.option(fc.webUrl(), { nil: undefined }),
  extensions: fc
    .dictionary(fc.stringMatching(/^x[a-z0-9]{0,9}$/), text)
    .map((values) => new Map(Object.entries(values).sort(([a], [b]) => (a < b ? -1 : 1)))),
  data: fc.option(
    fc.record({
      bytes: fc.oneof(
        fc.uint8Array({ size: "medium" }),
        text.map((value) => new TextEncoder().encode(value)),
      ),
      protoType: fc.option(fc.constantFrom("a.B", "type.googleapis.com/a.B"), { nil: undefined }),
    }),
    { nil: undefined },
  ),
});

describe("an event and its message", () => {
  test("an event comes back from its message as it was", () => {
    fc.assert(
      fc.property(events, (event) => {
        const bytes = toBinary(CloudEventSchema, toCloudEventMessage(event, event.data));
        expect(fromCloudEventMessage(fromBinary(CloudEventSchema, bytes))).toEqual({
          ok: true,
          value: event,
        });
      }),
    );
  });

  test("its size is reckoned as it is encoded", () => {
    fc.assert(
      fc.property(events, (event) => {
        expect(encodedSize(event)).toBe(
          toBinary(CloudEventSchema, toCloudEventMessage(event, event.data)).length,
        );
      }),
    );
  });

  test("the severity number lies in the range that its name stands for", () => {
    const stored = {
      event: eventOf({}),
      acceptTime: 0,
      principal: "p",
      traceParent: undefined,
      traceState: undefined,
    };
    const position = { topic: "t", partition: 0, offset: 0n };
    const nameOf = (severity: number | undefined): Severity =>
      toEventMessage({ ...stored, position, dataSize: 0, severity, tags: [] }).severity;
    expect([undefined, 1, 4, 5, 12, 13, 16, 17, 20, 21, 24].map(nameOf)).toEqual([
      Severity.UNSPECIFIED,
      Severity.TRACE,
      Severity.TRACE,
      Severity.DEBUG,
      Severity.INFO,
      Severity.WARN,
      Severity.WARN,
      Severity.ERROR,
      Severity.ERROR,
      Severity.FATAL,
      Severity.FATAL,
    ]);
  });

  test("times in microseconds come back, and are cut off towards the past", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -62135596800000000n, max: 253402300799999999n }), (micros) => {
        expect(toMicros(fromMicros(micros))).toBe(micros);
      }),
    );
    const time = fromMicros(-1n);
    expect([time.seconds, time.nanos]).toEqual([-1n, 999_999_000]);
    time.nanos += 999;
    expect(toMicros(time)).toBe(-1n);
    time.nanos = 1_000_000_000;
    expect(toMicros(time)).toBeUndefined();
  });
});
