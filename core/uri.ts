import { asciiSet, isHexDigit, LETTERS_AND_DIGITS } from "./ascii.ts";

const SCHEME = asciiSet(`${LETTERS_AND_DIGITS}+-.`);
// RFC 3986 § 3.3 pchar and "/"; § 3.4 and § 3.5 add "?".
const PATH = asciiSet(`${LETTERS_AND_DIGITS}-._~!$&'()*+,;=:@/`);
const QUERY = asciiSet(`${LETTERS_AND_DIGITS}-._~!$&'()*+,;=:@/?`);
const IP_LITERAL = asciiSet(`${LETTERS_AND_DIGITS}-._~!$&'()*+,;=:`);
const DIGITS = asciiSet("0123456789");

/**
 * Whether the text is a URI-reference (RFC 3986 § 4.1): a sound scheme where there is one, the characters that each part
 * may have, whole percent-encodings. What a scheme demands beyond that is not looked at.
 */
export function isUriReference(text: string): boolean {
  return uriKind(text) !== undefined;
}

/**
 * Whether the text is a URI with a scheme (RFC 3986 § 3). A fragment is allowed, though CloudEvents' type URI points to
 * § 4.3, which has none: schemas are widely named with one.
 */
export function isUri(text: string): boolean {
  return uriKind(text) === "absolute";
}

function uriKind(text: string): "absolute" | "relative" | undefined {
  const fragment = indexOrEnd(text, "#", 0, text.length);
  const query = indexOrEnd(text, "?", 0, fragment);
  if (
    !areUriCharacters(QUERY, text, query + 1, fragment) ||
    !areUriCharacters(QUERY, text, fragment + 1, text.length)
  ) {
    return undefined;
  }
  // A colon before the first slash ends a scheme: the first segment of a relative path may not hold one (§ 4.2).
  const colon = indexOrEnd(text, ":", 0, indexOrEnd(text, "/", 0, query));
  const hasScheme = text[colon] === ":";
  if (hasScheme && !(isLetter(text.charCodeAt(0)) && areUriCharacters(SCHEME, text, 0, colon, false)))
    return undefined;
  let path = hasScheme ? colon + 1 : 0;
  if (text.startsWith("//", path)) {
    const end = indexOrEnd(text, "/", path + 2, query);
    if (!isAuthority(text.slice(path + 2, end))) return undefined;
    path = end;
  }
  if (!areUriCharacters(PATH, text, path, query)) return undefined;
  return hasScheme ? "absolute" : "relative";
}

function isAuthority(text: string): boolean {
  const host = text.lastIndexOf("@") + 1;
  if (host > 0 && !areUriCharacters(PATH, text, 0, host - 1)) return false;
  if (text[host] !== "[") return areUriCharacters(PATH, text, host, text.length);
  const end = text.indexOf("]", host);
  const port = text.slice(end + 1);
  return (
    end > host + 1 &&
    areUriCharacters(IP_LITERAL, text, host + 1, end, false) &&
    (port === "" || (port[0] === ":" && areUriCharacters(DIGITS, port, 1, port.length, false)))
  );
}

function indexOrEnd(text: string, character: string, from: number, end: number): number {
  for (let at = from; at < end; at += 1) if (text[at] === character) return at;
  return end;
}

function areUriCharacters(set: Uint8Array, text: string, from: number, end: number, percent = true): boolean {
  for (let at = from; at < end; at += 1) {
    const code = text.charCodeAt(at);
    if (code < 128 && set[code] === 1) continue;
    const encoded = percent && code === 0x25 && at + 2 < end;
    if (!encoded || !isHexDigit(text.charCodeAt(at + 1)) || !isHexDigit(text.charCodeAt(at + 2)))
      return false;
    at += 2;
  }
  return true;
}

function isLetter(code: number): boolean {
  return (code | 0x20) >= 0x61 && (code | 0x20) <= 0x7a;
}
