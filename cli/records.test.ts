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
  const [row] = await read(Buffer.from([0x69, 0x64, 0x0a, 0xff, 0x0a]), "csv");
  expect(row?.parse().violations).toMatchObject([
    { reason: "MALFORMED", description: "The row is not UTF-8." },
  ]);
  expect(row?.raw).toEqual(Buffer.from([0xff]));
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

test.each(["ndjson", "csv"] as const)(
  "refuses a line of %s without end, holds little of it, and goes on after it",
  async (format) => {
    const [before, after] = format === "ndjson" ? [line("a"), line("b")] : ["id,source,type\na,/,t", "b,/,t"];
    const giant = Buffer.alloc(40 * 1024 * 1024, "x");
    const records = await read(
      Buffer.concat([Buffer.from(`${before}\n`), giant, Buffer.from(`\n${after}`)]),
      format,
      1 << 20,
    );
    expect(records.map((record) => record.parse().event?.id)).toEqual(["a", undefined, "b"]);
    expect(records[1]?.parse().violations?.[0]?.description).toContain("longer than 16 MiB");
    expect(records[1]?.raw).toEqual(giant.subarray(0, 1024));
    expect(records[2]?.position).toBe(giant.length + Buffer.byteLength(`${before}${after}`) + 2);
  },
);

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
  ['id,"source\n1,2\n', "no CSV"],
  ['id,sou"rce"\n', "no CSV"],
])("refuses the CSV %j", async (csv, message) => {
  await expect(read(csv, "csv")).rejects.toThrow(message);
});

/** A row as RFC 4180 writes it. */
function rowOf(cells: readonly string[]): string {
  const written = cells.map((cell) => (/[",\n\r]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell));
  return written.join(",");
}

test("reads back every table that is written, however it is cut into chunks", async () => {
  const cell = fc.string({ unit: fc.constantFrom("a", "ü", '"', ",", "\n", "\r", " ") });
  await fc.assert(
    fc.asyncProperty(
      fc.array(cell, { maxLength: 8 }),
      fc.integer({ min: 1, max: 9 }),
      fc.constantFrom("\n", "\r\n"),
      async (cells, size, end) => {
        const rows = [["id", "source", "data", "type"], ...cells.map((each) => ["1", "/", each, "t"])];
        const records = await read(rows.map((row) => `${rowOf(row)}${end}`).join(""), "csv", size);
        expect(records.map((record) => record.raw.toString())).toEqual(rows.slice(1).map(rowOf));
        const data = records.map((record) => dataOf(record.parse().event) ?? new Uint8Array());
        expect(data.map((bytes) => new TextDecoder().decode(bytes))).toEqual(cells);
      },
    ),
  );
});

test("reads every row behind one whose quotes do not fit together", async () => {
  const good = (id: number): string => rowOf([`g${String(id)}`, "/", "t", "", 'two\nlines, "quoted"']);
  const bad = fc.constantFrom(
    '2,"a"b,/,t,',
    '2,a"b",/,t,',
    '2,"a,/,t,',
    '"',
    '""",',
    '2,/,t,x,"two\nlines "quoted"',
    "\u0000",
    "2,/",
  );
  const lines = fc.array(fc.oneof(fc.integer({ min: 0, max: 99 }), bad), { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(lines, fc.integer({ min: 1, max: 9 }), async (given, size) => {
      const rows = given.map((each) => (typeof each === "number" ? good(each) : each));
      const csv = ["id,source,type,subject,data", ...rows].join("\n");
      const records = await read(csv, "csv", size);
      const ids = records.flatMap((record) => record.parse().event?.id ?? []);
      const wanted = given.flatMap((each) => (typeof each === "number" ? [`g${String(each)}`] : []));
      expect(ids).toEqual(wanted);
      // Nothing is passed over: all that was read is in the records.
      expect(records.map((record) => record.raw.toString()).join("\n")).toBe(rows.join("\n"));
    }),
  );
});

test("gives up the first line alone of a row that goes wrong", async () => {
  const csv = 'id,source,type\n1,"/,t\n2,/,t\n3,"/",t\n4,/,"t\n5,/,t\n';
  const records = await read(csv, "csv");
  expect(records.map((record) => record.parse().event?.id)).toEqual([undefined, "2", "3", undefined, "5"]);
  expect(records.map((record) => record.line)).toEqual([2, 3, 4, 5, 6]);
  expect(records[0]?.parse().violations).toMatchObject([
    { description: expect.stringContaining("Something stands between the quote") as string },
  ]);
  expect(records[3]?.parse().violations).toMatchObject([
    { description: expect.stringContaining("none ends it") as string },
  ]);
});
