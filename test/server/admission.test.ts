import { expect, test } from "vitest";
import { DEFAULT_LIMITS } from "#core/admission.ts";
import { buildEvent } from "#core/attributes.ts";
import { type Producer } from "#kafka/ports.ts";
import { createTelemetry } from "#runtime/telemetry.ts";
import { silentLogger } from "../support/logger.ts";
import { createAdmission } from "../../server/admit.ts";

test("a check knows that an event that travels as JSON is too large for the log", async () => {
  await using telemetry = createTelemetry(silentLogger);
  const admission = createAdmission({
    producer: undefined as unknown as Producer,
    limits: DEFAULT_LIMITS,
    topic: "events",
    partitions: 1,
    maxRecordBytes: 1_000_000,
    telemetry,
  });
  const check = (datacontenttype: string, bytes: number): readonly string[] => {
    const attributes = Object.entries({
      specversion: "1.0",
      id: "a",
      source: "/b",
      type: "c",
      time: new Date().toISOString(),
      datacontenttype,
    });
    const data = { bytes: new Uint8Array(bytes).fill(1), protoType: undefined };
    return admission.check(buildEvent({ attributes, data })).map(({ reason }) => reason);
  };
  expect(check("text/plain", 900_000)).toEqual([]);
  expect(check("application/cloudevents", 700_000)).toEqual([]);
  expect(check("application/cloudevents", 800_000)).toEqual(["TOO_LARGE"]);
  expect(check("application/cloudevents+json; charset=utf-8", 800_000)).toEqual(["TOO_LARGE"]);
});
