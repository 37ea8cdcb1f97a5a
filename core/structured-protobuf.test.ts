import { describe, expect, test } from "vitest";
import { encodedSize } from "./encoded-size.ts";
import { type CloudEvent } from "./event.ts";
import { decodeStructuredProtobuf, encodeStructuredProtobuf } from "./structured-protobuf.ts";
import { timestampFrom } from "./timestamp.ts";
import { encodeUtf8 } from "./utf8.ts";

// Messages by hand, field by field: what generated code would never write. What it does write is in test/core/.

type Bytes = number[];

function field(number: number, content: Bytes | string | Uint8Array): Bytes {
  const bytes = typeof content === "string" ? encodeUtf8(content) : content;
  return [(number << 3) | 2, ...(bytes.length < 128 ? [bytes.length] : [bytes.length | 128, 1]), ...bytes];
}
function entry(name: string, ...value: Bytes): Bytes {
  return field(5, [...field(1, name), ...field(2, value)]);
}
const REQUIRED = [...field(1, "1"), ...field(2, "/s"), ...field(3, "1.0"), ...field(4, "t")];
const MALFORMED = " MALFORMED";

function decode(...bytes: Bytes): CloudEvent {
  const result = decodeStructuredProtobuf(new Uint8Array([...REQUIRED, ...bytes]));
  if (!result.ok) throw new Error(JSON.stringify(result.faults));
  return result.value;
}
function faults(...bytes: Bytes): string[] {
  const result = decodeStructuredProtobuf(new Uint8Array(bytes));
  return result.ok ? [] : result.faults.map((fault) => `${fault.field} ${fault.reason}`);
}
function extension(...value: Bytes): string | undefined {
  return decode(...entry("ext", ...value)).extensions.get("ext");
}

const NEGATIVE = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];

describe("protobuf format § 2.1, type system", () => {
  test.each<[string, Bytes, string]>([
    ["Boolean", [0x08, 1], "true"],
    ["Boolean, its default", [0x08, 0], "false"],
    ["Boolean, in ten bytes", [0x08, ...NEGATIVE], "true"],
    ["Integer", [0x10, 5], "5"],
    ["Integer, its default", [0x10, 0], "0"],
    ["Integer, negative in ten bytes", [0x10, ...NEGATIVE], "-1"],
    ["Integer, negative in five bytes", [0x10, 0xff, 0xff, 0xff, 0xff, 0x0f], "-1"],
    ["Integer, the least", [0x10, 0x80, 0x80, 0x80, 0x80, 0xf8, 0xff, 0xff, 0xff, 0xff, 0x01], "-2147483648"],
    ["String", field(3, "größe"), "größe"],
    ["String, empty", field(3, ""), ""],
    ["Binary", field(4, [0xfb, 0xff]), "+/8="],
    ["URI", field(5, "urn:a:b"), "urn:a:b"],
    ["URI-reference", field(6, "../a?b"), "../a?b"],
    ["Timestamp", field(7, [0x08, 1, 0x10, 0x80, 0x84, 0xaf, 0x5f]), "1970-01-01T00:00:01.200Z"],
    ["Timestamp, its default", field(7, []), "1970-01-01T00:00:00Z"],
    ["Timestamp, before 1970", field(7, [0x08, ...NEGATIVE, 0x10, 1]), "1969-12-31T23:59:59.000000001Z"],
  ])("%s becomes its canonical string", (_, value, text) => {
    expect(extension(...value)).toBe(text);
  });

  test.each<[string, Bytes]>([
    ["no value", []],
    ["a URI without a scheme", field(5, "/relative")],
    ["a URI-reference that is none", field(6, "a b")],
    ["nanos that are negative", field(7, [0x10, ...NEGATIVE])],
    ["a second beyond the year 9999", field(7, [0x08, ...Array<number>(8).fill(0xff), 0x7f])],
    ["a control character", field(3, "\n")],
    ["a noncharacter", field(3, "\uffff")],
  ])("%s is refused at its attribute", (_, value) => {
    expect(faults(...REQUIRED, ...entry("ext", ...value))).toEqual(["ext INVALID_ATTRIBUTES"]);
  });
});

describe("protobuf format § 2.3 and § 2.4, attributes", () => {
  test("the required ones have fields of their own, and may not be in the map as well", () => {
    expect(faults()).toEqual(
      ["specversion", "id", "source", "type"].map((name) => `${name} INVALID_ATTRIBUTES`),
    );
    const twice = ["id", "source", "specversion", "type"];
    expect(faults(...REQUIRED, ...twice.flatMap((name) => entry(name, ...field(3, "1.0"))))).toEqual(
      twice.map((name) => `attributes.${name} INVALID_ATTRIBUTES`),
    );
  });

  test("the others are in the map, of any type", () => {
    expect(
      decode(
        ...entry("subject", 0x10, 5),
        ...entry("time", ...field(3, "2026-11-01T10:30:00.50+01:00")),
        ...entry("dataschema", ...field(6, "urn:x")),
        ...entry("datacontenttype", ...field(3, "text/plain")),
      ),
    ).toMatchObject({
      subject: "5",
      time: { text: "2026-11-01T10:30:00.50+01:00" },
      dataschema: "urn:x",
      datacontenttype: "text/plain",
    });
  });

  test("names and values are held to the rules of every format", () => {
    const bad = [...entry("Ext", 0x08, 1), ...entry("data", 0x08, 1), ...entry("", 0x08, 1)];
    expect(faults(...REQUIRED, ...bad, ...entry("subject", ...field(3, "")))).toEqual([
      "subject INVALID_ATTRIBUTES",
      "Ext INVALID_ATTRIBUTES",
      "data INVALID_ATTRIBUTES",
      " INVALID_ATTRIBUTES",
    ]);
    expect(decode(...entry("constructor", ...field(3, "x"))).extensions).toEqual(
      new Map([["constructor", "x"]]),
    );
    expect(faults(...REQUIRED, ...entry("__proto__", ...field(3, "x")))).toEqual([
      "__proto__ INVALID_ATTRIBUTES",
    ]);
  });
});

describe("protobuf format § 3, data", () => {
  test("binary_data and text_data are their bytes, byte for byte", () => {
    expect(decode(...field(6, [0xff, 0])).data).toEqual({
      bytes: new Uint8Array([0xff, 0]),
      protoType: undefined,
    });
    expect(decode(...field(7, "\ufeffä\n")).data).toEqual({
      bytes: encodeUtf8("\ufeffä\n"),
      protoType: undefined,
    });
    expect(decode(...field(6, [])).data?.bytes).toEqual(new Uint8Array());
    expect(decode(...field(7, "")).data?.bytes).toEqual(new Uint8Array());
    expect(decode().data).toBeUndefined();
  });

  test("proto_data is the message's bytes with its type URL", () => {
    const any = [...field(1, "type.googleapis.com/a.B"), ...field(2, [1, 2])];
    expect(decode(...field(8, any)).data).toEqual({
      bytes: new Uint8Array([1, 2]),
      protoType: "type.googleapis.com/a.B",
    });
    expect(decode(...field(8, field(1, "a.B"))).data).toEqual({ bytes: new Uint8Array(), protoType: "a.B" });
    for (const any of [[], field(2, [1]), field(1, "a b")]) {
      expect(faults(...REQUIRED, ...field(8, any))).toEqual(["data INVALID_DATA"]);
    }
  });

  test("is written as proto_data, as text_data where it is UTF-8, else as binary_data", () => {
    const lastField = (data: CloudEvent["data"]) => [
      ...encodeStructuredProtobuf({ ...decode(), data }).subarray(REQUIRED.length),
    ];
    expect(lastField(undefined)).toEqual([]);
    expect(lastField({ bytes: encodeUtf8("ä"), protoType: undefined })).toEqual(field(7, "ä"));
    expect(lastField({ bytes: new Uint8Array([0xff]), protoType: undefined })).toEqual(field(6, [0xff]));
    expect(lastField({ bytes: new Uint8Array([1]), protoType: "a.B" })).toEqual(
      field(8, [...field(1, "a.B"), ...field(2, [1])]),
    );
  });
});

describe("the wire format", () => {
  test("of a field that comes twice the last counts, in any order of fields", () => {
    expect(decode(...field(1, "2"), ...field(1, "3")).id).toBe("3");
    expect(faults(...REQUIRED, ...field(1, ""))).toEqual(["id INVALID_ATTRIBUTES"]);
    const shuffled = [...entry("ext", 0x08, 1), ...field(4, "t"), ...field(3, "1.0")];
    expect(faults(...shuffled, ...field(2, "/s"), ...field(1, "1"))).toEqual([]);
  });

  test("of map entries with one name the last counts, whole", () => {
    const event = decode(...entry("ext", ...field(3, "a")), ...entry("ext", 0x10, 7));
    expect(event.extensions.get("ext")).toBe("7");
    expect(faults(...REQUIRED, ...entry("ext", 0x10, 7), ...field(5, field(1, "ext")))).toEqual([
      "ext INVALID_ATTRIBUTES",
    ]);
  });

  test("an entry's value may come before its key, and a key twice", () => {
    const content = [...field(2, [0x10, 7]), ...field(1, "a"), ...field(1, "ext")];
    expect(decode(...field(5, content)).extensions).toEqual(new Map([["ext", "7"]]));
  });

  test("of the members of a oneof the last counts, and a message that comes twice is merged", () => {
    expect(extension(0x08, 1, ...field(3, "x"), 0x10, 9)).toBe("9");
    const [second, nano] = [field(7, [0x08, 1]), field(7, [0x10, 1])];
    expect(extension(...second, ...nano)).toBe("1970-01-01T00:00:01.000000001Z");
    expect(extension(...second, 0x10, 9, ...nano)).toBe("1970-01-01T00:00:00.000000001Z");
    const parts = field(5, [...field(1, "ext"), ...field(2, second), ...field(2, nano)]);
    expect(decode(...parts).extensions.get("ext")).toBe("1970-01-01T00:00:01.000000001Z");
    const [type, bytes] = [field(8, field(1, "a.B")), field(8, field(2, [1]))];
    expect(decode(...type, ...bytes).data).toEqual({ bytes: new Uint8Array([1]), protoType: "a.B" });
    expect(faults(...REQUIRED, ...type, ...field(7, "x"), ...bytes)).toEqual(["data INVALID_DATA"]);
    expect(decode(...type, ...field(6, [2])).data).toEqual({
      bytes: new Uint8Array([2]),
      protoType: undefined,
    });
  });

  test("fields that are not known are skipped, at every level", () => {
    const unknown = [
      0x78,
      ...NEGATIVE,
      0x79,
      1,
      2,
      3,
      4,
      5,
      6,
      7,
      8,
      ...field(15, [0xff]),
      0x7b,
      0x08,
      1,
      0x7c,
    ];
    const value = [...unknown, ...field(7, [...unknown, 0x08, 1]), ...unknown];
    const any = [...unknown, ...field(1, "a.B"), ...unknown];
    const event = decode(
      ...unknown,
      ...field(5, [...unknown, ...field(1, "ext"), ...field(2, value)]),
      ...field(8, any),
    );
    expect(event.extensions.get("ext")).toBe("1970-01-01T00:00:01Z");
    expect(event.data?.protoType).toBe("a.B");
  });

  test.each<[string, Bytes]>([
    ["id as a varint", [0x08, 1]],
    ["id as a fixed32", [0x0d, 1, 0, 0, 0]],
    ["type as a group", [0x23, 0x24]],
    ["an entry as a varint", [0x28, 1]],
    ["a key as a varint", field(5, [0x08, 1])],
    ["a value as a varint", field(5, [...field(1, "ext"), 0x10, 1])],
    ["ce_boolean as bytes", entry("ext", ...field(1, [1]))],
    ["ce_integer as a fixed32", entry("ext", 0x15, 1, 0, 0, 0)],
    ["ce_string as a varint", entry("ext", 0x18, 1)],
    ["seconds as bytes", entry("ext", ...field(7, field(1, [1])))],
    ["data as a varint", [0x30, 1]],
    ["a type_url as a varint", field(8, [0x08, 1])],
  ])("a known field of another wire type would be lost, so it is refused: %s", (_, bytes) => {
    expect(faults(...REQUIRED, ...bytes)).toEqual([MALFORMED]);
  });

  test.each<[string, Bytes]>([
    ["id", field(1, [0xff])],
    ["a long type", field(4, [...Array<number>(40).fill(0x61), 0xc3])],
    ["a surrogate in source", field(2, [0xed, 0xa0, 0x80])],
    ["a name", field(5, field(1, [0xc0, 0xaf]))],
    ["ce_string", entry("ext", ...field(3, [0xff]))],
    ["ce_uri", entry("ext", ...field(5, [0xff]))],
    ["ce_uri_ref", entry("ext", ...field(6, [0xff]))],
    ["text_data", field(7, [0xff])],
    ["a type_url", field(8, field(1, [0xff]))],
  ])("a string that is not UTF-8 is refused: %s", (_, bytes) => {
    expect(faults(...REQUIRED, ...bytes)).toEqual([MALFORMED]);
  });

  test.each<[string, Bytes]>([
    ["a message", [0x0a]],
    ["an entry", field(5, [0x0a, 9])],
    ["a value", entry("ext", 0x08, 0x80)],
    ["a timestamp", entry("ext", ...field(7, [0x08]))],
    ["an Any", field(8, [0x12, 9])],
  ])("what is truncated is refused: %s", (_, bytes) => {
    expect(faults(...REQUIRED, ...bytes)).toEqual([MALFORMED]);
  });
});

test("every attribute is written as its own type: time as ce_timestamp, dataschema as ce_uri, others as ce_string", () => {
  const event: CloudEvent = {
    ...decode(),
    subject: "sub",
    time: timestampFrom(-1, 1),
    dataschema: "urn:x",
    datacontenttype: "text/plain",
    extensions: new Map([["ext", "5"]]),
  };
  const bytes = encodeStructuredProtobuf(event);
  expect([...bytes]).toEqual([
    ...REQUIRED,
    ...entry("subject", ...field(3, "sub")),
    ...entry("time", ...field(7, [0x08, ...NEGATIVE, 0x10, 1])),
    ...entry("datacontenttype", ...field(3, "text/plain")),
    ...entry("dataschema", ...field(5, "urn:x")),
    ...entry("ext", ...field(3, "5")),
  ]);
  expect(bytes.length).toBe(encodedSize(event));
});
