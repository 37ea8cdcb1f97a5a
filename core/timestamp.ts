import { type Timestamp } from "./event.ts";

const DAY = 86_400;
/** 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z, the range of google.protobuf.Timestamp, in seconds since 1970. */
const FIRST_SECOND = -62_135_596_800;
const LAST_SECOND = 253_402_300_799;

const SHAPE = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)$/;
/** The longest text that is looked at, far beyond any real one; it bounds the regular expression's work. */
const MAX_TEXT = 4_096;

/**
 * Reads an RFC 3339 date-time. The text is kept as it is; digits of the second's fraction beyond the ninth stay in the
 * text and are cut off in `nanos`. Years 0001 to 9999 (in UTC too). A leap second (":60") is refused, since neither a
 * protobuf timestamp nor PostgreSQL can hold one. undefined where the text is none: `readTimestamp` says why.
 */
export function parseTimestamp(text: string): Timestamp | undefined {
  const read = parse(text);
  return typeof read === "string" ? undefined : read;
}

/** `parseTimestamp`, with what is wrong with a text that is none, as the rest of a sentence. */
export function readTimestamp(text: string): Timestamp | string {
  const read = parse(text);
  return typeof read === "string" ? WRONG[read] : read;
}

/** Apart from the parser, so that a page that never tells them does not load them. */
const WRONG = {
  shape:
    'must be an RFC 3339 date and time with an offset, such as "2026-11-01T09:30:00Z" or "2026-11-01T10:30:00.5+01:00"',
  year: "must have a year from 0001 to 9999",
  month: "has no such month",
  day: "has no such day",
  leap: "is a leap second (:60), which cannot be kept; send :59 or the second after",
  time: "has no such time of day",
  offset: "has no such offset from UTC",
  range: "must lie in the years 0001 to 9999 of UTC",
} as const;

function parse(text: string): Timestamp | keyof typeof WRONG {
  if (text.length > MAX_TEXT || !SHAPE.test(text)) return "shape";
  const isUtc = (text.charCodeAt(text.length - 1) | 0x20) === 0x7a;
  const offsetAt = text.length - (isUtc ? 1 : 6);
  const year = twoDigitsAt(text, 0) * 100 + twoDigitsAt(text, 2);
  const month = twoDigitsAt(text, 5);
  const day = twoDigitsAt(text, 8);
  const hour = twoDigitsAt(text, 11);
  const minute = twoDigitsAt(text, 14);
  const second = twoDigitsAt(text, 17);
  const offsetHour = isUtc ? 0 : twoDigitsAt(text, offsetAt + 1);
  const offsetMinute = isUtc ? 0 : twoDigitsAt(text, offsetAt + 4);
  if (year < 1) return "year";
  if (month < 1 || month > 12) return "month";
  if (day < 1 || day > daysOfMonth(year, month)) return "day";
  if (second === 60) return "leap";
  if (hour > 23 || minute > 59 || second > 59) return "time";
  if (offsetHour > 23 || offsetMinute > 59) return "offset";
  const offset = (text[offsetAt] === "-" ? -1 : 1) * (offsetHour * 3600 + offsetMinute * 60);
  const seconds = daysSince1970(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset;
  if (seconds < FIRST_SECOND || seconds > LAST_SECOND) return "range";
  return { text, seconds, nanos: nanosAt(text, 20, offsetAt) };
}

function twoDigitsAt(text: string, at: number): number {
  return (text.charCodeAt(at) - 48) * 10 + text.charCodeAt(at + 1) - 48;
}

function nanosAt(text: string, start: number, end: number): number {
  let nanos = 0;
  for (let at = start; at < start + 9; at += 1)
    nanos = nanos * 10 + (at < end ? text.charCodeAt(at) - 48 : 0);
  return nanos;
}

/** Whether a second and its nanoseconds are a google.protobuf.Timestamp: years 0001 to 9999, nanos 0 to 999,999,999. */
export function isTimestampInRange(seconds: number, nanos: number): boolean {
  return (
    Number.isInteger(seconds) &&
    seconds >= FIRST_SECOND &&
    seconds <= LAST_SECOND &&
    Number.isInteger(nanos) &&
    nanos >= 0 &&
    nanos <= 999_999_999
  );
}

/**
 * The timestamp of a second since 1970 and its nanoseconds, with its text in UTC and 0, 3, 6 or 9 digits of fraction, as
 * protobuf's JSON mapping writes it. Outside `isTimestampInRange` it gives a text that `parseTimestamp` refuses.
 */
export function timestampFrom(seconds: number, nanos: number): Timestamp {
  if (!isTimestampInRange(seconds, nanos)) return { text: `${seconds} s ${nanos} ns`, seconds, nanos };
  const second = new Date(seconds * 1_000).toISOString().slice(0, -".000Z".length);
  return { text: `${second}${fractionText(nanos)}Z`, seconds, nanos };
}

/** Whole microseconds since 1970, what is below one cut off towards the past: PostgreSQL's resolution. */
export function toMicros(time: Timestamp): bigint {
  return BigInt(time.seconds) * 1_000_000n + BigInt(Math.floor(time.nanos / 1_000));
}

function fractionText(nanos: number): string {
  if (nanos === 0) return "";
  const digits = String(nanos).padStart(9, "0");
  if (nanos % 1_000_000 === 0) return `.${digits.slice(0, 3)}`;
  return nanos % 1_000 === 0 ? `.${digits.slice(0, 6)}` : `.${digits}`;
}

function daysOfMonth(year: number, month: number): number {
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  if (month === 2) return leap ? 29 : 28;
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

// The proleptic Gregorian calendar by whole numbers (a Date costs 200 ns): years begin with March, so that the leap day is
// their last, and 719,468 days lie between 0000-03-01 and 1970-01-01.
function daysSince1970(year: number, month: number, day: number): number {
  const marchYear = month < 3 ? year - 1 : year;
  const leapDays = Math.floor(marchYear / 4) - Math.floor(marchYear / 100) + Math.floor(marchYear / 400);
  const daysBeforeMonth = Math.floor((153 * ((month + 9) % 12) + 2) / 5);
  return marchYear * 365 + leapDays + daysBeforeMonth + day - 1 - 719_468;
}

/** 0001-01-01 and 9999-12-31T23:59:59.999 in milliseconds: the range of google.protobuf.Timestamp, within PostgreSQL's. */
const [FIRST_MS, LAST_MS] = [-62_135_596_800_000, 253_402_300_799_999];

/** A record's timestamp in microseconds, brought into the range of times: it is any 64-bit number, in milliseconds. */
export function toMicrosWithin(millis: number): bigint {
  return BigInt(Math.max(FIRST_MS, Math.min(LAST_MS, millis))) * 1_000n;
}
