import { create, toBinary } from "@bufbuild/protobuf";
import { expect, test } from "vitest";

import { ListDeadLettersResponseSchema } from "#gen/weir/admin/v1/dead_letter_pb.ts";
import { cutText, LETTER_TEXT_BYTES, PREVIEW_BYTES } from "#postgres/record-values.ts";

import { toDeadLetterMessage } from "./dead-letter-wire.ts";

/** What `buf curl` takes of a message, and gRPC clients do unless they are told otherwise. */
const MESSAGE_LIMIT = 4 * 1024 * 1024;

test("the largest page fits into a message, whatever the records have", () => {
  const longest = (name: keyof typeof LETTER_TEXT_BYTES): string =>
    cutText("\u0001".repeat(2_000_000), LETTER_TEXT_BYTES[name]);
  const topic = "t".repeat(249);
  const position = { topic, partition: 2 ** 31 - 1, offset: 2n ** 63n - 1n };
  const letter = toDeadLetterMessage({
    ...position,
    group: "g".repeat(249),
    reason: "INVALID_ATTRIBUTES",
    detail: longest("detail"),
    time: 253_402_300_799_999_999n,
    recordTime: 253_402_300_799_999_999n,
    replayTime: 253_402_300_799_999_999n,
    attempt: 2 ** 31 - 1,
    replays: 2 ** 31 - 1,
    letterTopic: topic,
    letterPosition: position,
    event: { source: longest("source"), id: longest("id") },
    principal: longest("principal"),
    valueSize: 2 ** 31 - 1,
    preview: new Uint8Array(PREVIEW_BYTES),
    keyPreview: new Uint8Array(PREVIEW_BYTES),
  });
  const page = create(ListDeadLettersResponseSchema, { deadLetters: Array(200).fill(letter) });
  expect(toBinary(ListDeadLettersResponseSchema, page).length).toBeLessThan(MESSAGE_LIMIT);
});
