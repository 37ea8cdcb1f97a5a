import { stripVTControlCharacters } from "node:util";
import { describe, expect, test } from "vitest";

import { cloudEvent, type CloudEventInit, type Event, Severity } from "../sdk/index.ts";
import { createEventTable } from "./event-table.ts";

function found(init: Partial<CloudEventInit> = {}, severity: Severity = Severity.UNSPECIFIED): Event {
  const time = "2026-11-01T09:30:00.123456Z";
  const event = cloudEvent({ id: "order-17", source: "/shop", type: "com.acme.order.placed", time, ...init });
  const receiveTime = { $typeName: "google.protobuf.Timestamp", seconds: 0n, nanos: 1_000_000 };
  return { cloudEvent: event, severity, receiveTime } as Event;
}

describe("a row of events", () => {
  test("has time, severity, type, source, subject and id", () => {
    const row = createEventTable(200).row(found({ subject: "s-1" }, Severity.WARN));
    expect(stripVTControlCharacters(row).trimEnd().split(/ {2,}/)).toEqual([
      "2026-11-01T09:30:00.123Z",
      "WARN",
      "com.acme.order.placed",
      "/shop",
      "s-1",
      "order-17",
    ]);
  });

  test("is as wide as the terminal, whatever is in it, and its columns stand one below the other", () => {
    const long = "x".repeat(500);
    for (const columns of [80, 81, 120, 237]) {
      const table = createEventTable(columns);
      const row = stripVTControlCharacters(
        table.row(found({ id: long, source: long, type: long, subject: long })),
      );
      expect(row).toHaveLength(columns + "\n".length);
      const short = stripVTControlCharacters(table.row(found({ id: "ID", source: "/s", type: "t" })));
      expect(short.indexOf("ID")).toBe(row.lastIndexOf("  ") + 2);
    }
  });

  test("has the time of receipt where the event has none", () => {
    const event = found();
    delete event.cloudEvent!.attributes["time"];
    expect(stripVTControlCharacters(createEventTable(100).row(event))).toMatch(/^1970-01-01T00:00:00\.001Z /);
  });
});
