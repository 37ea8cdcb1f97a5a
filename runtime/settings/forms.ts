import { readFileSync } from "node:fs";
import { z } from "zod";

import { parseFilter } from "#core/filter/parse.ts";
import { ANY_ELEMENT } from "#core/terms.ts";

/** A schema that reads a setting's text into its value. What it says of a bad value never repeats a secret. */
export type Form<T> = z.ZodType<T, string>;

const DURATION_UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const SIZE_UNITS = { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 } as const;

/** Any text, without the white space around it. */
export const text: Form<string> = z.string().trim();

/** A whole number from `min` to `max`. */
export function integer(min: number, max: number): Form<number> {
  return z
    .string()
    .trim()
    .regex(/^\d{1,15}$/, `must be a whole number from ${min} to ${max}`)
    .transform(Number)
    .refine((value) => value >= min && value <= max, `must be from ${min} to ${max}`);
}

/** A number from 0 to 1, such as 0.05. */
export const ratio: Form<number> = z
  .string()
  .trim()
  .regex(/^(0|1|0?\.\d{1,15}|1\.0{1,15})$/, "must be a number from 0 to 1, such as 0.05")
  .transform(Number);

/** A TCP port; 0 lets the system choose one. */
export const port: Form<number> = integer(0, 65_535);

/** A duration with its unit, such as 250ms, 30s or 7d, read into milliseconds. */
export function duration(min: string, max: string): Form<number> {
  return quantity(DURATION_UNITS, min, max, "a duration with its unit (ms, s, m, h or d), such as 30s");
}

/** A time by the calendar: one of the two is 0. */
export interface Period {
  readonly months: number;
  readonly days: number;
}

/** Whole months or days, such as 13mo or 400d; at least one of the two given, and a century at most. */
export function period(least: Period): Form<Period> {
  return z
    .string()
    .trim()
    .transform((value): Period => {
      const [, digits, unit] = /^(\d{1,5})\s*(mo|d)$/.exec(value) ?? [];
      const count = digits === undefined ? -1 : Number(digits);
      return unit === "mo" ? { months: count, days: 0 } : { months: 0, days: count };
    })
    .refine(
      ({ months, days }) =>
        months === 0 ? days >= least.days && days <= 36_525 : months >= least.months && months <= 1_200,
      `must be whole months or days, such as 13mo or 400d, at least ${least.months}mo or ${least.days}d`,
    );
}

/** A size with its unit, such as 512KiB, read into bytes. */
export function size(min: string, max: string): Form<number> {
  return quantity(SIZE_UNITS, min, max, "a size with its unit (B, KiB, MiB or GiB), such as 64MiB");
}

function quantity(
  units: Readonly<Record<string, number>>,
  min: string,
  max: string,
  form: string,
): Form<number> {
  const read = (value: string): number => {
    const [, digits, unit] = /^(\d{1,12})\s*([A-Za-z]+)$/.exec(value) ?? [];
    return Number(digits) * (units[unit ?? ""] ?? Number.NaN);
  };
  const [least, most] = [read(min), read(max)];
  return z
    .string()
    .trim()
    .transform(read)
    .refine((value) => value >= least && value <= most, `must be ${form}, from ${min} to ${max}`);
}

/** One of the given words. */
export function oneOf<const T extends string>(...words: readonly [T, ...T[]]): Form<T> {
  return z
    .string()
    .trim()
    .pipe(z.enum(words, `must be one of ${words.join(", ")}`));
}

/** true or false. */
export const flag: Form<boolean> = oneOf("true", "false").transform((value) => value === "true");

/** Items between commas, white space around them and empty items left out, each read by `item`. */
export function listOf<T>(item: Form<T>): Form<readonly T[]> {
  return z
    .string()
    .transform((value) =>
      value
        .split(",")
        .map((part) => part.trim())
        .filter((part) => part !== ""),
    )
    .pipe(z.array(item));
}

/** A URL with one of the given protocols, kept as its text. */
export function url(...protocols: readonly string[]): Form<string> {
  return z
    .string()
    .trim()
    .refine(
      (value) => protocols.includes(URL.parse(value)?.protocol ?? ""),
      `must be a URL that begins with ${protocols.map((protocol) => `${protocol}//`).join(" or ")}`,
    );
}

/** An origin as a browser sends it, such as https://console.example, or `*` for any. */
export const origin: Form<string> = z
  .string()
  .refine(
    (value) => value === "*" || URL.parse(value)?.origin === value,
    "must be an origin such as https://console.example (no path, no slash at the end), or *",
  );

/** A host name or address with its port. */
export const hostPort: Form<string> = z
  .string()
  .regex(/^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}$/, "must be host:port, such as kafka-1:9092");

/** The name of an extension attribute of CloudEvents. */
export const attributeName: Form<string> = z
  .string()
  .regex(/^[a-z0-9]{1,40}$/, "must be 1 to 40 of the characters a-z 0-9, such as tenant");

/** A path into JSON payloads as filters have it, such as data.amount or data.lines[0]."unit price", read into its segments. */
export const dataPath: Form<readonly (string | number)[]> = z.string().transform((value, context) => {
  const parsed = parseFilter(`${value}:*`);
  const condition = parsed.ok ? parsed.value : undefined;
  if (condition?.kind === "present" && condition.field.kind === "data") {
    const { path } = condition.field;
    if (path.length > 0 && path.every((segment) => segment !== ANY_ELEMENT)) return path;
  }
  context.addIssue({
    code: "custom",
    message: "must be a path into payloads without [*], as filters have it, such as data.amount",
  });
  return z.NEVER;
});

/** A Kafka topic or consumer group name. */
export const kafkaName: Form<string> = z
  .string()
  .trim()
  .regex(/^[A-Za-z0-9._-]{1,249}$/, "must be 1 to 249 of the characters A-Z a-z 0-9 . _ -");

/** The path of a file, read into the file's text. */
export const file: Form<string> = z.string().transform((path, context) => {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : String(error);
    context.addIssue({ code: "custom", message: `must be the path of a readable file (${path}: ${code})` });
    return z.NEVER;
  }
});

/** A public key in PEM. Line breaks may be written as \n, since some environments cannot hold them. */
export const pem: Form<string> = z
  .string()
  .transform((value) => value.replaceAll("\\n", "\n").trim())
  .refine(
    (value) => /^-----BEGIN [A-Z ]+-----\n[^]+\n-----END [A-Z ]+-----$/.test(value),
    "must be a public key in PEM (-----BEGIN PUBLIC KEY----- …)",
  );
