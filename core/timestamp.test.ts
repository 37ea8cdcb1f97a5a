import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isTimestampInRange, parseTimestamp, readTimestamp, timestampFrom, toMicros } from "./timestamp.ts";

describe("RFC 3339 § 5.6", () => {
  test.each([
    ["1985-04-12T23:20:50.52Z", Date.UTC(1985, 3, 12, 23, 20, 50) / 1_000, 520_000_000],
    ["1996-12-19T16:39:57-08:00", Date.UTC(1996, 11, 20, 0, 39, 57) / 1_000, 0],
    ["1937-01-01T12:00:27.87+00:20", Date.UTC(1937, 0, 1, 11, 40, 27) / 1_000, 870_000_000],
    ["1985-04-12t23:20:50z", Date.UTC(1985, 3, 12, 23, 20, 50) / 1_000, 0],
    ["1970-01-01T00:00:00-00:00", 0, 0],
    ["2024-02-29T00:00:00Z", Date.UTC(2024, 1, 29) / 1_000, 0],
    ["2000-02-29T23:59:59.999999999+23:59", Date.UTC(2000, 1, 29, 0, 0, 59) / 1_000, 999_999_999],
    ["0001-01-01T00:00:00Z", -62_135_596_800, 0],
    ["0099-12-31T23:59:59Z", -59_011_459_201, 0],
    ["9999-12-31T23:59:59.999999999Z", 253_402_300_799, 999_999_999],
    ["1969-12-31T23:59:59.9999999999999Z", -1, 999_999_999],
  ])("%s", (text, seconds, nanos) => {
    expect(parseTimestamp(text)).toEqual({ text, seconds, nanos });
    expect(readTimestamp(text)).toEqual({ text, seconds, nanos });
  });

  test.each([
    "",
    "2026-11-01",
    "2026-11-01T10:30:00",
    "2026-11-01 10:30:00Z",
    "2026-11-01T10:30Z",
    "2026-11-01T10:30:00.Z",
    "2026-11-01T10:30:00,5Z",
    "2026-11-01T10:30:00+0100",
    "2026-11-01T10:30:00+01",
    "2026-11-01T10:30:00UTC",
    " 2026-11-01T10:30:00Z",
    "2026-11-01T10:30:00Z\n",
    "+2026-11-01T10:30:00Z",
    "12026-11-01T10:30:00Z",
    "２026-11-01T10:30:00Z",
    `2026-11-01T10:30:00.${"1".repeat(100_000)}Z`,
    "1762000000",
  ])("%j is none", (text) => {
    expect(parseTimestamp(text)).toBeUndefined();
    expect(readTimestamp(text)).toMatch(/^must be an RFC 3339 date and time with an offset/);
  });

  test.each([
    ["2026-13-01T00:00:00Z", "has no such month"],
    ["2026-00-01T00:00:00Z", "has no such month"],
    ["2026-02-29T00:00:00Z", "has no such day"],
    ["1900-02-29T00:00:00Z", "has no such day"],
    ["2026-04-31T00:00:00Z", "has no such day"],
    ["2026-01-00T00:00:00Z", "has no such day"],
    ["2026-01-01T24:00:00Z", "has no such time of day"],
    ["2026-01-01T00:60:00Z", "has no such time of day"],
    ["2026-01-01T00:00:61Z", "has no such time of day"],
    ["2016-12-31T23:59:60Z", "is a leap second (:60), which cannot be kept; send :59 or the second after"],
    ["2026-01-01T00:00:00+24:00", "has no such offset from UTC"],
    ["2026-01-01T00:00:00+00:60", "has no such offset from UTC"],
    ["0000-01-01T00:00:00Z", "must have a year from 0001 to 9999"],
    ["0001-01-01T00:00:00+00:01", "must lie in the years 0001 to 9999 of UTC"],
    ["9999-12-31T23:59:59-00:01", "must lie in the years 0001 to 9999 of UTC"],
  ])("%s %s", (text, fault) => {
    expect(readTimestamp(text)).toBe(fault);
    expect(parseTimestamp(text)).toBeUndefined();
  });
});

describe("a timestamp from seconds and nanoseconds", () => {
  test.each([
    [0, 0, "1970-01-01T00:00:00Z"],
    [0, 500_000_000, "1970-01-01T00:00:00.500Z"],
    [0, 1_000, "1970-01-01T00:00:00.000001Z"],
    [-1, 1, "1969-12-31T23:59:59.000000001Z"],
    [-62_135_596_800, 0, "0001-01-01T00:00:00Z"],
    [253_402_300_799, 999_999_999, "9999-12-31T23:59:59.999999999Z"],
  ])("%d s and %d ns are %s", (seconds, nanos, text) => {
    expect(timestampFrom(seconds, nanos)).toEqual({ text, seconds, nanos });
  });

  test("is read back as the same", () => {
    const seconds = fc.integer({ min: -62_135_596_800, max: 253_402_300_799 });
    fc.assert(
      fc.property(seconds, fc.nat(999_999_999), (second, nanos) => {
        const time = timestampFrom(second, nanos);
        expect(parseTimestamp(time.text)).toEqual(time);
      }),
    );
  });

  test.each([
    [253_402_300_800, 0],
    [-62_135_596_801, 0],
    [0, -1],
    [0, 1_000_000_000],
    [0.5, 0],
    [Number.NaN, 0],
    [Number.POSITIVE_INFINITY, 0],
  ])("%d s and %d ns are out of range, and their text is refused", (seconds, nanos) => {
    expect(isTimestampInRange(seconds, nanos)).toBe(false);
    expect(parseTimestamp(timestampFrom(seconds, nanos).text)).toBeUndefined();
  });
});

test("microseconds are cut off towards the past", () => {
  expect(toMicros(timestampFrom(1, 999))).toBe(1_000_000n);
  expect(toMicros(timestampFrom(-1, 999_999_999))).toBe(-1n);
  expect(toMicros(timestampFrom(-1, 1))).toBe(-1_000_000n);
  expect(toMicros(timestampFrom(253_402_300_799, 999_999_999))).toBe(253_402_300_799_999_999n);
});
