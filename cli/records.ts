import { parse } from "csv-parse";

import { parseCloudEvent, type ParsedEvent } from "../sdk/index.ts";
import { UsageError } from "./usage-error.ts";

/** One event of an input, or what should have been one. */
export interface InputRecord {
  /** The line of the input on which it ends, from 1. */
  readonly line: number;
  /** Its bytes, as they stand there. */
  readonly raw: Buffer;
  /** How many bytes of the input have been read with it. */
  readonly position: number;
  parse(): ParsedEvent;
}

/** What an input is written in. */
export type Format = "ndjson" | "csv";

/** No record is longer; an event of Weir's is far smaller. */
const MAX_RECORD_BYTES = 16 * 1024 * 1024;
const NEWLINE = 0x0a;
const ATTRIBUTE_NAME = /^[a-z0-9]+$/;

/** The records of an input. Throws a UsageError for what is no such input at all. */
export function readRecords(input: AsyncIterable<Buffer>, format: Format): AsyncIterable<InputRecord> {
  return format === "csv" ? readCsv(input) : readNdjson(input);
}

/** A CloudEvent in the JSON format on each line; blank lines are passed over. */
async function* readNdjson(input: AsyncIterable<Buffer>): AsyncGenerator<InputRecord> {
  let [line, position] = [0, 0];
  const record = (bytes: Buffer): InputRecord[] => {
    line += 1;
    position += bytes.length + 1;
    const raw = bytes.at(-1) === 0x0d ? bytes.subarray(0, -1) : bytes;
    return raw.toString("latin1").trim() === ""
      ? []
      : [{ line, raw, position, parse: () => parseCloudEvent(raw) }];
  };
  // The parts of a line that goes on in the next chunk.
  let parts: Buffer[] = [];
  let length = 0;
  for await (const chunk of input) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      yield* record(Buffer.concat([...parts, chunk.subarray(start, end)]));
      [parts, length, start] = [[], 0, end + 1];
    }
    parts.push(chunk.subarray(start));
    length += chunk.length - start;
    if (length > MAX_RECORD_BYTES) {
      throw new UsageError(
        `Line ${String(line + 1)} is longer than 16 MiB: is there one event on each line?`,
      );
    }
  }
  if (length > 0) yield* record(Buffer.concat(parts));
}

/** A header of attribute names, `data` among them, and a row for each event; an empty cell is an absent attribute. */
async function* readCsv(input: AsyncIterable<Buffer>): AsyncGenerator<InputRecord> {
  const parser = parse({
    bom: true,
    info: true,
    raw: true,
    skip_empty_lines: true,
    relax_column_count: true,
    max_record_size: MAX_RECORD_BYTES,
  });
  const feeding = feed(input, parser);
  let names: readonly string[] | undefined;
  try {
    for await (const row of parser as AsyncIterable<CsvRow>) {
      if (names === undefined) {
        names = headerOf(row.record);
        continue;
      }
      const columns = names;
      yield {
        line: row.info.lines,
        raw: Buffer.from(row.raw.replace(/\r?\n$/, "")),
        position: row.info.bytes,
        parse: () => parseRow(columns, row.record),
      };
    }
  } catch (error) {
    throw new UsageError(`The input is no CSV: ${(error as Error).message}`);
  }
  await feeding;
  if (names === undefined)
    throw new UsageError("The input is empty: CSV begins with a row of attribute names.");
}

interface CsvRow {
  readonly record: readonly string[];
  readonly raw: string;
  readonly info: { readonly lines: number; readonly bytes: number };
}

/** Writes the input into the parser, as text; what is not UTF-8 ends it. */
async function feed(input: AsyncIterable<Buffer>, parser: ReturnType<typeof parse>): Promise<void> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  try {
    for await (const chunk of input) {
      if (parser.destroyed) return;
      if (!parser.write(decoder.decode(chunk, { stream: true }))) {
        await new Promise<void>((resolve) => parser.once("drain", resolve).once("close", resolve));
      }
    }
    parser.end(decoder.decode());
  } catch (error) {
    parser.destroy(error as Error);
  }
}

function headerOf(names: readonly string[]): readonly string[] {
  const wrong = names.find((name, index) => !ATTRIBUTE_NAME.test(name) || names.indexOf(name) !== index);
  if (wrong !== undefined) {
    throw new Error(
      `the first row must have names of attributes, each once, of lower-case letters and digits; it has ${JSON.stringify(wrong)}`,
    );
  }
  return names;
}

function parseRow(names: readonly string[], cells: readonly string[]): ParsedEvent {
  if (cells.length !== names.length) {
    const description = `The row has ${String(cells.length)} cells, and the header ${String(names.length)}.`;
    return { violations: [{ field: "", description, reason: "MALFORMED" }] };
  }
  const given = names
    .map((name, index) => [name, cells[index] ?? ""] as const)
    .filter(([, cell]) => cell !== "");
  const members = given.map(([name, cell]) =>
    // The payload is the cell's text, whatever its type says.
    name === "data" ? ["data_base64", Buffer.from(cell).toString("base64")] : [name, cell],
  );
  return parseCloudEvent(JSON.stringify({ specversion: "1.0", ...Object.fromEntries(members) }));
}
