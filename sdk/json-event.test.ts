import fc from "fast-check";
import { expect, test } from "vitest";
import { encodeStructuredJson } from "../core/structured-json.ts";
import { attributeOf, cloudEvent, dataOf } from "./cloud-event.ts";
import { formatCloudEvent, parseCloudEvent } from "./json-event.ts";

const text = (bytes: Uint8Array | undefined): string => new TextDecoder().decode(bytes);
const encoded = (json: string): Uint8Array => new TextEncoder().encode(json);
const indented = (json: string): string => JSON.stringify(JSON.parse(json), undefined, "\r\n\t");

test("reads every attribute, and JSON data as they are written", () => {
  const data = '{"total": 12345678901234567890, "rate": 1.0e3, "rate": null}';
  const { event } = parseCloudEvent(`{"specversion":"1.0","id":"1","source":"/shop","type":"t","subject":"s",
    "time":"2026-11-01T10:30:00.123456789+01:00","dataschema":"https://a.example/s","flag":true,"n":-7,"data":${data}}`);
  expect([event?.id, event?.source, event?.specVersion, event?.type]).toEqual(["1", "/shop", "1.0", "t"]);
  const names = ["subject", "time", "datacontenttype", "dataschema", "flag", "n", "id"];
  expect(names.map((name) => attributeOf(event, name))).toEqual([
    "s",
    "2026-11-01T10:30:00.123456789+01:00",
    "application/json",
    "https://a.example/s",
    "true",
    "-7",
    undefined,
  ]);
  expect(text(dataOf(event))).toBe(data);
});

test.each([
  ["2026-11-01T09:30:00Z", "ceTimestamp"],
  ["2026-11-01T09:30:00.500Z", "ceTimestamp"],
  ["2026-11-01T09:30:54.5Z", "ceString"],
  ["2026-11-01T09:30:54.5+00:00", "ceString"],
  ["2026-11-01T09:30:54-00:00", "ceString"],
  ["2026-11-01t09:30:54z", "ceString"],
  ["2026-11-01T09:30:54.1234567890123Z", "ceString"],
])("keeps the text of the time %s, as a %s", (time, form) => {
  const json = `{"specversion":"1.0","id":"1","source":"/","type":"t","time":"${time}"}`;
  const { event } = parseCloudEvent(json);
  expect([event?.attributes["time"]?.attr.case, attributeOf(event, "time")]).toEqual([form, time]);
  expect(formatCloudEvent(event!)).toBe(json);
});

test("reads bytes, and tells none from empty", () => {
  const read = (member: string): Uint8Array | undefined =>
    dataOf(parseCloudEvent(`{"specversion":"1.0","id":"1","source":"/","type":"t"${member}}`).event);
  expect(read(',"data_base64":"AP8="')).toEqual(new Uint8Array([0x00, 0xff]));
  expect(read(',"data_base64":""')).toEqual(new Uint8Array());
  expect(read("")).toBeUndefined();
});

test("names every fault", () => {
  const { event, violations } = parseCloudEvent('{"specversion":"0.3","id":"","source":"/","Bad":1}');
  expect(event).toBeUndefined();
  expect(violations?.map(({ field }) => field).toSorted()).toEqual(["Bad", "id", "specversion", "type"]);
  expect(parseCloudEvent("[]").violations).toMatchObject([{ field: "", reason: "MALFORMED" }]);
  expect(parseCloudEvent(new Uint8Array([0xff])).violations).toMatchObject([{ reason: "MALFORMED" }]);
});

test("gives back what was written, whatever the data", () => {
  fc.assert(
    fc.property(fc.uint8Array(), fc.string({ unit: "grapheme-ascii", minLength: 1 }), (bytes, id) => {
      const event = {
        id,
        source: "/",
        type: "t",
        subject: undefined,
        time: undefined,
        datacontenttype: undefined,
        dataschema: undefined,
        extensions: new Map(),
        data: { bytes, protoType: undefined },
      };
      const read = parseCloudEvent(encodeStructuredJson(event)).event;
      expect([read?.id, dataOf(read)]).toEqual([id, bytes]);
    }),
  );
});

test("writes on one line what is read back, byte for byte, whatever the data", () => {
  const types = [undefined, "application/json", "text/plain", "application/octet-stream"];
  const payloads = fc.oneof(
    fc.uint8Array(),
    fc.json().map(encoded),
    fc.json().map((json) => encoded(indented(json))),
  );
  fc.assert(
    fc.property(
      fc.constantFrom(...types),
      fc.option(payloads, { nil: undefined }),
      (datacontenttype, data) => {
        const event = cloudEvent({
          id: "1",
          source: "/s",
          type: "t",
          time: "2026-11-01T09:30:00.123456789Z",
          subject: 'a "b" ü',
          dataschema: "https://a.example/s",
          extensions: { flag: true, n: -7, at: new Date(0) },
          datacontenttype,
          data,
        });
        const line = formatCloudEvent(event);
        expect(line).not.toMatch(/[\n\r]/);
        const read = parseCloudEvent(line).event;
        const names = ["subject", "time", "dataschema", "datacontenttype", "flag", "n", "at"];
        expect(names.map((name) => attributeOf(read, name))).toEqual(
          names.map((name) => attributeOf(event, name)),
        );
        expect([read?.id, read?.source, read?.type, dataOf(read)]).toEqual(["1", "/s", "t", dataOf(event)]);
      },
    ),
  );
});

test("refuses to write what is no CloudEvent, and says why", () => {
  const event = cloudEvent({ id: "", source: "/", type: "", time: new Date() });
  expect(() => formatCloudEvent(event)).toThrow(/id.*type/i);
});

test("never throws", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.uint8Array(), fc.json()), (input) => {
      const { event, violations = [] } = parseCloudEvent(input);
      expect(event === undefined ? violations.length : 1).toBeGreaterThan(0);
    }),
  );
});
