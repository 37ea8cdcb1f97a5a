import fc from "fast-check";
import { buildEvent } from "#core/attributes.ts";
import { type CloudEvent, type EventData } from "#core/event.ts";
import { timestampFrom } from "#core/timestamp.ts";
import { encodeUtf8 } from "#core/utf8.ts";

// Lengths around the steps of a varint matter most.
const length = fc.oneof(
  fc.nat(20),
  fc.integer({ min: 110, max: 135 }),
  fc.integer({ min: 16_370, max: 16_400 }),
);
const text = fc
  .tuple(fc.constantFrom("a", "é", "€", "😀"), length)
  .map(([character, count]) => character.repeat(count));
const filled = text.filter((value) => value !== "");
const seconds = fc.oneof(
  fc.integer({ min: -62_135_596_800, max: 253_402_300_799 }),
  fc.constantFrom(-1, 0, 1, 127, 128, 16_383, 16_384, 2 ** 31, 2 ** 35 - 1, 2 ** 35),
);
const nanos = fc.oneof(fc.nat(999_999_999), fc.constantFrom(0, 127, 128, 999_999_999));
const bytes = fc.oneof(
  text.map(encodeUtf8),
  length.map((count) => new Uint8Array(count).fill(0xff)),
);
const typeUrl = length.map((count) => `a.${"B".repeat(count)}`);
const data: fc.Arbitrary<EventData | undefined> = fc.oneof(
  fc.constant(undefined),
  fc.record({ bytes, protoType: fc.option(typeUrl, { nil: undefined }) }),
);
const attributes = fc.record(
  {
    specversion: fc.constant("1.0"),
    id: filled,
    source: length.map((count) => `/${"s".repeat(count)}`),
    type: filled,
    subject: filled,
    time: fc.tuple(seconds, nanos).map((parts) => timestampFrom(...parts).text),
    datacontenttype: length.map((count) => `text/${"x".repeat(count + 1)}`),
    dataschema: length.map((count) => `urn:${"x".repeat(count)}`),
  },
  { requiredKeys: ["specversion", "id", "source", "type"] },
);
const extensions = fc.dictionary(fc.stringMatching(/^ext[a-z0-9]{0,20}$/), text, { maxKeys: 4 });

/** Any event whose time is in UTC, as a protobuf timestamp has it. */
export const events: fc.Arbitrary<CloudEvent> = fc
  .tuple(attributes, extensions, data)
  .map(([core, more, payload]) => {
    const result = buildEvent({ attributes: Object.entries({ ...core, ...more }), data: payload });
    if (!result.ok) throw new Error(JSON.stringify(result.faults));
    return result.value;
  });
