import { utf8Length } from "#core/utf8.ts";

// Values of records that others may have written: whatever they are, no column here refuses them.

/** The most bytes of a key or a value that an index keeps of it. */
export const PREVIEW_BYTES = 512;

/**
 * The most bytes of UTF-8 that the index of the dead letters keeps of a text: of a name what Weir takes in unless it is
 * configured otherwise, so that nothing is cut of what came by Weir.
 */
export const LETTER_TEXT_BYTES = {
  source: 1_024,
  id: 512,
  type: 256,
  subject: 1_024,
  principal: 1_024,
  detail: 2_048,
} as const;

/**
 * The text as it is, or, where it has more bytes, its first ones and "…". What was cut is thus longer than what was not,
 * and equals no text within the bound.
 */
export function cutText(text: string, maxBytes: number): string {
  if (utf8Length(text) <= maxBytes) return text;
  let bytes = 0;
  let end = 0;
  for (const character of text) {
    bytes += utf8Length(character);
    if (bytes > maxBytes) break;
    end += character.length;
  }
  return `${text.slice(0, end)}…`;
}

/** PostgreSQL's text has no NUL. */
export function toText(text: string): string {
  return text.replaceAll("\0", "\uFFFD");
}
