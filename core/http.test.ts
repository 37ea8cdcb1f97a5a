import { describe, expect, test } from "vitest";
import { BATCH_JSON, encodeBatchJson } from "./batch-json.ts";
import { BATCH_PROTOBUF, encodeBatchProtobuf } from "./batch-protobuf.ts";
import { type CloudEvent } from "./event.ts";
import { decodeHttp, type HttpEvents } from "./http.ts";
import { type HttpHeaders } from "./http-binary.ts";
import { encodeStructuredJson, STRUCTURED_JSON } from "./structured-json.ts";
import { encodeStructuredProtobuf, STRUCTURED_PROTOBUF } from "./structured-protobuf.ts";
import { encodeUtf8 } from "./utf8.ts";

const EVENT: CloudEvent = {
  id: "1",
  source: "/s",
  type: "t",
  subject: "größe",
  time: undefined,
  datacontenttype: "application/json",
  dataschema: undefined,
  extensions: new Map([["ext", "5"]]),
  data: { bytes: encodeUtf8('{"n": 1.0}'), protoType: undefined },
};
const DECODED = { ok: true, value: EVENT };
const ATTRIBUTES: HttpHeaders = [
  ["ce-specversion", "1.0"],
  ["ce-id", "2"],
  ["ce-source", "/s"],
  ["ce-type", "t"],
];

function decode(contentType: string | readonly string[], body: Uint8Array): ReturnType<typeof decodeHttp> {
  const types = [contentType].flat().map((value) => ["content-type", value] as const);
  return decodeHttp([...ATTRIBUTES, ...types], body, { maxEvents: 2 });
}

function valueOf(result: ReturnType<typeof decodeHttp>): HttpEvents {
  if (!result.ok) throw new Error(JSON.stringify(result.faults));
  return result.value;
}

function reasonOf(result: ReturnType<typeof decodeHttp>): string {
  return result.ok ? "" : result.faults.map(({ field, reason }) => field + reason).join();
}

describe("HTTP binding § 3, the content mode is told by the content type", () => {
  test.each([
    ["json", [STRUCTURED_JSON, "Application/CloudEvents+JSON", `${STRUCTURED_JSON}; charset=UTF-8`]],
    ["protobuf", [STRUCTURED_PROTOBUF, "APPLICATION/CLOUDEVENTS+PROTOBUF;v=1"]],
  ])(
    "§ 3.2: one event in %s, in any case, with any parameters, whatever the ce- headers say",
    (format, types) => {
      const body = format === "json" ? encodeStructuredJson(EVENT) : encodeStructuredProtobuf(EVENT);
      for (const type of types) {
        expect(valueOf(decode(type, body))).toEqual({ mode: "structured", format, event: DECODED });
      }
    },
  );

  test.each([
    ["json", [BATCH_JSON, "Application/CloudEvents-Batch+JSON", `${BATCH_JSON} ;charset="utf-8"`]],
    ["protobuf", [BATCH_PROTOBUF, "application/CLOUDEVENTS-batch+Protobuf; a=b"]],
  ])("§ 3.3: a batch in %s", (format, types) => {
    const body = format === "json" ? encodeBatchJson([EVENT, EVENT]) : encodeBatchProtobuf([EVENT, EVENT]);
    for (const type of types) {
      expect(valueOf(decode(type, body))).toEqual({ mode: "batch", format, events: [DECODED, DECODED] });
    }
  });

  test("§ 3.1: any other, or none, is binary mode where ce-specversion is there", () => {
    const body = encodeUtf8("<a/>");
    for (const type of ["text/xml", "application/vnd.cloudevents+json", []]) {
      const read = valueOf(decode(type, body));
      expect(read).toMatchObject({
        mode: "binary",
        event: { ok: true, value: { id: "2", data: { bytes: body } } },
      });
    }
  });

  test("a message that is no CloudEvent is UNKNOWN_MODE, and a format that is not known UNSUPPORTED_MEDIA_TYPE", () => {
    const body = encodeStructuredJson(EVENT);
    const plain: HttpHeaders = [
      ["content-type", "application/json"],
      ["ce-id", "1"],
    ];
    expect(reasonOf(decodeHttp(plain, body, { maxEvents: 1 }))).toBe("UNKNOWN_MODE");
    expect(reasonOf(decode("application/cloudeventsx+json", body))).toBe("UNKNOWN_MODE");
    for (const type of ["+avro", "-batch+avro", "", "-batch", "+json+x"]) {
      expect(reasonOf(decode(`application/cloudevents${type}`, body))).toBe("UNSUPPORTED_MEDIA_TYPE");
    }
  });

  test("a content type that comes twice is refused, in every mode", () => {
    const body = encodeStructuredJson(EVENT);
    for (const type of [STRUCTURED_JSON, STRUCTURED_PROTOBUF, BATCH_JSON, BATCH_PROTOBUF]) {
      expect(reasonOf(decode([type, type], body))).toBe("MALFORMED");
      expect(reasonOf(decode([type, "text/plain"], body))).toBe("MALFORMED");
    }
    expect(valueOf(decode(["text/plain", STRUCTURED_JSON], body))).toMatchObject({
      mode: "binary",
      event: { ok: false, faults: [{ field: "datacontenttype", reason: "INVALID_ATTRIBUTES" }] },
    });
  });
});

test("§ 3.2.3: the attributes of a structured event are in its payload, and headers do not stand in for them", () => {
  const body = encodeUtf8('{"specversion":"1.0","source":"/s","type":"t"}');
  expect(valueOf(decode(STRUCTURED_JSON, body))).toMatchObject({
    event: { ok: false, faults: [{ field: "id", reason: "INVALID_ATTRIBUTES" }] },
  });
});

test("§ 3.3.2: a batch may be empty, and each of its events has the specversion 1.0", () => {
  expect(valueOf(decode(BATCH_JSON, encodeUtf8("[]")))).toMatchObject({ events: [] });
  const body = encodeUtf8('[{"specversion":"0.3","id":"1","source":"/s","type":"t"}]');
  expect(valueOf(decode(BATCH_JSON, body))).toMatchObject({
    events: [{ ok: false, faults: [{ field: "specversion", reason: "INVALID_ATTRIBUTES" }] }],
  });
});

test("a batch of more events than are taken is refused whole", () => {
  const many = [EVENT, EVENT, EVENT];
  expect(reasonOf(decode(BATCH_JSON, encodeBatchJson(many)))).toBe("TOO_LARGE");
  expect(reasonOf(decode(BATCH_PROTOBUF, encodeBatchProtobuf(many)))).toBe("TOO_LARGE");
});
