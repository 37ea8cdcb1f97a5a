import { describe, expect, test } from "vitest";
import { type Decoded } from "./attributes.ts";
import { decodeBatchJson, encodeBatchJson } from "./batch-json.ts";
import { type Result } from "./reason.ts";
import { decodeStructuredJson } from "./structured-json.ts";
import { decodeUtf8, encodeUtf8 } from "./utf8.ts";

const A =
  '{"specversion":"1.0","id":"a","source":"/s","type":"t","datacontenttype":"text/plain","data":"\\n"}';
const B = '{"specversion":"1.0","id":"bä","source":"/s","type":"t","data":{"n": 1.0}}';

function decode(text: string, maxEvents = 10): Result<readonly Decoded[]> {
  return decodeBatchJson(encodeUtf8(text), maxEvents);
}

function refusal(result: Result<unknown>): unknown {
  return result.ok ? undefined : result.faults;
}

describe("JSON format § 4, batch", () => {
  test("§ 4.1: is an array of events in the JSON format, each decoded as it would be by itself", () => {
    const events = [A, B].map((text) => decodeStructuredJson(encodeUtf8(text)));
    expect(events.map(({ ok }) => ok)).toEqual([true, true]);
    expect(decode(` [ ${A}\n,${B} ] `)).toEqual({ ok: true, value: events });
    // Without the letter that is not ASCII payloads are found in another way.
    expect(decode(`[${A}]`)).toEqual({ ok: true, value: [events[0]] });
  });

  test("§ 4.3: may be empty", () => {
    expect(decode("[]")).toEqual({ ok: true, value: [] });
    expect(decodeUtf8(encodeBatchJson([]))).toBe("[]");
  });

  test("one that is at fault, or is no object, spoils no other", () => {
    const result = decode(`[${A}, {"id":""}, 1, "x", null, [{}], ${B}]`);
    expect(result.ok && result.value.map(({ ok }) => ok)).toEqual([
      true,
      ...Array<boolean>(5).fill(false),
      true,
    ]);
    const reasons = result.ok ? result.value.map((event) => (event.ok ? "" : event.faults[0].reason)) : [];
    expect(reasons.slice(1, 6)).toEqual(["INVALID_ATTRIBUTES", ...Array<string>(4).fill("MALFORMED")]);
  });

  test.each(["", "{}", A, "[", "[{]", `[${A},]`, `[${A}] ${A}`, '[{"a":1 "b":2}]', "[{'a':1}]", "nul"])(
    "%s is refused whole",
    (text) => {
      expect(refusal(decode(text))).toMatchObject([{ field: "", reason: "MALFORMED" }]);
    },
  );

  test("what is not UTF-8 is refused whole", () => {
    expect(refusal(decodeBatchJson(new Uint8Array([0x5b, 0x22, 0xff, 0x22, 0x5d]), 10))).toMatchObject([
      { field: "", reason: "MALFORMED" },
    ]);
  });

  test("more events than are taken are counted and refused whole, and what is no JSON after them too", () => {
    expect(decode(`[${A},${B}]`, 2).ok).toBe(true);
    expect(refusal(decode(`[${A},1,{}]`, 2))).toMatchObject([
      { field: "", reason: "TOO_LARGE", metadata: { limit: "2", actual: "3", unit: "events" } },
    ]);
    expect(refusal(decode(`[${A},1,{]`, 2))).toMatchObject([{ field: "", reason: "MALFORMED" }]);
  });
});
