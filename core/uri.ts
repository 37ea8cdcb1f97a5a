// RFC 3986 § 3.3: the characters of a path are pchar and "/"; § 3.4 and § 3.5 add "?". That a percent sign has its two hex
// digits is looked at apart. A class of characters that repeats is matched in linear time and without a stack, however long
// the text; a choice that repeats is not.
const SEGMENT = "A-Za-z0-9\\-._~!$&'()*+,;=:@%";
const QUERY = `${SEGMENT}/?`;
// Only where its host is in brackets does an authority (§ 3.2) have other characters than the path after it.
const BRACKETED_HOST = `//(?:[${SEGMENT}]*@)?\\[[A-Za-z0-9\\-._~!$&'()*+,;=:]+\\](?::[0-9]*)?(?![^/?#])`;
const AFTER_SCHEME = `(?:${BRACKETED_HOST})?[${SEGMENT}/]*(?:\\?[${QUERY}]*)?(?:#[${QUERY}]*)?$`;

const ABSOLUTE = new RegExp(`^[A-Za-z][A-Za-z0-9+\\-.]*:${AFTER_SCHEME}`);
// A colon in the first segment would end a scheme (§ 4.2).
const RELATIVE = new RegExp(`^(?![^/?#]*:)${AFTER_SCHEME}`);
const BROKEN_PERCENT = /%(?![0-9A-Fa-f]{2})/;

/**
 * Whether the text is a URI-reference (RFC 3986 § 4.1): a sound scheme where there is one, the characters that each part
 * may have, whole percent-encodings. What a scheme demands beyond that is not looked at.
 */
export function isUriReference(text: string): boolean {
  return (ABSOLUTE.test(text) || RELATIVE.test(text)) && !BROKEN_PERCENT.test(text);
}

/**
 * Whether the text is a URI with a scheme (RFC 3986 § 3). A fragment is allowed, though CloudEvents' type URI points to
 * § 4.3, which has none: schemas are widely named with one.
 */
export function isUri(text: string): boolean {
  return ABSOLUTE.test(text) && !BROKEN_PERCENT.test(text);
}

/** Whether the text can name the message of a google.protobuf.Any: a URI-reference that is not empty. */
export function isTypeUrl(text: string): boolean {
  return text !== "" && isUriReference(text);
}
