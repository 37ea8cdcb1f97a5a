import { describe, expect, test } from "vitest";
import { type CloudEvent } from "./event.ts";
import { decodeKafkaRecord, encodeKafkaBinary, type KafkaHeader } from "./kafka-binary.ts";
import { type Result } from "./reason.ts";
import { encodeStructuredProtobuf } from "./structured-protobuf.ts";
import { encodeUtf8 } from "./utf8.ts";

function header(name: string, value: string): KafkaHeader {
  return [name, encodeUtf8(value)];
}

const REQUIRED = [
  header("ce_specversion", "1.0"),
  header("ce_id", "1"),
  header("ce_source", "/s"),
  header("ce_type", "t"),
];
const STRUCTURED = header("content-type", "application/cloudevents+json; charset=UTF-8");
const PROTOBUF = header("content-type", "application/cloudevents+protobuf");
const EVENT = encodeUtf8('{"specversion":"1.0","id":"2","source":"/s","type":"t","data":{"n":1.0}}');

function valueOf(result: Result<CloudEvent>): CloudEvent {
  if (!result.ok) throw new Error(JSON.stringify(result.faults));
  return result.value;
}

function decode(headers: readonly KafkaHeader[], value: Uint8Array | null = null): CloudEvent {
  return valueOf(decodeKafkaRecord({ headers: [...REQUIRED, ...headers], value }));
}

function faults(headers: readonly KafkaHeader[], value: Uint8Array | null = null): string[] {
  const result = decodeKafkaRecord({ headers, value });
  return result.ok ? [] : result.faults.map(({ field, reason }) => `${field} ${reason}`);
}

describe("Kafka binding § 3, content modes", () => {
  test("a CloudEvents media type in any case means structured mode, whatever the headers say", () => {
    for (const type of ["application/cloudevents+json", "Application/CLOUDEVENTS+Json;charset=utf-8"]) {
      expect(
        valueOf(decodeKafkaRecord({ headers: [...REQUIRED, header("content-type", type)], value: EVENT })).id,
      ).toBe("2");
    }
  });

  test("neither that nor ce_specversion: UNKNOWN_MODE", () => {
    expect(faults([])).toEqual([" UNKNOWN_MODE"]);
    expect(faults([header("content-type", "application/json"), header("ce_id", "1")], EVENT)).toEqual([
      " UNKNOWN_MODE",
    ]);
    // Names are case-sensitive on Kafka.
    expect(faults([header("CE_SPECVERSION", "1.0")], EVENT)).toEqual([" UNKNOWN_MODE"]);
  });

  test("a format that is not known, and batches, which the binding has not: UNKNOWN_MODE", () => {
    for (const type of [
      "application/cloudevents+avro",
      "application/cloudevents",
      "application/cloudevents-batch+json",
    ]) {
      expect(faults([...REQUIRED, header("content-type", type)], EVENT)).toEqual([" UNKNOWN_MODE"]);
    }
  });
});

describe("Kafka binding § 3.2, binary mode", () => {
  test("§ 3.2.1: content-type is the datacontenttype", () => {
    expect(decode([header("content-type", "application/avro")], new Uint8Array()).datacontenttype).toBe(
      "application/avro",
    );
    const repeated = [header("content-type", "a/b"), header("ce_datacontenttype", "a/b")];
    expect(decode(repeated, new Uint8Array()).datacontenttype).toBe("a/b");
    for (const headers of [
      [header("ce_datacontenttype", "a/b")],
      [header("ce_datacontenttype", "a/b"), header("content-type", "a/c")],
    ]) {
      expect(faults([...REQUIRED, ...headers])).toEqual(["datacontenttype INVALID_ATTRIBUTES"]);
    }
    expect(faults([...REQUIRED, header("content-type", "a/b"), header("content-type", "a/b")])).toEqual([
      "datacontenttype INVALID_ATTRIBUTES",
    ]);
  });

  test("§ 3.2.2: the value is the data, as it is; a null value is none, an empty one is an empty payload", () => {
    const bytes = new Uint8Array([0xff, 0]);
    expect(decode([], bytes).data).toEqual({ bytes, protoType: undefined });
    expect(decode([], new Uint8Array()).data).toEqual({ bytes: new Uint8Array(), protoType: undefined });
    expect(decode([]).data).toBeUndefined();
    expect(encodeKafkaBinary(decode([])).value).toBeNull();
    expect(encodeKafkaBinary(decode([], new Uint8Array())).value).toEqual(new Uint8Array());
  });

  test("§ 3.2.3: attributes are ce_ headers in UTF-8, other headers are none", () => {
    const event = decode([
      header("ce_subject", "größe 😀 %41"),
      header("ce_ext", ""),
      header("traceparent", "00-1"),
      ["weir-principal", null],
      ["x", new Uint8Array([0xff])],
    ]);
    expect(event.subject).toBe("größe 😀 %41");
    expect([...event.extensions]).toEqual([["ext", ""]]);
    expect(encodeKafkaBinary(event).headers).toEqual([
      ...REQUIRED,
      header("ce_subject", "größe 😀 %41"),
      header("ce_ext", ""),
    ]);
  });

  test("§ 3.2.3: a value that is null or no UTF-8, a name that comes twice or is none, is refused", () => {
    expect(faults([...REQUIRED, ["ce_x", new Uint8Array([0xff])], ["ce_y", null]])).toEqual([
      "x INVALID_ATTRIBUTES",
      "y INVALID_ATTRIBUTES",
    ]);
    for (const text of ["a\n", "\x7f", "\u0085", "\uffff", "\ufdd0"]) {
      expect(faults([...REQUIRED, header("ce_x", text)])).toEqual(["x INVALID_ATTRIBUTES"]);
    }
    expect(faults([...REQUIRED, header("ce_id", "1")])).toEqual(["id INVALID_ATTRIBUTES"]);
    expect(faults([...REQUIRED, header("ce_X", "1"), header("ce_", "1")])).toEqual([
      "X INVALID_ATTRIBUTES",
      " INVALID_ATTRIBUTES",
    ]);
    expect(faults([...REQUIRED, ["content-type", null]])).toEqual(["datacontenttype INVALID_ATTRIBUTES"]);
    expect(faults([header("ce_specversion", "0.3")])).toEqual([
      "specversion INVALID_ATTRIBUTES",
      "id INVALID_ATTRIBUTES",
      "source INVALID_ATTRIBUTES",
      "type INVALID_ATTRIBUTES",
    ]);
  });
});

describe("Kafka binding § 3.3, structured mode", () => {
  test("§ 3.3.2: the value is the event in the JSON format", () => {
    const event = valueOf(decodeKafkaRecord({ headers: [STRUCTURED], value: EVENT }));
    expect(event.data?.bytes).toEqual(encodeUtf8('{"n":1.0}'));
    expect(faults([STRUCTURED], encodeUtf8("{}"))).toEqual([
      "specversion INVALID_ATTRIBUTES",
      "id INVALID_ATTRIBUTES",
      "source INVALID_ATTRIBUTES",
      "type INVALID_ATTRIBUTES",
    ]);
  });

  test("§ 3.3.2: the value is the event in the protobuf format", () => {
    const event: CloudEvent = {
      ...decode([header("ce_ext", "5")]),
      data: { bytes: new Uint8Array([0xff]), protoType: "a.B" },
    };
    const value = encodeStructuredProtobuf(event);
    for (const type of ["application/cloudevents+protobuf", "Application/CloudEvents+PROTOBUF; v=1"]) {
      expect(valueOf(decodeKafkaRecord({ headers: [header("content-type", type)], value }))).toEqual(event);
    }
    expect(faults([PROTOBUF], EVENT)).toEqual([" MALFORMED"]);
  });

  test("§ 3.3.2: a record without a value is MALFORMED, an empty protobuf an event without attributes", () => {
    expect(faults([STRUCTURED])).toEqual([" MALFORMED"]);
    expect(faults([STRUCTURED], new Uint8Array())).toEqual([" MALFORMED"]);
    expect(faults([PROTOBUF])).toEqual([" MALFORMED"]);
    expect(faults([PROTOBUF], new Uint8Array())).toContain("id INVALID_ATTRIBUTES");
  });

  test("§ 3.3.1: a content-type that comes twice is MALFORMED", () => {
    expect(faults([STRUCTURED, STRUCTURED], EVENT)).toEqual([" MALFORMED"]);
    expect(faults([PROTOBUF, STRUCTURED], EVENT)).toEqual([" MALFORMED"]);
  });

  test("§ 3.3.3: headers beside it are not looked at", () => {
    const headers = [STRUCTURED, header("ce_id", "other"), header("ce_X", "")];
    expect(valueOf(decodeKafkaRecord({ headers, value: EVENT })).id).toBe("2");
  });

  test("an event whose payload is a CloudEvent travels in it, its type URL beside", () => {
    const event: CloudEvent = {
      ...decode([]),
      datacontenttype: "application/CloudEvents+protobuf",
      data: { bytes: new Uint8Array([0xff]), protoType: "type.googleapis.com/io.cloudevents.v1.CloudEvent" },
    };
    const record = encodeKafkaBinary(event);
    expect(record.headers[0]).toEqual(header("content-type", "application/cloudevents+json"));
    expect(valueOf(decodeKafkaRecord(record))).toEqual(event);
  });
});

describe("the header weir-data-type", () => {
  test("carries the type URL of proto_data", () => {
    const event = decode([header("weir-data-type", "type.googleapis.com/a.B")], new Uint8Array([1]));
    expect(event.data).toEqual({ bytes: new Uint8Array([1]), protoType: "type.googleapis.com/a.B" });
  });

  test("is refused where it has no data to speak of, comes twice, or is no type URL", () => {
    const type = header("weir-data-type", "a.B");
    const value = new Uint8Array([1]);
    expect(faults([...REQUIRED, type])).toEqual(["data INVALID_DATA"]);
    expect(faults([...REQUIRED, type, type], value)).toEqual(["data INVALID_DATA"]);
    expect(faults([...REQUIRED, ["weir-data-type", null]], value)).toEqual(["data INVALID_DATA"]);
    expect(faults([...REQUIRED, ["weir-data-type", new Uint8Array([0xff])]], value)).toEqual([
      "data INVALID_DATA",
    ]);
    for (const text of ["", "a B"]) {
      expect(faults([...REQUIRED, header("weir-data-type", text)], value)).toEqual(["data INVALID_DATA"]);
    }
  });
});
