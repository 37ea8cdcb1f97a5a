import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type DeadLetter } from "#core/dead-letter.ts";
import { formatDeadLetterName } from "#core/dead-letter-name.ts";
import { formatEventName } from "#core/event-name.ts";
import {
  type DeadLetter as DeadLetterMessage,
  DeadLetterSchema,
  type DeadRecordSchema,
} from "#gen/weir/admin/v1/dead_letter_pb.ts";
import { type IndexedLetter } from "#postgres/dead-letters.ts";
import { fromMicros } from "../wire.ts";

/** The parts of a record that a dead letter keeps. */
export type RecordParts = Pick<DeadLetter, "key" | "value" | "headers">;

/** A dead letter as a message; its record is in it where it is given. */
export function toDeadLetterMessage(letter: IndexedLetter, record?: RecordParts): DeadLetterMessage {
  const { topic, partition, offset, group, event } = letter;
  const position = { topic, partition, offset };
  return create(DeadLetterSchema, {
    name: formatDeadLetterName(letter),
    reason: letter.reason,
    detail: letter.detail,
    origin:
      group === ""
        ? { case: "foreign", value: { position, keyPreview: letter.keyPreview } }
        : { case: "log", value: { group, position, recordTime: fromMicros(letter.recordTime) } },
    attempt: letter.attempt,
    time: fromMicros(letter.time),
    replays: letter.replays,
    ...(letter.replayTime !== undefined && { replayTime: fromMicros(letter.replayTime) }),
    preview: letter.preview,
    ...(letter.valueSize !== undefined && { valueSize: BigInt(letter.valueSize) }),
    ...(letter.letterPosition && { letterPosition: letter.letterPosition }),
    event: event === undefined ? "" : formatEventName(event.source, event.id),
    principal: letter.principal,
    ...(record && { record: toDeadRecord(record) }),
  });
}

function toDeadRecord({ key, value, headers }: RecordParts): MessageInitShape<typeof DeadRecordSchema> {
  return {
    ...(key !== null && { key }),
    ...(value !== null && { value }),
    // A name is any bytes to Kafka, and text to a message.
    headers: headers.map(([name, content]) => ({
      name: name.toWellFormed(),
      ...(content !== null && { value: content }),
    })),
  };
}
