import { describe, expect, test } from "vitest";
import { decodeBatchJson } from "./batch-json.ts";
import { type CloudEvent } from "./event.ts";
import { MAX_FAULTS } from "./faults.ts";
import { encodeHttpBinary } from "./http-binary.ts";
import { type Fault } from "./reason.ts";
import { decodeStructuredJson, encodeStructuredJson } from "./structured-json.ts";
import { concatBytes, decodeUtf8, encodeUtf8 } from "./utf8.ts";

const MEMBERS = { specversion: '"1.0"', id: '"1"', source: '"/s"', type: '"t"' };

/** An event in JSON with members replaced or added by their raw JSON; undefined leaves one out. */
function json(members: Readonly<Record<string, string | undefined>> = {}): Uint8Array {
  const all = Object.entries({ ...MEMBERS, ...members }).filter(([, raw]) => raw !== undefined);
  return encodeUtf8(`{${all.map(([name, raw]) => `${JSON.stringify(name)}: ${raw}`).join(", ")}}`);
}

function decode(input: Uint8Array): CloudEvent {
  const result = decodeStructuredJson(input);
  if (!result.ok) throw new Error(JSON.stringify(result.faults));
  return result.value;
}

function faults(input: Uint8Array): readonly Fault[] {
  const result = decodeStructuredJson(input);
  return result.ok ? [] : result.faults;
}

function fieldsAndReasons(input: Uint8Array): string[] {
  return faults(input).map(({ field, reason }) => `${field} ${reason}`);
}

function payload(input: Uint8Array): string | undefined {
  const { data } = decode(input);
  return data && decodeUtf8(data.bytes);
}

describe("JSON format § 2.2, type system mapping", () => {
  test("extensions that are booleans or whole numbers become their canonical text", () => {
    const event = decode(
      json({ b: "true", f: "false", n: "5", low: "-2147483648", high: "2147483647", zero: "-0", s: '""' }),
    );
    expect(Object.fromEntries(event.extensions)).toEqual({
      b: "true",
      f: "false",
      high: "2147483647",
      low: "-2147483648",
      n: "5",
      s: "",
      zero: "0",
    });
    expect([...event.extensions.keys()]).toEqual(["b", "f", "high", "low", "n", "s", "zero"]);
  });

  test.each([
    "1.0",
    "1e3",
    "2147483648",
    "-2147483649",
    "123456789012345678901234567890",
    "{}",
    "[]",
    '["a"]',
  ])("the extension value %s is refused", (raw) => {
    expect(fieldsAndReasons(json({ ext: raw }))).toEqual(["ext INVALID_ATTRIBUTES"]);
  });

  test.each(["specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema"])(
    "%s must be a string",
    (name) => {
      expect(fieldsAndReasons(json({ [name]: "1" }))).toEqual([`${name} INVALID_ATTRIBUTES`]);
      expect(fieldsAndReasons(json({ [name]: "true" }))).toEqual([`${name} INVALID_ATTRIBUTES`]);
    },
  );

  test("null is the same as absent, for required attributes too", () => {
    const event = decode(json({ subject: "null", time: "null", ext: "null", datacontenttype: "null" }));
    expect(event.subject).toBeUndefined();
    expect(event.time).toBeUndefined();
    expect(event.extensions.size).toBe(0);
    expect(event.datacontenttype).toBeUndefined();
    expect(faults(json({ id: "null" }))).toEqual([
      { field: "id", reason: "INVALID_ATTRIBUTES", description: "id is required and missing." },
    ]);
  });

  test.each(['"\\ud800"', '"a\\u0000"', '"\\n"', '"\x7f"', '"\u0085"', '"\\uffff"', '"\uffff"'])(
    "the string %j is refused for its characters, in a batch too",
    (raw) => {
      for (const name of ["id", "ext"]) {
        const input = json({ [name]: raw });
        expect(fieldsAndReasons(input)).toEqual([`${name} INVALID_ATTRIBUTES`]);
        const batch = decodeBatchJson(concatBytes([encodeUtf8("["), input, encodeUtf8("]")]), 1);
        expect(batch.ok && batch.value).toMatchObject([{ ok: false, faults: [{ field: name }] }]);
      }
    },
  );

  test("the time keeps its text", () => {
    expect(decode(json({ time: '"2018-04-05T17:31:00.10+02:00"' })).time).toEqual({
      text: "2018-04-05T17:31:00.10+02:00",
      seconds: Date.UTC(2018, 3, 5, 15, 31) / 1_000,
      nanos: 100_000_000,
    });
  });
});

describe("JSON format § 3, envelope", () => {
  test("§ 2.3: the example of the specification", () => {
    const example = `{
      "specversion" : "1.0", "type" : "com.example.someevent", "source" : "/mycontext", "subject": null,
      "id" : "C234-1234-1234", "time" : "2018-04-05T17:31:00Z", "comexampleextension1" : "value",
      "comexampleothervalue" : 5, "datacontenttype" : "application/json",
      "data" : {
        "appinfoA" : "abc",
        "appinfoB" : 123,
        "appinfoC" : true
      }
    }`;
    const event = decode(encodeUtf8(example));
    expect(event).toMatchObject({
      id: "C234-1234-1234",
      type: "com.example.someevent",
      source: "/mycontext",
    });
    expect(Object.fromEntries(event.extensions)).toEqual({
      comexampleextension1: "value",
      comexampleothervalue: "5",
    });
    expect(payload(encodeUtf8(example))).toBe(
      example.slice(example.indexOf("{", 1), example.lastIndexOf("}") - 5).trimEnd(),
    );
  });

  test("§ 3.2: the examples of the specification, re-encoded in binary mode", () => {
    const example = (members: Readonly<Record<string, string>>) =>
      json({
        id: '"X234-1234-1234"',
        comexampleextension1: '"value"',
        comexampleothervalue: "5",
        unsetextension: "null",
        ...members,
      });
    const binary = (input: Uint8Array) => {
      const { headers, body } = encodeHttpBinary(decode(input));
      return [Object.fromEntries(headers), decodeUtf8(body)];
    };
    const headers = {
      "ce-specversion": "1.0",
      "ce-id": "X234-1234-1234",
      "ce-source": "/s",
      "ce-type": "t",
      "ce-comexampleextension1": "value",
      "ce-comexampleothervalue": "5",
    };
    const thrift = "application/vnd.apache.thrift.binary";
    expect(binary(example({ datacontenttype: `"${thrift}"`, data_base64: '"YWI="' }))).toEqual([
      { ...headers, "content-type": thrift },
      "ab",
    ]);
    const xml = { datacontenttype: '"application/xml"', data: '"<much wow=\\"xml\\"/>"' };
    expect(binary(example(xml))).toEqual([
      { ...headers, "content-type": "application/xml" },
      '<much wow="xml"/>',
    ]);
    const object = '{ "appinfoA" : "abc", "appinfoB" : 123 }';
    expect(binary(example({ datacontenttype: '"application/json"', data: object }))).toEqual([
      { ...headers, "content-type": "application/json" },
      object,
    ]);
    expect(binary(example({ subject: "null", data: '"I\'m just a string"' }))).toEqual([
      { ...headers, "content-type": "application/json" },
      '"I\'m just a string"',
    ]);
  });

  test("a document that is not an object, not JSON or not UTF-8 is MALFORMED", () => {
    for (const input of [
      "",
      "[]",
      "null",
      "{",
      '{"id":1',
      '{"id":1}}',
      "{'id':1}",
      '{"id":01}',
      '{"id":"\n"}',
      '{"a":1,}',
      "\u0000",
    ]) {
      expect([input, ...fieldsAndReasons(encodeUtf8(input))]).toEqual([input, " MALFORMED"]);
    }
    expect(fieldsAndReasons(new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x7d]))).toEqual([" MALFORMED"]);
    // An overlong slash, which a lax decoder would take.
    expect(fieldsAndReasons(new Uint8Array([0x22, 0xc0, 0xaf, 0x22]))).toEqual([" MALFORMED"]);
    expect(faults(encodeUtf8('{"id":1 "x":2}'))[0]?.description).toBe(
      "The event is not JSON: unexpected character at offset 8.",
    );
    expect(faults(encodeUtf8('{"id":'))[0]?.description).toBe("The event is not JSON: it ends too early.");
  });

  test("RFC 8259 § 8.1: a byte order mark before the document is skipped", () => {
    expect(decode(new Uint8Array([0xef, 0xbb, 0xbf, ...json()])).id).toBe("1");
  });

  test("a member that comes twice is refused, however its name is spelled, null or not", () => {
    const twice = encodeUtf8(
      '{"specversion":"1.0","id":"1","i\\u0064":"2","source":"/s","type":"t","x":null,"x":null}',
    );
    expect(fieldsAndReasons(twice)).toEqual(["id INVALID_ATTRIBUTES", "x INVALID_ATTRIBUTES"]);
    const data = encodeUtf8('{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"data":2}');
    expect(fieldsAndReasons(data)).toEqual(["data INVALID_DATA"]);
  });

  test("every fault is reported together with its field", () => {
    const input = json({
      specversion: '"0.3"',
      id: '""',
      source: '"a b"',
      type: undefined,
      time: '"now"',
      Bad: "1",
      data_base64: '"?"',
    });
    expect(fieldsAndReasons(input).toSorted()).toEqual([
      "Bad INVALID_ATTRIBUTES",
      "data_base64 INVALID_DATA",
      "id INVALID_ATTRIBUTES",
      "source INVALID_ATTRIBUTES",
      "specversion INVALID_ATTRIBUTES",
      "time INVALID_ATTRIBUTES",
      "type INVALID_ATTRIBUTES",
    ]);
  });

  test("a flood of faults is cut and counted", () => {
    const members = Array.from({ length: 500 }, (_, at) => [`X${at}`, "1"] as const);
    const found = faults(json(Object.fromEntries(members)));
    expect(found).toHaveLength(MAX_FAULTS + 1);
    expect(found.at(-1)).toEqual({
      field: "",
      reason: "INVALID_ATTRIBUTES",
      description: "400 further faults.",
    });
  });
});

describe("JSON format § 3.1, data", () => {
  test.each([
    "9007199254740993",
    "123456789012345678901234567890.000",
    "1.0",
    "1e3",
    "-0.0E+00",
    "null",
    "true",
    '"I\'m just a string"',
    '"\\u00e4 \\/ \\ud800"',
    '{"b": 1,   "a": [ 1.50, {} ],\n "b": 2 }',
    "[]",
  ])("§ 3.1.2: JSON data are kept byte for byte: %s", (raw) => {
    for (const datacontenttype of [
      '"application/json"',
      '"text/json;charset=utf-8"',
      '"application/vnd.acme+JSON"',
    ]) {
      expect(payload(json({ datacontenttype, data: ` ${raw} ` }))).toBe(raw);
    }
  });

  test("§ 3.1.2: data without a datacontenttype are JSON, and the event says so from then on", () => {
    const event = decode(json({ data: '"text"' }));
    expect(event.datacontenttype).toBe("application/json");
    expect(event.data).toEqual({ bytes: encodeUtf8('"text"'), protoType: undefined });
    expect(decode(json({ data: "1", datacontenttype: "null" })).datacontenttype).toBe("application/json");
    expect(decode(json({ data_base64: '"AA=="' })).datacontenttype).toBeUndefined();
  });

  test("§ 3.1.1: data: null is a payload, and differs from no data", () => {
    expect(payload(json({ data: "null" }))).toBe("null");
    expect(decode(json()).data).toBeUndefined();
  });

  test("§ 3.1.2: a string of another type than JSON is its text", () => {
    const xml = '"text/xml; charset=utf-8"';
    expect(payload(json({ datacontenttype: xml, data: '"<much wow=\\"xml\\"/> \\ud83d\\ude00"' }))).toBe(
      '<much wow="xml"/> 😀',
    );
    expect(payload(json({ datacontenttype: xml, data: '""' }))).toBe("");
    expect(payload(json({ datacontenttype: xml, data: '"\\ufeffx"' }))).toBe("\ufeffx");
  });

  test.each(["1", "null", "true", "{}", "[]", '"\\ud800"'])("§ 3.1.2: %s is no text", (raw) => {
    expect(fieldsAndReasons(json({ datacontenttype: '"text/plain"', data: raw }))).toEqual([
      "data INVALID_DATA",
    ]);
  });

  test("§ 3.1.1: data_base64 is binary, of any type", () => {
    expect(decode(json({ data_base64: '"AP8B"' })).data?.bytes).toEqual(new Uint8Array([0, 255, 1]));
    expect(decode(json({ data_base64: '""' })).data?.bytes).toEqual(new Uint8Array());
    expect(decode(json({ data_base64: '"AP\\u0038B"', datacontenttype: '"a/b"' })).data?.bytes).toEqual(
      new Uint8Array([0, 255, 1]),
    );
    expect(decode(json({ data_base64: "null" })).data).toBeUndefined();
    for (const raw of ['"A"', '"AA"', '"AA="', '"A A="', '"AP8B\\n"', '"AP-_"', '"QR=="', "1", "[]"]) {
      expect([raw, ...fieldsAndReasons(json({ data_base64: raw }))]).toEqual([
        raw,
        "data_base64 INVALID_DATA",
      ]);
    }
  });

  test("§ 3.1.1: data and data_base64 exclude each other", () => {
    expect(fieldsAndReasons(json({ data: "null", data_base64: '"AA=="' }))).toEqual(["data INVALID_DATA"]);
    expect(payload(json({ data: "null", data_base64: "null" }))).toBe("null");
  });

  test("data of 100,000 brackets, and a number of a million digits, are kept", () => {
    for (const raw of [
      `${"[".repeat(100_000)}${"]".repeat(100_000)}`,
      `${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`,
      "9".repeat(1_000_000),
    ]) {
      expect(payload(json({ data: raw })) === raw).toBe(true);
    }
    expect(fieldsAndReasons(json({ data: "[".repeat(1_000_000) }))).toEqual([" MALFORMED"]);
  });
});

describe("encoding", () => {
  const event = decode(json({ time: '"2026-11-01T10:30:00+01:00"', ext: '"5"' }));
  function encoded(data: string | Uint8Array, datacontenttype: string | undefined): string {
    const bytes = typeof data === "string" ? encodeUtf8(data) : data;
    return decodeUtf8(
      encodeStructuredJson({ ...event, datacontenttype, data: { bytes, protoType: undefined } }),
    )!;
  }

  test("§ 3: every attribute is a member; no data, no member for it", () => {
    expect(decodeUtf8(encodeStructuredJson(event))).toBe(
      '{"specversion":"1.0","id":"1","source":"/s","type":"t","time":"2026-11-01T10:30:00+01:00","ext":"5"}',
    );
  });

  test("§ 3.1.1: the form of data that keeps every byte", () => {
    expect(encoded('{"b":1.0}', "application/json")).toContain('"data":{"b":1.0}}');
    expect(encoded("<a/>", "text/xml")).toContain('"data":"<a/>"}');
    expect(encoded("", "text/xml")).toContain('"data":""}');
    expect(encoded(new Uint8Array([255]), "text/xml")).toContain('"data_base64":"/w=="}');
    expect(encoded("{", "application/json")).toContain('"data_base64":"ew=="}');
    expect(encoded(" 1", "application/json")).toContain('"data_base64":"IDE="}');
    expect(encoded("1 ", "application/json")).toContain('"data_base64":"MSA="}');
    expect(encoded(new Uint8Array([0x22, 0xff, 0x22]), "application/json")).toContain(
      '"data_base64":"Iv8i"}',
    );
    expect(encoded("1", undefined)).toContain('"data_base64":"MQ=="}');
  });
});
