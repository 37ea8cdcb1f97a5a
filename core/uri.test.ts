import fc from "fast-check";
import { expect, test } from "vitest";
import { isUri, isUriReference } from "./uri.ts";

// The examples of RFC 3986 § 1.1.2 and of CloudEvents' source.
const ABSOLUTE = [
  "ftp://ftp.is.co.za/rfc/rfc1808.txt",
  "http://www.ietf.org/rfc/rfc2396.txt",
  "ldap://[2001:db8::7]/c=GB?objectClass?one",
  "mailto:John.Doe@example.com",
  "news:comp.infosystems.www.servers.unix",
  "tel:+1-816-555-1212",
  "telnet://192.0.2.16:80/",
  "urn:oasis:names:specification:docbook:dtd:xml:4.1.2",
  "https://github.com/cloudevents",
  "mailto:cncf-wg-serverless@lists.cncf.io",
  "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66",
  "https://user:p%40ss@example.com:8080/a//b?q=/?#frag/?",
  "http://[v1.x:y]:1/",
  "http://[::1]",
  "file:///etc/hosts",
  "a:",
];
const RELATIVE = [
  "/cloudevents/spec/pull/123",
  "/sensors/tn-1234567/alerts",
  "1-555-123-4567",
  "",
  "?q",
  "#f",
  "//host/path",
  "./a:b",
  "a/b:c",
  "../x?y:z#a:b",
  "%C3%A4",
];

test.each(ABSOLUTE)("RFC 3986 § 3: %s is a URI", (text) => {
  expect(isUri(text)).toBe(true);
  expect(isUriReference(text)).toBe(true);
});

test.each(RELATIVE)("RFC 3986 § 4.2: %j is a relative reference, and no URI", (text) => {
  expect(isUri(text)).toBe(false);
  expect(isUriReference(text)).toBe(true);
});

test.each([
  "a b",
  "/größe",
  "<a>",
  "a\\b",
  "a^b",
  "a|b",
  "a`b",
  '"a"',
  "{a}",
  "%",
  "%4",
  "%4g",
  "a%",
  "#a#b",
  "#%",
  "?[",
  "[a]",
  "/[a]",
  "http://[::1",
  "http://[]/",
  "http://[::1]x/",
  "http://[::1]:8x/",
  "http://[%31]/",
  "http://a[b]/",
  "http://[a]@b/",
  ":a",
  "1a:b",
  "a_b:c",
  "a%41:b",
  "a\u0000",
])("RFC 3986: %j is no URI-reference", (text) => {
  expect(isUriReference(text)).toBe(false);
  expect(isUri(text)).toBe(false);
});

test("what the platform's own parser writes is a URI", () => {
  fc.assert(
    fc.property(fc.webUrl({ withFragments: true, withQueryParameters: true }), (text) => {
      expect(isUri(text)).toBe(true);
    }),
  );
});

test("a text of a million characters takes linear time and no stack", () => {
  expect(isUriReference(`/${"%41a".repeat(250_000)}`)).toBe(true);
  expect(isUriReference(`${"/".repeat(1_000_000)} `)).toBe(false);
});
