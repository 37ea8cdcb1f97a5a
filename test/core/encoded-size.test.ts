import { toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { expect, test } from "vitest";
import { encodedSize } from "#core/encoded-size.ts";
import { CloudEventSchema } from "#gen/io/cloudevents/v1/cloudevents_pb.ts";
import { toCloudEventMessage } from "../../server/wire.ts";
import { events } from "./events.ts";

test("encodedSize is the size of the message that the server writes, for every event", () => {
  fc.assert(
    fc.property(events, (event) => {
      const message = toCloudEventMessage(event, event.data);
      expect(encodedSize(event)).toBe(toBinary(CloudEventSchema, message).length);
    }),
    { numRuns: 1_000 },
  );
});
