// Lower case differs between engines in what they know of Unicode: letters that Unicode 17 brought have a lower case in one and
// none in the other, and whether a sigma ends its word depends on the characters around it, whose properties change too. So a
// sigma is one sigma, and those letters stay as they are: everywhere the mapping of Unicode 16.
const KNOWN = /[^\ua7ce\ua7d2\ua7d4\u{16ea0}-\u{16eb8}]+/gu;

/**
 * A text for comparing without regard to case: Unicode's default lower case (version 16), a sigma at the end of a word as any
 * other. In SQL it is `replace(lower(text collate "pg_unicode_fast"), 'ς', 'σ')`.
 */
export function foldCase(text: string): string {
  return text.replace(KNOWN, (part) => part.toLowerCase()).replaceAll("ς", "σ");
}
