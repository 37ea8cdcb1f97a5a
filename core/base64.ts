import { LETTERS_AND_DIGITS } from "./ascii.ts";
import { decodeUtf8, encodeUtf8 } from "./utf8.ts";

/** Base64 of RFC 4648: § 4 with padding ("standard"), or § 5 without ("url"). */
export type Base64Alphabet = "standard" | "url";

const INVALID = 0xff;
const PAD = 0x3d;

const tables = {
  standard: createTable(`${LETTERS_AND_DIGITS}+/`),
  url: createTable(`${LETTERS_AND_DIGITS}-_`),
};

function createTable(alphabet: string): { readonly digits: Uint8Array; readonly values: Uint8Array } {
  const digits = encodeUtf8(alphabet);
  const values = new Uint8Array(256).fill(INVALID);
  digits.forEach((digit, value) => {
    values[digit] = value;
  });
  return { digits, values };
}

/** The bytes as base64 text. */
export function encodeBase64(bytes: Uint8Array, alphabet: Base64Alphabet = "standard"): string {
  const { digits } = tables[alphabet];
  const rest = bytes.length % 3;
  const whole = bytes.length - rest;
  const padded = alphabet === "standard" && rest > 0 ? 4 : rest + 1;
  const out = new Uint8Array((whole / 3) * 4 + (rest > 0 ? padded : 0)).fill(PAD);
  let to = 0;
  for (let at = 0; at < whole; at += 3) {
    const group = (bytes[at]! << 16) | (bytes[at + 1]! << 8) | bytes[at + 2]!;
    out[to] = digits[group >> 18]!;
    out[to + 1] = digits[(group >> 12) & 63]!;
    out[to + 2] = digits[(group >> 6) & 63]!;
    out[to + 3] = digits[group & 63]!;
    to += 4;
  }
  if (rest > 0) {
    const group = (bytes[whole]! << 16) | (rest === 2 ? bytes[whole + 1]! << 8 : 0);
    out[to] = digits[group >> 18]!;
    out[to + 1] = digits[(group >> 12) & 63]!;
    if (rest === 2) out[to + 2] = digits[(group >> 6) & 63]!;
  }
  return decodeUtf8(out)!;
}

/**
 * The bytes of base64 text; undefined for anything but what `encodeBase64` gives: no white space, padding exactly where
 * the alphabet has it, unused bits zero (RFC 4648 § 3.5). So each byte string has one text.
 */
export function decodeBase64(text: string, alphabet: Base64Alphabet = "standard"): Uint8Array | undefined {
  const { values } = tables[alphabet];
  const input = encodeUtf8(text);
  let length = input.length;
  if (alphabet === "standard") {
    if (length % 4 !== 0) return undefined;
    if (input[length - 1] === PAD) length -= input[length - 2] === PAD ? 2 : 1;
  }
  const rest = length % 4;
  if (rest === 1) return undefined;
  const whole = length - rest;
  const out = new Uint8Array((whole / 4) * 3 + (rest === 0 ? 0 : rest - 1));
  let to = 0;
  for (let at = 0; at < whole; at += 4) {
    const a = values[input[at]!]!;
    const b = values[input[at + 1]!]!;
    const c = values[input[at + 2]!]!;
    const d = values[input[at + 3]!]!;
    if ((a | b | c | d) > 63) return undefined;
    out[to] = (a << 2) | (b >> 4);
    out[to + 1] = (b << 4) | (c >> 2);
    out[to + 2] = (c << 6) | d;
    to += 3;
  }
  if (rest === 0) return out;
  const a = values[input[whole]!]!;
  const b = values[input[whole + 1]!]!;
  const c = rest === 3 ? values[input[whole + 2]!]! : 0;
  if ((a | b | c) > 63 || (rest === 2 ? (b & 15) !== 0 : (c & 3) !== 0)) return undefined;
  out[to] = (a << 2) | (b >> 4);
  if (rest === 3) out[to + 1] = (b << 4) | (c >> 2);
  return out;
}
