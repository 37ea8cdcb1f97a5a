import { describe, expect, test } from "vitest";
import { type CloudEvent } from "./event.ts";
import { decodeHttpBinary, encodeHttpBinary, httpContentMode, type HttpHeaders } from "./http-binary.ts";
import { decodeUtf8, encodeUtf8 } from "./utf8.ts";

const REQUIRED: readonly (readonly [string, string])[] = [
  ["ce-specversion", "1.0"],
  ["ce-id", "1"],
  ["ce-source", "/s"],
  ["ce-type", "t"],
];
const NOTHING = new Uint8Array();

function decode(headers: HttpHeaders, body: Uint8Array = NOTHING): CloudEvent {
  const result = decodeHttpBinary([...REQUIRED, ...headers], body);
  if (!result.ok) throw new Error(JSON.stringify(result.faults));
  return result.value;
}

function faults(headers: HttpHeaders): string[] {
  const result = decodeHttpBinary(headers, NOTHING);
  return result.ok ? [] : result.faults.map(({ field, reason }) => `${field} ${reason}`);
}

function extension(value: string): string | undefined {
  return decode([["ce-x", value]]).extensions.get("x");
}

describe("HTTP binding § 3, content modes", () => {
  test("the headers decide, in any case", () => {
    expect(
      httpContentMode([
        ["CONTENT-TYPE", "Application/CloudEvents+JSON; charset=UTF-8"],
        ["ce-specversion", "1.0"],
      ]),
    ).toEqual({
      mode: "structured",
      format: "json",
    });
    expect(
      httpContentMode([
        ["Content-Type", "application/json"],
        ["Ce-SpecVersion", "1.0"],
      ]),
    ).toEqual({ mode: "binary" });
    expect(
      httpContentMode([
        ["content-type", "application/json"],
        ["ce-id", "1"],
      ]),
    ).toEqual({ mode: "unknown" });
  });
});

describe("HTTP binding § 3.1, binary mode", () => {
  test("§ 3.1.1: Content-Type is the datacontenttype, as it is", () => {
    const body = encodeUtf8("<a/>");
    const event = decode([["Content-Type", ' text/XML; charset="UTF-8"\t']], body);
    expect(event.datacontenttype).toBe('text/XML; charset="UTF-8"');
    expect(event.data).toEqual({ bytes: body, protoType: undefined });
    expect(decode([], body).datacontenttype).toBeUndefined();
    expect(faults([...REQUIRED, ["content-type", "a/b"], ["Content-Type", "a/b"]])).toEqual([
      "datacontenttype INVALID_ATTRIBUTES",
    ]);
    expect(faults([...REQUIRED, ["content-type", "xml"]])).toEqual(["datacontenttype INVALID_ATTRIBUTES"]);
  });

  test("§ 3.1.1: a ce-datacontenttype must not be there", () => {
    expect(faults([...REQUIRED, ["ce-DataContentType", "text/plain"]])).toEqual([
      "datacontenttype INVALID_ATTRIBUTES",
    ]);
  });

  test("§ 3.1.2: the body is the data, byte for byte", () => {
    const body = new Uint8Array([0xff, 0, 0x7b]);
    expect(decode([["content-type", "application/json"]], body).data?.bytes).toEqual(body);
  });

  test("§ 3.1.2: an empty body is no data, but of a type other than JSON an empty payload", () => {
    expect(decode([]).data).toBeUndefined();
    expect(decode([["content-type", "application/json"]]).data).toBeUndefined();
    expect(decode([["content-type", "text/plain"]]).data).toEqual({ bytes: NOTHING, protoType: undefined });
  });

  test("§ 3.1.3: every ce- header is an attribute, other headers are none", () => {
    const event = decode([
      ["ce-subject", "sub"],
      ["ce-time", "2018-04-05T03:56:24Z"],
      ["ce-dataschema", "https://example.com/schema"],
      ["ce-zz", "last"],
      ["ce-comexampleextension1", "value"],
      ["ce", "no"],
      ["x-ce-other", "no"],
      ["user-agent", "test"],
    ]);
    expect(event).toEqual({
      id: "1",
      source: "/s",
      type: "t",
      subject: "sub",
      time: { text: "2018-04-05T03:56:24Z", seconds: 1_522_900_584, nanos: 0 },
      datacontenttype: undefined,
      dataschema: "https://example.com/schema",
      extensions: new Map([
        ["comexampleextension1", "value"],
        ["zz", "last"],
      ]),
      data: undefined,
    });
  });

  test("§ 3.1.3.1: header names in any case; one that comes twice is refused, as is one that names no attribute", () => {
    expect(decode([["CE-Subject", "s"]]).subject).toBe("s");
    expect(faults([...REQUIRED, ["Ce-Id", "1"]])).toEqual(["id INVALID_ATTRIBUTES"]);
    expect(faults([...REQUIRED, ["ce-a", "1"], ["CE-A", "1"]])).toEqual(["a INVALID_ATTRIBUTES"]);
    expect(faults([...REQUIRED, ["ce-", "1"], ["ce-a-b", "1"], ["ce-data", "1"], ["ce-a_b", "1"]])).toEqual([
      " INVALID_ATTRIBUTES",
      "a-b INVALID_ATTRIBUTES",
      "data INVALID_ATTRIBUTES",
      "a_b INVALID_ATTRIBUTES",
    ]);
  });

  test("§ 3.1.3.2: the example of the specification, both ways", () => {
    const encoded = "Euro%20%E2%82%AC%20%F0%9F%98%80";
    expect(extension(encoded)).toBe("Euro € 😀");
    expect(new Map(encodeHttpBinary(decode([["ce-x", encoded]])).headers).get("ce-x")).toBe(encoded);
  });

  test("§ 3.1.3.2: decoding takes lower case, needless encoding and bare spaces, and only one round", () => {
    expect(extension("%e2%82%ac %41")).toBe("€ A");
    expect(extension("%2541")).toBe("%41");
    expect(extension("a  b")).toBe("a  b");
    expect(extension(" \ta\t ")).toBe("a");
    expect(extension("")).toBe("");
  });

  test("§ 3.1.3.2: quoted values of older senders are unescaped first", () => {
    expect(extension('"a b"')).toBe("a b");
    expect(extension('"a \\"b\\" \\\\ %C3%A4"')).toBe('a "b" \\ ä');
    expect(extension('""')).toBe("");
    expect(extension('say "hi"')).toBe('say "hi"');
  });

  test.each([
    "%",
    "%4",
    "%zz",
    "%C0%A0",
    "%ff",
    "%ED%A0%80",
    '"',
    '"a',
    '"a" b',
    '"a\\"',
    "é",
    "a\tb",
    "%00",
    "%7F",
    "%C2%85",
    "%EF%BF%BF",
  ])("§ 3.1.3.2: the value %j is refused", (value) => {
    expect(faults([...REQUIRED, ["ce-x", value]])).toEqual(["x INVALID_ATTRIBUTES"]);
  });

  test("§ 3.1.3.2: encoding leaves nothing but U+0021 to U+007E, with the quote and the percent sign encoded", () => {
    const ascii = Array.from({ length: 95 }, (_, at) => String.fromCharCode(32 + at)).join("");
    const { headers } = encodeHttpBinary({ ...decode([]), subject: `${ascii}ä` });
    const value = new Map(headers).get("ce-subject");
    expect(value).toBe(`${ascii.replace("%", "%25").replace(" ", "%20").replace('"', "%22")}%C3%A4`);
  });

  test("§ 3.1.3.2: a surrogate pair is one character, and typed values come as their canonical strings", () => {
    const attributes = {
      boolean: "true",
      integer: "-2147483648",
      string: "a 😀 b",
      binary: "+/8=",
      uri: "https://example.com/%C3%A4?q",
      uriref: "../a#b",
      timestamp: "2026-11-01T10:30:00.50+01:00",
    };
    const event = { ...decode([]), extensions: new Map(Object.entries(attributes)) };
    const { headers } = encodeHttpBinary(event);
    expect(Object.fromEntries(headers)).toMatchObject({
      "ce-boolean": "true",
      "ce-integer": "-2147483648",
      "ce-string": "a%20%F0%9F%98%80%20b",
      "ce-binary": "+/8=",
      "ce-uri": "https://example.com/%25C3%25A4?q",
      "ce-uriref": "../a#b",
      "ce-timestamp": "2026-11-01T10:30:00.50+01:00",
    });
    const read = decodeHttpBinary(headers, NOTHING);
    expect(read.ok && Object.fromEntries(read.value.extensions)).toEqual(attributes);
  });

  test("what is unreadable is not called missing too", () => {
    expect(
      faults([
        ["ce-specversion", "1.0"],
        ["ce-id", "%"],
        ["ce-source", "/s"],
      ]),
    ).toEqual(["id INVALID_ATTRIBUTES", "type INVALID_ATTRIBUTES"]);
  });

  test("a long run of spaces takes linear time", () => {
    const value = `a${" ".repeat(500_000)}b`;
    expect(extension(value)).toHaveLength(value.length);
  });

  test("an event whose payload is a CloudEvent is sent in structured mode, for binary would be taken for it", () => {
    const event: CloudEvent = {
      ...decode([]),
      datacontenttype: "application/cloudevents+json",
      data: { bytes: encodeUtf8("{}"), protoType: undefined },
    };
    const { headers, body } = encodeHttpBinary(event);
    expect(headers).toEqual([["content-type", "application/cloudevents+json"]]);
    expect(decodeUtf8(body)).toContain('"datacontenttype":"application/cloudevents+json","data":{}}');
  });
});
