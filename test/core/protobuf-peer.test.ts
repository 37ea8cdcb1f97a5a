import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { AnySchema, TimestampSchema } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Decoded } from "#core/attributes.ts";
import { decodeBatchProtobuf, encodeBatchProtobuf } from "#core/batch-protobuf.ts";
import { concatBytes } from "#core/utf8.ts";
import { decodeStructuredProtobuf, encodeStructuredProtobuf } from "#core/structured-protobuf.ts";
import { CloudEventBatchSchema, CloudEventSchema } from "#gen/io/cloudevents/v1/cloudevents_pb.ts";
import { fromCloudEventMessage, toCloudEventMessage } from "../../server/wire.ts";
import { events } from "./events.ts";

// Core's own protobuf codec against protobuf-es, on messages that generated code writes and on the same bytes broken.

type Init = Exclude<MessageInitShape<typeof CloudEventSchema>, { $typeName: string }>;
type Attr = NonNullable<NonNullable<Init["attributes"]>[string]["attr"]>;

/** What core makes of the bytes. */
function coreRead(bytes: Uint8Array): Decoded {
  return inOrder(decodeStructuredProtobuf(bytes));
}

/** What protobuf-es makes of the bytes: undefined where it finds no message. */
function peerRead(bytes: Uint8Array): Decoded | undefined {
  try {
    return inOrder(fromCloudEventMessage(fromBinary(CloudEventSchema, bytes)));
  } catch {
    return undefined;
  }
}

/** A JavaScript object puts names that are numbers first, so the order of faults is not compared. */
function inOrder(decoded: Decoded): Decoded {
  if (decoded.ok) return decoded;
  const [first, ...rest] = decoded.faults.toSorted((a, b) =>
    JSON.stringify(a) < JSON.stringify(b) ? -1 : 1,
  );
  return { ...decoded, faults: [first!, ...rest] };
}

const text = fc.string({ unit: "binary", maxLength: 40 });
const timestamp = fc
  .tuple(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), fc.maxSafeInteger(), fc.boolean())
  .map(([wide, narrow, isWide]) =>
    create(TimestampSchema, {
      seconds: isWide ? wide : BigInt(narrow % 300_000_000_000),
      nanos: Number(BigInt.asIntN(32, isWide ? wide : BigInt(Math.abs(narrow % 1_000_000_000)))),
    }),
  );
const attr: fc.Arbitrary<Attr> = fc.oneof(
  fc.record({ case: fc.constant("ceBoolean" as const), value: fc.boolean() }),
  fc.record({ case: fc.constant("ceInteger" as const), value: fc.integer() }),
  fc.record({ case: fc.constantFrom("ceString", "ceUri", "ceUriRef"), value: text }),
  fc.record({ case: fc.constantFrom("ceUri", "ceUriRef"), value: fc.webUrl() }),
  fc.record({ case: fc.constant("ceBytes" as const), value: fc.uint8Array({ maxLength: 40 }) }),
  fc.record({ case: fc.constant("ceTimestamp" as const), value: timestamp }),
  fc.constant({ case: undefined }),
);
const name = fc.oneof(
  fc.constantFrom("time", "subject", "dataschema", "datacontenttype", "id", "ext", "data", "constructor"),
  fc.stringMatching(/^[a-z0-9]{0,12}$/),
  text,
);
const any = fc
  .record({ typeUrl: fc.oneof(text, fc.constant("type.googleapis.com/a.B")), value: fc.uint8Array() })
  .map((init) => create(AnySchema, init));
const data: fc.Arbitrary<NonNullable<Init["data"]>> = fc.oneof(
  fc.record({ case: fc.constant("binaryData" as const), value: fc.uint8Array() }),
  fc.record({ case: fc.constant("textData" as const), value: text }),
  fc.record({ case: fc.constant("protoData" as const), value: any }),
  fc.constant({ case: undefined }),
);
/** Any message, most of which are no event. */
const messages = fc
  .record({
    id: text,
    source: fc.oneof(text, fc.constant("/s")),
    specVersion: fc.oneof({ weight: 9, arbitrary: fc.constant("1.0") }, { weight: 1, arbitrary: text }),
    type: text,
    attributes: fc.dictionary(name, fc.record({ attr }), { maxKeys: 5 }),
    data,
  })
  .map((init) => toBinary(CloudEventSchema, create(CloudEventSchema, init as Init)));

describe("what protobuf-es writes", () => {
  test("of any message, core reads as the message's own event or with its own faults", () => {
    fc.assert(
      fc.property(messages, (bytes) => {
        // A text with a lone surrogate is written as U+FFFD, so every message can be read.
        expect(coreRead(bytes)).toEqual(peerRead(bytes));
      }),
      { numRuns: 3_000 },
    );
  });

  test("of an event, core reads as the event", () => {
    fc.assert(
      fc.property(events, (event) => {
        const bytes = toBinary(CloudEventSchema, toCloudEventMessage(event, event.data));
        expect(decodeStructuredProtobuf(bytes)).toEqual({ ok: true, value: event });
      }),
      { numRuns: 500 },
    );
  });

  test("of a batch, core reads as its events", () => {
    fc.assert(
      fc.property(fc.array(events, { maxLength: 3 }), (many) => {
        const batch = { events: many.map((event) => toCloudEventMessage(event, event.data)) };
        const bytes = toBinary(CloudEventBatchSchema, create(CloudEventBatchSchema, batch));
        expect(decodeBatchProtobuf(bytes, 3)).toEqual({
          ok: true,
          value: many.map((value) => ({ ok: true, value })),
        });
      }),
      { numRuns: 200 },
    );
  });
});

describe("what core writes", () => {
  test("of an event, protobuf-es reads as the message that the server makes of it, and writes alike", () => {
    fc.assert(
      fc.property(events, (event) => {
        const bytes = encodeStructuredProtobuf(event);
        const message = toCloudEventMessage(event, event.data);
        expect(fromBinary(CloudEventSchema, bytes)).toEqual(message);
        expect(bytes.length).toBe(toBinary(CloudEventSchema, message).length);
      }),
      { numRuns: 500 },
    );
  });

  test("of a batch, protobuf-es reads as its messages", () => {
    fc.assert(
      fc.property(fc.array(events, { maxLength: 3 }), (many) => {
        const { events: read } = fromBinary(CloudEventBatchSchema, encodeBatchProtobuf(many));
        expect(read).toEqual(many.map((event) => toCloudEventMessage(event, event.data)));
      }),
      { numRuns: 200 },
    );
  });
});

/** The top-level fields of a message, each as its bytes. */
function fieldsOf(bytes: Uint8Array): Uint8Array[] {
  const reader = new BinaryReader(bytes);
  const fields: Uint8Array[] = [];
  while (reader.pos < reader.len) {
    const start = reader.pos;
    const [number, type] = reader.tag();
    reader.skip(type, number);
    fields.push(bytes.slice(start, reader.pos));
  }
  return fields;
}

/** Fields that nobody knows, of every wire type. */
const unknown = fc
  .tuple(fc.integer({ min: 16, max: 536_870_911 }), fc.constantFrom("varint", "fixed", "bytes", "group"))
  .map(([number, kind]) => {
    const writer = new BinaryWriter();
    if (kind === "varint") writer.tag(number, WireType.Varint).int64(-1n);
    else if (kind === "fixed")
      writer.tag(number, WireType.Bit64).fixed64(1n).tag(number, WireType.Bit32).fixed32(1);
    else if (kind === "bytes") writer.tag(number, WireType.LengthDelimited).bytes(new Uint8Array([0xff]));
    else {
      writer.tag(number, WireType.StartGroup).tag(1, WireType.Varint).bool(true);
      writer.tag(2, WireType.StartGroup).tag(2, WireType.EndGroup).tag(number, WireType.EndGroup);
    }
    return writer.finish();
  });

describe("both read alike", () => {
  test("two messages one after another: the last of each field, entries by name, oneofs merged", () => {
    fc.assert(
      fc.property(fc.array(messages, { minLength: 2, maxLength: 3 }), (parts) => {
        const bytes = concatBytes(parts);
        expect(coreRead(bytes)).toEqual(peerRead(bytes));
      }),
      { numRuns: 1_000 },
    );
  });

  test("fields in any order, with unknown ones between", () => {
    const shuffled = fc.tuple(messages, fc.array(unknown, { maxLength: 3 })).chain(([bytes, more]) => {
      const fields = [...fieldsOf(bytes), ...more];
      return fc.shuffledSubarray(fields, { minLength: fields.length });
    });
    fc.assert(
      fc.property(shuffled, (fields) => {
        const bytes = concatBytes(fields);
        expect(coreRead(bytes)).toEqual(peerRead(bytes));
      }),
      { numRuns: 1_000 },
    );
  });

  test("a message cut anywhere, or with a byte changed: what core takes, protobuf-es takes for the same", () => {
    const broken = fc
      .tuple(fc.oneof(messages, events.map(encodeStructuredProtobuf)), fc.nat(), fc.option(fc.nat(255)))
      .map(([bytes, place, byte]) => {
        const at = place % (bytes.length + 1);
        return byte === null
          ? bytes.slice(0, at)
          : concatBytes([bytes.subarray(0, at), new Uint8Array([byte]), bytes.subarray(at + 1)]);
      });
    let taken = 0;
    fc.assert(
      fc.property(broken, (bytes) => {
        const read = coreRead(bytes);
        // Core refuses more as no message: a known field of another wire type, a varint of more than 64 bits.
        if (!read.ok && read.faults[0].reason === "MALFORMED") return;
        taken += 1;
        expect(peerRead(bytes)).toEqual(read);
      }),
      { numRuns: 5_000 },
    );
    expect(taken).toBeGreaterThan(500);
  });
});
