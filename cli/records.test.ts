import fc from "fast-check";
import { expect, test } from "vitest";
import { attributeOf, dataOf } from "../sdk/index.ts";
import { type Format, type InputRecord, readRecords } from "./records.ts";

/** An input in chunks of so many bytes. */
async function* chunks(input: Buffer | string, size: number): AsyncGenerator<Buffer> {
  const bytes = Buffer.from(input);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function read(input: Buffer | string, format: Format, size = 7): Promise<InputRecord[]> {
  const records: InputRecord[] = [];
  for await (const record of readRecords(chunks(input, size), format)) records.push(record);
  return records;
}

const line = (id: string): string =>
  `{"specversion":"1.0","id":"${id}","source":"/","type":"t","data":"grün"}`;

test("reads a line after the other, whatever ends them, and passes over blank ones", async () => {
  const records = await read(`${line("a")}\r\n\n \n${line("b")}\nnonsense\n${line("c")}`, "ndjson");
  expect(records.map((record) => record.line)).toEqual([1, 4, 5, 6]);
  expect(records.map((record) => record.parse().event?.id)).toEqual(["a", "b", undefined, "c"]);
  expect(records[2]?.parse().violations).toMatchObject([{ reason: "MALFORMED" }]);
  expect(records[0]?.raw.toString()).toBe(line("a"));
});

test("says that bytes are no UTF-8 instead of replacing them", async () => {
  const [record] = await read(
    Buffer.concat([Buffer.from('{"id":"'), Buffer.from([0xff]), Buffer.from('"}\n')]),
    "ndjson",
  );
  expect(record?.parse().violations).toMatchObject([{ reason: "MALFORMED" }]);
  await expect(read(Buffer.from([0x69, 0x64, 0x0a, 0xff, 0x0a]), "csv")).rejects.toThrow(/no CSV/);
});

test("gives the same lines however they are cut into chunks", async () => {
  const lines = fc.array(fc.string({ unit: "binary" }).map((text) => text.replaceAll(/[\r\n]/g, "")));
  await fc.assert(
    fc.asyncProperty(lines, fc.integer({ min: 1, max: 9 }), async (texts, size) => {
      const bytes = Buffer.from(texts.join("\n"));
      const wanted = bytes
        .toString()
        .split("\n")
        .filter((text) => Buffer.from(text).toString("latin1").trim() !== "");
      expect((await read(bytes, "ndjson", size)).map(({ raw }) => raw.toString())).toEqual(wanted);
    }),
  );
});

test("refuses a line without end", async () => {
  await expect(read(Buffer.alloc(17 * 1024 * 1024, "x"), "ndjson", 1 << 20)).rejects.toThrow(
    "longer than 16 MiB",
  );
});

test("reads rows of attributes, quoted ones over several lines too", async () => {
  const csv = `\ufeffid,source,type,time,severitytext,datacontenttype,data
1,/shop,com.acme.order,2026-11-01T10:30:00.25+01:00,WARN,application/json,"{""a"": 1.0,
 ""b"": 12345678901234567890}"
2,/shop,com.acme.order,2026-11-01T09:30:00Z,,,
3,/shop
`;
  const records = await read(csv, "csv", 11);
  const [first, second, third] = records.map((record) => record.parse());
  expect(new TextDecoder().decode(dataOf(first?.event))).toBe('{"a": 1.0,\n "b": 12345678901234567890}');
  const names = ["time", "severitytext", "datacontenttype"];
  expect(names.map((name) => attributeOf(first?.event, name))).toEqual([
    "2026-11-01T10:30:00.25+01:00",
    "WARN",
    "application/json",
  ]);
  expect(names.map((name) => attributeOf(second?.event, name))).toEqual([
    "2026-11-01T09:30:00Z",
    undefined,
    undefined,
  ]);
  expect(dataOf(second?.event)).toBeUndefined();
  expect(third?.violations).toMatchObject([
    { reason: "MALFORMED", description: "The row has 2 cells, and the header 7." },
  ]);
  expect(records.map((record) => record.line)).toEqual([3, 4, 5]);
  expect(records[1]?.raw.toString()).toBe("2,/shop,com.acme.order,2026-11-01T09:30:00Z,,,");
});

test.each([
  ["", "The input is empty"],
  ["id,Source\n", 'it has "Source"'],
  ["id,id\n", 'it has "id"'],
  ['id\n"never ends', "no CSV"],
])("refuses the CSV %j", async (csv, message) => {
  await expect(read(csv, "csv")).rejects.toThrow(message);
});
