import { create, toJsonString } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";

import { type Receipt, ReceiptSchema, Stage } from "#gen/weir/v1/event_pb.ts";
import { CreateEventResponseSchema } from "#gen/weir/v1/ingest_pb.ts";

/** What the limits answer, of the length that Weir's own receipts have. */
export const RECEIPT: Receipt = create(ReceiptSchema, {
  name: "events/%2Fbench%2Fsource-00:bench-00000000",
  partitionKey: "/bench/source-00",
  position: { topic: "bench.events.00000000", partition: 7, offset: 1_234_567n },
  stage: Stage.ACCEPTED,
  acceptTime: timestampFromDate(new Date()),
});

/** The same, as the HTTP binding writes it. */
export const RECEIPT_JSON: string = toJsonString(
  CreateEventResponseSchema,
  create(CreateEventResponseSchema, { receipt: RECEIPT }),
);
