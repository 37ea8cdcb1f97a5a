/** A–Z, a–z and 0–9. */
export const LETTERS_AND_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/** A set of ASCII characters: 1 at the code of each. */
export function asciiSet(characters: string): Uint8Array {
  const set = new Uint8Array(128);
  for (let at = 0; at < characters.length; at += 1) set[characters.charCodeAt(at)] = 1;
  return set;
}

/** Whether every character is in the set. It walks the text once, where a repeated regular expression could overflow. */
export function consistsOf(text: string, set: Uint8Array): boolean {
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code > 127 || set[code] === 0) return false;
  }
  return true;
}

/** Whether the character code is 0–9, a–f or A–F. */
export function isHexDigit(code: number): boolean {
  return (code >= 0x30 && code <= 0x39) || ((code | 0x20) >= 0x61 && (code | 0x20) <= 0x66);
}
