// Globals of every engine that Weir runs on (Node 20 and later, browsers), yet in none of the type libraries that
// core is checked with.
declare const TextEncoder: new () => { encode(text: string): Uint8Array };
declare const TextDecoder: new (
  label: "utf-8",
  options: { fatal: true; ignoreBOM: true },
) => { decode(bytes: Uint8Array): string };

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The UTF-8 bytes of a text. A lone surrogate, which has none, becomes U+FFFD: check `isWellFormed` where it matters. */
export function encodeUtf8(text: string): Uint8Array {
  return (text.length <= SHORT ? encodeAscii(text) : undefined) ?? encoder.encode(text);
}

// The call into the engine costs more than a short text does, and an event has a dozen of them.
const SHORT = 64;

function encodeAscii(text: string): Uint8Array | undefined {
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code > 127) return undefined;
    bytes[at] = code;
  }
  return bytes;
}

/** The text of UTF-8 bytes, a byte order mark kept; undefined where they are not UTF-8 (RFC 3629). */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
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
