// Globals of every engine that Weir runs on (Node 20 and later, browsers), yet in none of the type libraries that
// core is checked with.
declare const TextEncoder: new () => {
  encode(text: string): Uint8Array;
  encodeInto(text: string, into: Uint8Array): { readonly read: number; readonly written: number };
};
declare const TextDecoder: new (
  label: "utf-8",
  options: { fatal: true; ignoreBOM: true },
) => { decode(bytes: Uint8Array): string };

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The UTF-8 bytes of a text. A lone surrogate, which has none, becomes U+FFFD: check `isWellFormed` where it matters. */
export function encodeUtf8(text: string): Uint8Array {
  return (text.length <= MEDIUM ? encodeAscii(text) : undefined) ?? encoder.encode(text);
}

// Nearly all text here is ASCII. The engine's `encode` costs 400 ns on the shortest text, `encodeInto` 60 ns, and a loop
// less still on short ones; an event has a dozen of them.
const SHORT = 32;
const MEDIUM = 4_096;

function encodeAscii(text: string): Uint8Array | undefined {
  const bytes = new Uint8Array(text.length);
  if (text.length > SHORT) {
    // Nothing but ASCII fits into as many bytes as the text has units.
    return encoder.encodeInto(text, bytes).read === text.length ? bytes : undefined;
  }
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code > 127) return undefined;
    bytes[at] = code;
  }
  return bytes;
}

/** Writes `encodeUtf8` of a text into bytes from `start` on, where it has room, and gives the offset after it. */
export function writeUtf8(text: string, into: Uint8Array, start: number): number {
  if (text.length > SHORT) return start + encoder.encodeInto(text, into.subarray(start)).written;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code > 127) return start + encoder.encodeInto(text, into.subarray(start)).written;
    into[start + at] = code;
  }
  return start + text.length;
}

/** The text of UTF-8 bytes, a byte order mark kept; undefined where they are not UTF-8 (RFC 3629). */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

/** `decodeUtf8` of a part of the bytes. */
export function decodeUtf8At(bytes: Uint8Array, start: number, end: number): string | undefined {
  if (end - start > SHORT) return decodeUtf8(bytes.subarray(start, end));
  const codes: number[] = [];
  for (let at = start; at < end; at += 1) {
    const byte = bytes[at]!;
    if (byte > 127) return decodeUtf8(bytes.subarray(start, end));
    codes.push(byte);
  }
  return String.fromCharCode(...codes);
}

/** The texts of many byte strings, and whether all their characters are known to be of U+0020 to U+007E. */
export interface TextsRead {
  readonly texts: readonly (string | undefined)[];
  readonly arePrintable: boolean;
}

/**
 * `decodeUtf8` of each. Short ones that are ASCII are decoded and looked at together: a call into the engine costs 90 ns, as
 * much as copying a hundred bytes, and a Kafka record has a dozen headers.
 */
export function decodeUtf8All(parts: readonly Uint8Array[]): TextsRead {
  let length = 0;
  for (const part of parts) {
    if (length + part.length > gathered.length) return eachDecoded(parts);
    for (let at = 0; at < part.length; at += 1) gathered[length + at] = part[at]!;
    length += part.length;
  }
  const text = decodeUtf8(gathered.subarray(0, length));
  if (text?.length !== length) return eachDecoded(parts);
  let end = 0;
  const texts = parts.map((part) => text.slice(end, (end += part.length)));
  return { texts, arePrintable: !/[^ -~]/.test(text) };
}

const gathered = new Uint8Array(1_024);

function eachDecoded(parts: readonly Uint8Array[]): TextsRead {
  return { texts: parts.map(decodeUtf8), arePrintable: false };
}

/** How many bytes `encodeUtf8` would give, without making them. */
export function utf8Length(text: string): number {
  let length = text.length;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit < 0x80) continue;
    if (unit < 0x800) length += 1;
    // A pair is two units and four bytes, anything else of this size one unit and three bytes.
    else if (unit >= 0xd800 && unit < 0xdc00 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00) {
      length += 2;
      at += 1;
    } else length += 2;
  }
  return length;
}

/** The byte strings one after another. */
export function concatBytes(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
