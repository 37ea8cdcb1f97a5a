import { asciiSet, LETTERS_AND_DIGITS } from "./ascii.ts";

const TOKEN = asciiSet(`${LETTERS_AND_DIGITS}!#$%&'*+-.^_\`{|}~`);

/** Type and subtype of a media type in lower case, without its parameters: "application/json". */
export function essenceOf(mediaType: string): string {
  const semicolon = mediaType.indexOf(";");
  return (semicolon < 0 ? mediaType : mediaType.slice(0, semicolon)).trim().toLowerCase();
}

/** Whether the media type declares JSON: a subtype of "json" or ending with "+json" (CloudEvents JSON format § 3.1.1). */
export function isJsonMediaType(mediaType: string): boolean {
  const essence = essenceOf(mediaType);
  return essence.endsWith("/json") || (essence.endsWith("+json") && essence.includes("/"));
}

/** Whether the text has the syntax of a media type: type/subtype and parameters, quoted or not (RFC 2045 § 5.1). */
export function isMediaType(text: string): boolean {
  let at = tokenEnd(text, 0);
  if (at === 0 || text[at] !== "/") return false;
  const subtype = at + 1;
  at = tokenEnd(text, subtype);
  if (at === subtype) return false;
  while (at < text.length) {
    at = skipSpace(text, at);
    if (text[at] !== ";") return false;
    // "text/plain;" is widely sent; an empty parameter at the end says nothing.
    if (at + 1 === text.length) return true;
    const name = skipSpace(text, at + 1);
    at = tokenEnd(text, name);
    if (at === name || text[at] !== "=") return false;
    const value = at + 1;
    at = text[value] === '"' ? quotedStringEnd(text, value) : tokenEnd(text, value);
    if (at <= value) return false;
  }
  return true;
}

function tokenEnd(text: string, from: number): number {
  let at = from;
  while (at < text.length && text.charCodeAt(at) < 128 && TOKEN[text.charCodeAt(at)] === 1) at += 1;
  return at;
}

function skipSpace(text: string, from: number): number {
  let at = from;
  while (text[at] === " " || text[at] === "\t") at += 1;
  return at;
}

/**
 * One past the closing quote of a quoted-string of printable ASCII (RFC 9110 § 5.6.4) that opens at `from`; -1 if there is
 * none.
 */
export function quotedStringEnd(text: string, from: number): number {
  let escaped = false;
  for (let at = from + 1; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code < 0x20 || code > 0x7e) return -1;
    if (code === 0x22 && !escaped) return at + 1;
    escaped = code === 0x5c && !escaped;
  }
  return -1;
}
