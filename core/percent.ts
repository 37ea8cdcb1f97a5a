import { asciiSet, consistsOf, isHexDigit, LETTERS_AND_DIGITS } from "./ascii.ts";
import { decodeUtf8, encodeUtf8 } from "./utf8.ts";

/** The characters of RFC 3986 § 2.3. */
export const UNRESERVED: Uint8Array = asciiSet(`${LETTERS_AND_DIGITS}-._~`);

const HEX = "0123456789ABCDEF";

/** The text with every UTF-8 byte outside `kept` as %XX, in capitals (RFC 3986 § 2.1). */
export function percentEncode(text: string, kept: Uint8Array): string {
  if (consistsOf(text, kept)) return text;
  let out = "";
  for (const byte of encodeUtf8(text)) {
    out += byte < 128 && kept[byte] === 1 ? String.fromCharCode(byte) : `%${HEX[byte >> 4]}${HEX[byte & 15]}`;
  }
  return out;
}

/** One round of percent-decoding; undefined where a "%" lacks its two hex digits or the bytes are not UTF-8. */
export function percentDecode(text: string): string | undefined {
  if (!text.includes("%")) return text;
  const input = encodeUtf8(text);
  const out = new Uint8Array(input.length);
  let length = 0;
  for (let at = 0; at < input.length; at += 1) {
    let byte = input[at]!;
    if (byte === 0x25) {
      const high = input[at + 1] ?? 0;
      const low = input[at + 2] ?? 0;
      if (!isHexDigit(high) || !isHexDigit(low)) return undefined;
      byte = (hexValue(high) << 4) | hexValue(low);
      at += 2;
    }
    out[length] = byte;
    length += 1;
  }
  return decodeUtf8(out.subarray(0, length));
}

function hexValue(code: number): number {
  return code <= 0x39 ? code - 0x30 : (code | 0x20) - 0x57;
}
