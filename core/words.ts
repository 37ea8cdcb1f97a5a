import { asciiSet, isHexDigit, LETTERS_AND_DIGITS } from "./ascii.ts";

/** How many UTF-16 units of a word count; two words that begin with the same 64 are one. */
export const WORD_LENGTH = 64;

const WORD = asciiSet(LETTERS_AND_DIGITS);
const HYPHEN = 0x2d;
const UUID_LENGTH = 36;
const UUID_HYPHENS = [8, 13, 18, 23];
const UUID_OR_WORD = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\p{L}\p{M}\p{N}])|[\p{L}\p{M}\p{N}]+/gu;

/**
 * The words of a text, in their order, repeated ones included: what full text compares. A word is a longest run of letters,
 * marks and digits (Unicode L, M and N) in lower case (Unicode's default mapping, whatever the locale), cut to
 * {@link WORD_LENGTH}; a UUID in its usual form is one word with its hyphens. Nothing is stemmed, left out or normalized, and
 * a run of a script that writes no spaces is one word. Linear time.
 */
export function wordsOf(text: string): string[] {
  const lower = text.toLowerCase();
  const words: string[] = [];
  for (let at = 0; at < lower.length; at += 1) {
    const code = lower.charCodeAt(at);
    if (code > 127) return unicodeWordsOf(lower);
    if (WORD[code] === 0) continue;
    const start = at;
    if (lower.charCodeAt(at + 8) === HYPHEN && isUuidAt(lower, at)) at += UUID_LENGTH;
    else while (WORD[lower.charCodeAt(at)] === 1) at += 1;
    if (lower.charCodeAt(at) > 127) return unicodeWordsOf(lower);
    words.push(lower.slice(start, at - start > WORD_LENGTH ? start + WORD_LENGTH : at));
  }
  return words;
}

/** As {@link wordsOf} does it for any text in lower case; for ASCII it is five times as slow. */
function unicodeWordsOf(lower: string): string[] {
  return (lower.match(UUID_OR_WORD) ?? []).map((word) => word.slice(0, WORD_LENGTH));
}

function isUuidAt(lower: string, start: number): boolean {
  for (const hyphen of UUID_HYPHENS) if (lower.charCodeAt(start + hyphen) !== HYPHEN) return false;
  for (let at = 0; at < UUID_LENGTH; at += 1)
    if (!isHexDigit(lower.charCodeAt(start + at)) && !UUID_HYPHENS.includes(at)) return false;
  return WORD[lower.charCodeAt(start + UUID_LENGTH)] !== 1;
}
