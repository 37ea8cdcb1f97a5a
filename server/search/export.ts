import { type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { Code, type ConnectError } from "@connectrpc/connect";
import { type StoredEvent } from "#core/event.ts";
import { type Event, EventSchema } from "#gen/weir/v1/event_pb.ts";
import { type ExportEventsResponseSchema } from "#gen/weir/v1/search_pb.ts";
import { toConnectError } from "../errors.ts";
import { toEventMessage, viewOf } from "../wire.ts";
import { type Question } from "./question.ts";

/** What a message of an export holds at most, in bytes of protobuf: a quarter of what gRPC's clients read by default. */
const MESSAGE_BYTES = 1024 * 1024;
const MESSAGE_EVENTS = 500;
const RETRY_AFTER_MS = 10_000;

/**
 * The messages of an export: the events of each chunk in as few as there can be, each with the token to go on after it. A
 * message is at most {@link MESSAGE_BYTES} long, but where it has a single event.
 *
 * @param json whether they go out as JSON.
 */
export async function* exportMessages(
  chunks: AsyncIterable<readonly StoredEvent[]>,
  { tokenAfter }: Pick<Question, "tokenAfter">,
  json: boolean,
): AsyncGenerator<MessageInitShape<typeof ExportEventsResponseSchema>> {
  for await (const chunk of chunks) {
    let events: Event[] = [];
    let bytes = 0;
    let last: StoredEvent | undefined;
    for (const event of chunk) {
      const message = toEventMessage(viewOf(event), json);
      const size = toBinary(EventSchema, message).byteLength;
      if (last !== undefined && (bytes + size > MESSAGE_BYTES || events.length === MESSAGE_EVENTS)) {
        yield { events, nextPageToken: tokenAfter(last) };
        [events, bytes] = [[], 0];
      }
      events.push(message);
      bytes += size;
      last = event;
    }
    if (last !== undefined) yield { events, nextPageToken: tokenAfter(last) };
  }
}

/** The error of an export beyond as many as may run at once. */
export function exportCapacityReached(): ConnectError {
  return toConnectError({
    code: Code.Unavailable,
    reason: "STREAM_CAPACITY",
    message: "As many exports run as this server allows. Try again once one has ended.",
    metadata: { setting: "WEIR_SEARCH_EXPORTS" },
    retryAfterMs: RETRY_AFTER_MS,
  });
}
