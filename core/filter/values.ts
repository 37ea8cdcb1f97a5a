import { quote } from "../faults.ts";
import { SEVERITY_NAMES } from "../severity.ts";
import { readTimestamp, toMicros } from "../timestamp.ts";
import { decimalOf, plainLength, toPlain } from "./decimal.ts";
import { type Scan, type Written } from "./scan.ts";
import { nearest } from "./suggest.ts";
import { TIME_UNITS } from "./time-units.ts";
import { type NumberValue, type SeverityValue, type TimeValue } from "./tree.ts";

/** The most digits of a number in plain notation. */
export const MAX_DIGITS = 38;
/** How far a relative time may lie from the moment of asking: a hundred years of 365 days. */
const MAX_RELATIVE_MS = 36_500 * 86_400_000;

/** The text of a value in which no star has a meaning; as it was written, without its quotes. */
export function plainText({ runs }: Written): string {
  return runs.join("*");
}

/** What is written without quotes and is a number in JSON's notation is one. undefined: it is none, or too long, which is noted. */
export function numberValue(scan: Scan, value: Written): NumberValue | undefined {
  const decimal = decimalOf(plainText(value));
  if (value.isQuoted || decimal === undefined) return undefined;
  const digits = plainLength(decimal);
  if (digits <= MAX_DIGITS) return { kind: "number", decimal: toPlain(decimal) };
  const metadata = { limit: String(MAX_DIGITS), actual: String(digits), unit: "digits" };
  scan.fault(
    value.position,
    `This number has ${digits} digits; at most ${MAX_DIGITS} are compared.`,
    metadata,
  );
  return undefined;
}

/** Whether a value has the form of a number, however long. */
export function isNumeric(value: Written): boolean {
  return !value.isQuoted && decimalOf(plainText(value)) !== undefined;
}

const RELATIVE = /^now(?:([+-])(\d{1,12})([a-z]))?$/;

/** A moment, quoted or not; undefined where it is none, which is noted. */
export function timeValue(scan: Scan, value: Written): TimeValue | undefined {
  const text = plainText(value);
  const relative = RELATIVE.exec(text);
  if (relative !== null) {
    const [, sign, amount = "0", unit = "s"] = relative;
    const ms = TIME_UNITS.find(([name]) => name === unit)?.[1];
    const plusMs = Number(amount) * (ms ?? 0) * (sign === "-" ? -1 : 1);
    if (ms !== undefined && Math.abs(plusMs) <= MAX_RELATIVE_MS) return { kind: "now", plusMs: plusMs || 0 };
    const problem =
      ms === undefined
        ? `There is no unit of time ${quote(unit)}`
        : "This is more than a hundred years from now";
    scan.fault(value.position, `${problem}.`, {
      expected: "s, m, h, d or w, up to a hundred years, such as now-15m",
    });
    return undefined;
  }
  const time = readTimestamp(text);
  if (typeof time !== "string") return { kind: "time", micros: toMicros(time) };
  const full = completed(text);
  scan.fault(value.position, `The time ${quote(text)} ${time}.`, {
    expected: "an RFC 3339 date and time, or now, now-15m, now+1h",
    ...(full !== undefined && { suggestion: full }),
  });
  return undefined;
}

/** A time from which only parts that may be guessed are missing. */
function completed(text: string): string | undefined {
  const match = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d(?:\.\d{1,9})?)?)?(Z)?$/i.exec(text);
  if (match === null) return undefined;
  const [, day = "", minute = "00:00", second = ":00"] = match;
  const full = `${day}T${minute}${second}Z`;
  return typeof readTimestamp(full) === "string" ? undefined : `"${full}"`;
}

/** A severity by its number or its name, quoted or not; undefined where it is none, which is noted. */
export function severityValue(scan: Scan, value: Written): SeverityValue | undefined {
  const text = plainText(value);
  const [, name = "", step] = /^([A-Za-z]+)([2-4])?$/.exec(text) ?? [];
  const range = SEVERITY_NAMES.indexOf(name.toUpperCase());
  const number = range >= 0 ? range * 4 + Number(step ?? 1) : /^\d{1,2}$/.test(text) ? Number(text) : 0;
  if (range >= 0 && step === undefined) return { kind: "severity", low: number, high: number + 3 };
  if (number >= 1 && number <= 24) return { kind: "severity", low: number, high: number };
  const near =
    nearest(text, SEVERITY_NAMES) ?? SEVERITY_NAMES.find((each) => text.toUpperCase().startsWith(each));
  scan.fault(value.position, `There is no severity ${quote(text)}.`, {
    expected: `${SEVERITY_NAMES.join(", ")} or a number from 1 to 24`,
    ...(near !== undefined && { suggestion: near }),
  });
  return undefined;
}
