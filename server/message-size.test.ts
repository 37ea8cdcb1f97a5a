import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { expect, test } from "vitest";
import { CloudEventSchema } from "#gen/io/cloudevents/v1/cloudevents_pb.ts";
import { messageSize } from "./message-size.ts";

type Init = MessageInitShape<typeof CloudEventSchema>;

const text = fc.string({ unit: "binary", maxLength: 200 });
const bytes = fc.uint8Array({ maxLength: 300 });
const attr = fc.oneof(
  fc.record({ case: fc.constantFrom("ceString", "ceUri", "ceUriRef"), value: text }),
  fc.record({ case: fc.constant("ceBytes"), value: bytes }),
  fc.record({ case: fc.constant("ceBoolean"), value: fc.boolean() }),
  fc.record({ case: fc.constant("ceInteger"), value: fc.integer() }),
  fc.record({
    case: fc.constant("ceTimestamp"),
    value: fc.record({ seconds: fc.bigInt({ min: -(2n ** 62n), max: 2n ** 62n }), nanos: fc.integer() }),
  }),
  fc.constant({ case: undefined }),
);
const data = fc.oneof(
  fc.constant({ case: undefined }),
  fc.record({ case: fc.constant("binaryData"), value: bytes }),
  fc.record({ case: fc.constant("textData"), value: text }),
  fc.record({ case: fc.constant("protoData"), value: fc.record({ typeUrl: text, value: bytes }) }),
);
const events = fc.record({
  id: text,
  source: text,
  specVersion: text,
  type: text,
  attributes: fc.dictionary(text, fc.record({ attr }), { maxKeys: 5 }),
  data,
}) as fc.Arbitrary<Init>;

test("the size is that of the encoded message", () => {
  fc.assert(
    fc.property(events, (init) => {
      const message = create(CloudEventSchema, init);
      expect(messageSize(message)).toBe(toBinary(CloudEventSchema, message).length);
    }),
    { numRuns: 500 },
  );
});
