import { asciiSet, LETTERS_AND_DIGITS } from "./ascii.ts";
import { attributesOf, type Decoded, decodedFrom } from "./attributes.ts";
import { type ContentMode, contentModeOf, isCloudEventsMediaType } from "./content-mode.ts";
import { type CloudEvent } from "./event.ts";
import { createFaults, type Faults, quote } from "./faults.ts";
import { isJsonMediaType, quotedStringEnd } from "./media-type.ts";
import { percentDecode, percentEncode } from "./percent.ts";
import { encodeStructuredJson, STRUCTURED_JSON } from "./structured-json.ts";

/** HTTP headers as pairs, one for each occurrence: a name that comes twice must not be joined before. Any case. */
export type HttpHeaders = readonly (readonly [name: string, value: string])[];

const PREFIX = "ce-";
// HTTP binding § 3.1.3.2: U+0021 to U+007E without the double quote and the percent sign.
const UNENCODED = asciiSet(`${LETTERS_AND_DIGITS}!#$&'()*+,-./:;<=>?@[\\]^_\`{|}~`);

/** The content mode of an HTTP message by its headers (HTTP binding § 3). */
export function httpContentMode(headers: HttpHeaders): ContentMode {
  let contentType: string | undefined;
  let hasSpecVersion = false;
  for (const [name, value] of headers) {
    const lower = name.toLowerCase();
    if (lower === "content-type") contentType ??= value;
    if (lower === "ce-specversion") hasSpecVersion = true;
  }
  return contentModeOf(contentType, hasSpecVersion);
}

/**
 * Decodes an event in binary mode from an HTTP message (HTTP binding § 3.1). Never throws. Headers without `ce-` are
 * ignored but for Content-Type, which is `datacontenttype`, so a `ce-datacontenttype` is refused; so is a header that
 * comes twice, and a value that is not printable ASCII or whose percent-encoding is not whole UTF-8.
 *
 * HTTP cannot tell an absent body from an empty one. An empty body is no data, unless its Content-Type declares
 * something other than JSON: of such a type, nothing is a payload too.
 */
export function decodeHttpBinary(headers: HttpHeaders, body: Uint8Array): Decoded {
  const faults = createFaults();
  const attributes: [string, string | undefined][] = [];
  let contentType: string | undefined;
  for (const [header, value] of headers) {
    const lower = header.toLowerCase();
    if (lower === "content-type") {
      const type = trimSpace(value);
      contentType ??= type;
      attributes.push(["datacontenttype", type]);
    } else if (lower === "ce-datacontenttype") {
      const message = "ce-datacontenttype may not be given; the header Content-Type is the datacontenttype.";
      faults.add("datacontenttype", "INVALID_ATTRIBUTES", message);
    } else if (lower.startsWith(PREFIX)) {
      const name = lower.slice(PREFIX.length);
      attributes.push([name, headerValue(name, value, faults)]);
    }
  }
  const isNothing = body.length === 0 && (contentType === undefined || isJsonMediaType(contentType));
  const data = isNothing ? undefined : { bytes: body, protoType: undefined };
  return decodedFrom({ attributes, data }, faults);
}

/**
 * Encodes an event in binary mode. `decodeHttpBinary` gives the same event back, but for what HTTP cannot carry: a
 * `protoType`, and the difference between no data and empty data. An event whose own `datacontenttype` is a CloudEvents
 * media type would be taken for structured mode, so it is sent in that.
 */
export function encodeHttpBinary(event: CloudEvent): {
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
} {
  if (event.datacontenttype !== undefined && isCloudEventsMediaType(event.datacontenttype)) {
    return { headers: [["content-type", STRUCTURED_JSON]], body: encodeStructuredJson(event) };
  }
  const headers = Array.from(attributesOf(event), ([name, value]): [string, string] =>
    name === "datacontenttype" ? ["content-type", value] : [PREFIX + name, percentEncode(value, UNENCODED)],
  );
  return { headers, body: event.data?.bytes ?? new Uint8Array() };
}

function headerValue(name: string, header: string, faults: Faults): string | undefined {
  const value = trimSpace(header);
  if (/[^ -~]/.test(value)) {
    return fail(name, "has characters outside printable ASCII; percent-encode their UTF-8 bytes", faults);
  }
  const text = unquote(value);
  if (text === undefined) {
    return fail(name, 'begins with a double quote and is no quoted string; write the quote as "%22"', faults);
  }
  const decoded = percentDecode(text);
  if (decoded !== undefined) return decoded;
  return fail(name, 'is not percent-encoded UTF-8; write the percent sign itself as "%25"', faults);
}

function fail(name: string, what: string, faults: Faults): undefined {
  const header = quote(PREFIX + name);
  faults.add(name, "INVALID_ATTRIBUTES", `The value of header ${header} ${what} (HTTP binding § 3.1.3.2).`);
}

/** Older senders quote values instead of encoding spaces (HTTP binding § 3.1.3.2); undefined if the quoting is broken. */
function unquote(value: string): string | undefined {
  if (!value.startsWith('"')) return value;
  if (quotedStringEnd(value, 0) !== value.length) return undefined;
  return value.slice(1, -1).replace(/\\(.)/g, "$1");
}

// A regular expression for both ends would take quadratic time on a value with a long run of spaces inside.
function trimSpace(value: string): string {
  let start = 0;
  let end = value.length;
  while (start < end && isSpace(value.charCodeAt(start))) start += 1;
  while (end > start && isSpace(value.charCodeAt(end - 1))) end -= 1;
  return start === 0 && end === value.length ? value : value.slice(start, end);
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x09;
}
