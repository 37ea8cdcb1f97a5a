import { create, toBinary } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { type StoredEvent } from "#core/event.ts";
import { ExportEventsResponseSchema } from "#gen/weir/v1/search_pb.ts";
import { exportMessages } from "./export.ts";

const question = { tokenAfter: ({ position }: StoredEvent) => `after ${position.offset}` };

function exported(offset: number, bytes: number, extensions: readonly [string, string][] = []): StoredEvent {
  return {
    event: {
      id: String(offset),
      source: "/s",
      type: "t",
      subject: undefined,
      time: undefined,
      datacontenttype: "text/plain",
      dataschema: undefined,
      extensions: new Map(extensions),
      data: { bytes: new Uint8Array(bytes).fill(0x61), protoType: undefined },
    },
    acceptTime: 0,
    principal: "",
    traceParent: undefined,
    traceState: undefined,
    position: { topic: "events", partition: 0, offset: BigInt(offset) },
  };
}

async function messagesOf(...chunks: readonly (readonly StoredEvent[])[]) {
  const messages = [];
  for await (const message of exportMessages(eachOf(chunks), question, false)) {
    messages.push(create(ExportEventsResponseSchema, message));
  }
  return messages;
}

async function* eachOf<T>(items: readonly T[]): AsyncGenerator<T> {
  for (const item of items) yield item;
}

describe("the messages of an export", () => {
  test("have every event once, in order, each message with the token after its last", async () => {
    const chunks = [[0, 1, 2], [], [3], [4, 5]].map((chunk) => chunk.map((offset) => exported(offset, 10)));
    const messages = await messagesOf(...chunks);
    expect(
      messages.map(({ events, nextPageToken }) => [
        events.map(({ position }) => Number(position!.offset)),
        nextPageToken,
      ]),
    ).toEqual([
      [[0, 1, 2], "after 2"],
      [[3], "after 3"],
      [[4, 5], "after 5"],
    ]);
  });

  test("have at most 500 events", async () => {
    const chunk = Array.from({ length: 1_001 }, (_, offset) => exported(offset, 0));
    expect((await messagesOf(chunk)).map(({ events }) => events.length)).toEqual([500, 500, 1]);
  });

  test("are at most 1 MiB long, whatever the payloads and attributes are, but where one event is longer", async () => {
    const long = Array.from({ length: 60 }, (_, at): [string, string] => [`ext${at}`, "ü".repeat(2_000)]);
    const sizes = [400_000, 600_000, 100_000, 1_048_500, 10, 10, 2_000_000, 10];
    const chunk = sizes.map((bytes, offset) => exported(offset, bytes, offset === 2 ? long : []));
    const messages = await messagesOf(chunk);
    expect(messages.map(({ events }) => events.map(({ dataSize }) => Number(dataSize)))).toEqual([
      [400_000, 600_000],
      [100_000],
      [1_048_500],
      [10, 10],
      [2_000_000],
      [10],
    ]);
    for (const message of messages) {
      if (message.events.length < 2) continue;
      expect(toBinary(ExportEventsResponseSchema, message).byteLength).toBeLessThan(1_048_576 + 4_096);
    }
  });
});
