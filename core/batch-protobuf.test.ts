import { describe, expect, test } from "vitest";
import { type Decoded } from "./attributes.ts";
import { decodeBatchProtobuf, encodeBatchProtobuf } from "./batch-protobuf.ts";
import { type CloudEvent } from "./event.ts";
import { type Result } from "./reason.ts";
import { encodeStructuredProtobuf } from "./structured-protobuf.ts";
import { timestampFrom } from "./timestamp.ts";
import { concatBytes } from "./utf8.ts";

const EVENT: CloudEvent = {
  id: "1",
  source: "/s",
  type: "t",
  subject: undefined,
  time: timestampFrom(1, 0),
  datacontenttype: undefined,
  dataschema: undefined,
  extensions: new Map([["ext", "x".repeat(200)]]),
  data: undefined,
};
const UNKNOWN = new Uint8Array([0x10, 1, 0x1b, 0x1c, 0x7a, 1, 0xff]);
const NO_MESSAGE = new Uint8Array([0x0a, 1, 0xff]);

function refusal(result: Result<readonly Decoded[]>): unknown {
  return result.ok ? undefined : result.faults;
}

describe("protobuf format § 5, batch", () => {
  test("§ 5.1: is a repeated field of events", () => {
    const encoded = encodeStructuredProtobuf(EVENT);
    const bytes = encodeBatchProtobuf([EVENT]);
    expect([...bytes]).toEqual([0x0a, (encoded.length & 127) | 128, encoded.length >> 7, ...encoded]);
    expect(decodeBatchProtobuf(bytes, 1)).toEqual({ ok: true, value: [{ ok: true, value: EVENT }] });
    expect(encodeBatchProtobuf([])).toEqual(new Uint8Array());
    expect(decodeBatchProtobuf(new Uint8Array(), 0)).toEqual({ ok: true, value: [] });
  });

  test("one that is at fault, or is no message, spoils no other, and unknown fields are skipped", () => {
    const bytes = concatBytes([
      UNKNOWN,
      encodeBatchProtobuf([EVENT, { ...EVENT, id: "" }]),
      NO_MESSAGE,
      UNKNOWN,
      encodeBatchProtobuf([EVENT]),
    ]);
    const result = decodeBatchProtobuf(bytes, 4);
    const outcomes = result.ok ? result.value.map((event) => event.ok || event.faults[0].reason) : [];
    expect(outcomes).toEqual([true, "INVALID_ATTRIBUTES", "MALFORMED", true]);
  });

  test.each([[[0x0a]], [[0x0a, 2, 0x08]], [[0x08, 1]], [[0x0b, 0x0c]], [[0xff]], [[0x12, 9]]])(
    "%j is refused whole",
    (bytes) => {
      expect(refusal(decodeBatchProtobuf(new Uint8Array(bytes), 10))).toMatchObject([
        { field: "", reason: "MALFORMED" },
      ]);
    },
  );

  test("more events than are taken are counted and refused whole, and what is no message after them too", () => {
    const bytes = concatBytes([encodeBatchProtobuf([EVENT, EVENT]), NO_MESSAGE]);
    expect(refusal(decodeBatchProtobuf(bytes, 2))).toMatchObject([
      { field: "", reason: "TOO_LARGE", metadata: { limit: "2", actual: "3", unit: "events" } },
    ]);
    expect(refusal(decodeBatchProtobuf(concatBytes([bytes, new Uint8Array([0x0a])]), 2))).toMatchObject([
      { field: "", reason: "MALFORMED" },
    ]);
  });
});
