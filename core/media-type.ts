import { asciiSet } from "./percent.ts";

const TOKEN = asciiSet("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`{|}~");

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
  for (;;) {
    at = skipSpace(text, at);
    if (at === text.length) return true;
    if (text[at] !== ";") return false;
    const name = skipSpace(text, at + 1);
    // "text/plain;" is widely sent; an empty parameter says nothing.
    if (name === text.length) return true;
    at = tokenEnd(text, name);
    if (at === name || text[at] !== "=") return false;
    const value = at + 1;
    at = text[value] === '"' ? quotedStringEnd(text, value) : tokenEnd(text, value);
    if (at <= value) return false;
  }
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

/** One past the closing quote of a quoted-string (RFC 9110 § 5.6.4) that opens at `from`; -1 if it never closes. */
export function quotedStringEnd(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at += 1) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === '"') return at + 1;
  }
  return -1;
}
