import { describe, expect, test } from "vitest";
import { checkAdmission, DEFAULT_LIMITS, type Limits } from "./admission.ts";
import { buildEvent } from "./attributes.ts";
import { type CloudEvent } from "./event.ts";
import { encodeUtf8 } from "./utf8.ts";

const NOW = Date.parse("2026-11-01T10:00:00.000Z");

function event(attributes: Readonly<Record<string, string | undefined>> = {}, data?: Uint8Array): CloudEvent {
  const all = {
    specversion: "1.0",
    id: "1",
    source: "/s",
    type: "t",
    time: "2026-11-01T10:00:00Z",
    ...attributes,
  };
  const given = Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined);
  const result = buildEvent({ attributes: given, data: data && { bytes: data, protoType: undefined } });
  if (!result.ok) throw new Error(JSON.stringify(result.faults));
  return result.value;
}

function fieldsAndReasons(of: CloudEvent, limits: Limits = DEFAULT_LIMITS): string[] {
  return checkAdmission(of, NOW, limits).map(({ field, reason }) => `${field} ${reason}`);
}

describe("the time window", () => {
  test("the time is required", () => {
    expect(checkAdmission(event({ time: undefined }), NOW, DEFAULT_LIMITS)).toMatchObject([
      { field: "time", reason: "INVALID_ATTRIBUTES" },
    ]);
  });

  test.each(["2026-11-02T10:00:00Z", "2026-08-03T10:00:00Z", "2026-11-02T11:00:00+01:00"])(
    "%s is within",
    (time) => {
      expect(fieldsAndReasons(event({ time }))).toEqual([]);
    },
  );

  test.each([
    "2026-11-02T10:00:00.001Z",
    "2026-08-03T09:59:59.999Z",
    "2026-11-02T10:00:00.000001Z",
    "0001-01-01T00:00:00Z",
  ])("%s is out of it", (time) => {
    expect(fieldsAndReasons(event({ time }))).toEqual(["time TIME_OUT_OF_WINDOW"]);
  });

  test("the fault says what would be within", () => {
    expect(checkAdmission(event({ time: "2027-01-01T00:00:00Z" }), NOW + 5, DEFAULT_LIMITS)).toEqual([
      {
        field: "time",
        reason: "TIME_OUT_OF_WINDOW",
        description:
          'time must lie between 2026-08-03T10:00:00.005Z and 2026-11-02T10:00:00.005Z, by the server\'s clock now; it is "2027-01-01T00:00:00Z".',
        metadata: { earliest: "2026-08-03T10:00:00.005Z", latest: "2026-11-02T10:00:00.005Z" },
      },
    ]);
  });

  test("is configurable", () => {
    const limits = { ...DEFAULT_LIMITS, timeAheadMs: 1_000, timeBehindMs: 2_000 };
    expect(fieldsAndReasons(event({ time: "2026-11-01T10:00:01Z" }), limits)).toEqual([]);
    expect(fieldsAndReasons(event({ time: "2026-11-01T10:00:01.1Z" }), limits)).toEqual([
      "time TIME_OUT_OF_WINDOW",
    ]);
    expect(fieldsAndReasons(event({ time: "2026-11-01T09:59:57.9Z" }), limits)).toEqual([
      "time TIME_OUT_OF_WINDOW",
    ]);
  });
});

describe("limits", () => {
  test.each([
    ["id", "", 512],
    ["source", "/", 1_024],
    ["subject", "", 1_024],
    ["type", "", 256],
    ["ext", "", 4_096],
    ["datacontenttype", "a/", 4_096],
    ["dataschema", "a:", 4_096],
  ])("%s", (name, start, limit) => {
    const longest = start + "a".repeat(limit - start.length);
    expect(fieldsAndReasons(event({ [name]: longest }))).toEqual([]);
    expect(checkAdmission(event({ [name]: `${longest}a` }), NOW, DEFAULT_LIMITS)).toEqual([
      {
        field: name,
        reason: "TOO_LARGE",
        description: `The value of "${name}" has ${limit + 1} bytes; at most ${limit} are taken.`,
        metadata: { limit: String(limit), actual: String(limit + 1), unit: "bytes" },
      },
    ]);
  });

  test("are of bytes, not characters", () => {
    expect(fieldsAndReasons(event({ id: "ä".repeat(256) }))).toEqual([]);
    expect(fieldsAndReasons(event({ id: "ä".repeat(257) }))).toEqual(["id TOO_LARGE"]);
  });

  test("names of attributes", () => {
    expect(fieldsAndReasons(event({ ["a".repeat(40)]: "" }))).toEqual([]);
    expect(fieldsAndReasons(event({ ["a".repeat(41)]: "" }))).toEqual([`${"a".repeat(41)} TOO_LARGE`]);
  });

  test("the number of extensions", () => {
    const extensions = Object.fromEntries(Array.from({ length: 65 }, (_, at) => [`x${at}`, ""]));
    expect(checkAdmission(event(extensions), NOW, DEFAULT_LIMITS)).toMatchObject([
      {
        field: "",
        reason: "TOO_LARGE",
        metadata: { limit: "64", actual: "65", unit: "extension attributes" },
      },
    ]);
    expect(fieldsAndReasons(event({ ...extensions, x64: undefined }))).toEqual([]);
  });

  test("the whole event, encoded", () => {
    const fits = event({}, new Uint8Array(1_048_500));
    expect(fieldsAndReasons(fits)).toEqual([]);
    expect(fieldsAndReasons(event({}, new Uint8Array(1_048_576)))).toEqual([" TOO_LARGE"]);
    expect(fieldsAndReasons(event({}, encodeUtf8("1")), { ...DEFAULT_LIMITS, eventBytes: 10 })).toEqual([
      " TOO_LARGE",
    ]);
  });

  test("an event of 64 KiB is within them", () => {
    expect(fieldsAndReasons(event({ ext: "x".repeat(4_096) }, new Uint8Array(61_000)))).toEqual([]);
  });

  test("all faults are reported together", () => {
    expect(fieldsAndReasons(event({ id: "a".repeat(513), type: "t".repeat(257), time: undefined }))).toEqual([
      "id TOO_LARGE",
      "type TOO_LARGE",
      "time INVALID_ATTRIBUTES",
    ]);
  });
});
