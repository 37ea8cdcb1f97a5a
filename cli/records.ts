import { isUtf8 } from "node:buffer";

import { parseCloudEvent, type ParsedEvent } from "../sdk/index.ts";
import { createCsvRow } from "./csv.ts";
import { type Line, MAX_RECORD_BYTES, readLines } from "./lines.ts";
import { UsageError } from "./usage-error.ts";

/** One event of an input, or what should have been one. */
export interface InputRecord {
  /** The line of the input on which it ends, from 1. */
  readonly line: number;
  /** Its bytes, as they stand there; of one that is too long the first. */
  readonly raw: Buffer;
  /** How many bytes of the input have been read with it. */
  readonly position: number;
  parse(): ParsedEvent;
}

/** What an input is written in. */
export type Format = "ndjson" | "csv";

const ATTRIBUTE_NAME = /^[a-z0-9]+$/;
const NEWLINE = Buffer.from("\n");
const BYTE_ORDER_MARK = Buffer.from("\ufeff");

const TOO_LONG: ParsedEvent = refusal(
  "The line is longer than 16 MiB: is there one event on each line? What is kept of it are its first 1,024 bytes.",
  "TOO_LARGE",
);

/**
 * The records of an input. One that is no event, whatever stands there, ends none of those after it. Throws a UsageError
 * for what is no such input at all.
 */
export function readRecords(input: AsyncIterable<Buffer>, format: Format): AsyncIterable<InputRecord> {
  return format === "csv" ? readCsv(readLines(input)) : readNdjson(readLines(input));
}

/** A CloudEvent in the JSON format on each line; blank lines are passed over. */
async function* readNdjson(lines: AsyncIterable<Line>): AsyncGenerator<InputRecord> {
  for await (const line of lines) {
    if (line.bytes.toString("latin1").trim() === "" && !line.isCut) continue;
    const record = recordOf([line], () => (line.isCut ? TOO_LONG : parseCloudEvent(record.raw)));
    yield record;
  }
}

/** A header of attribute names, `data` among them, and a row for each event; an empty cell is an absent attribute. */
async function* readCsv(lines: AsyncIterable<Line>): AsyncGenerator<InputRecord> {
  let names: readonly string[] | undefined;
  for await (const row of readRows(lines)) {
    if (names === undefined) names = headerOf(row);
    else {
      const columns = names;
      yield recordOf(row.lines, () => parseRow(columns, row));
    }
  }
  if (names === undefined)
    throw new UsageError("The input is empty: CSV begins with a row of attribute names.");
}

/** The cells of a row, or why it has none. */
interface Row {
  readonly lines: readonly Line[];
  readonly cells?: readonly string[];
  readonly fault?: string;
}

/**
 * The rows of a table. Where quotes do not fit together nobody knows where the row was meant to end, so it is given up
 * with its first line alone, and the next begins on the line after: one stray quote does not take the rest along.
 */
async function* readRows(lines: AsyncIterable<Line>): AsyncGenerator<Row> {
  let open: Line[] = [];
  let row = createCsvRow();
  let bytes = 0;
  /** Ends the row, and gives its lines. */
  const end = (): readonly Line[] => {
    const ended = open;
    [open, row, bytes] = [[], createCsvRow(), 0];
    return ended;
  };
  function* add(line: Line): Generator<Row> {
    if (open.length === 0 && withoutReturn(line.bytes).length === 0) return;
    open.push(line);
    bytes += line.bytes.length;
    if (line.isCut || bytes > MAX_RECORD_BYTES)
      yield* giveUp("The row is longer than 16 MiB: is a quote missing?");
    else if (!isUtf8(line.bytes)) yield* giveUp("The row is not UTF-8.");
    else {
      const { cells, fault } = row.add(line.bytes.toString("utf8"));
      if (fault !== undefined) yield* giveUp(fault);
      else if (cells !== undefined) yield { lines: end(), cells };
    }
  }
  function* giveUp(fault: string): Generator<Row> {
    const [first, ...rest] = end();
    yield { lines: [first!], fault };
    for (const line of rest) yield* add(line);
  }
  let isFirst = true;
  for await (const line of lines) {
    yield* add(isFirst ? withoutMark(line) : line);
    isFirst = false;
  }
  while (open.length > 0) yield* giveUp("A quote begins a cell, and none ends it.");
}

function recordOf(lines: readonly Line[], parse: () => ParsedEvent): InputRecord {
  const last = lines.at(-1)!;
  const bytes = lines.flatMap((line, index) => (index === 0 ? [line.bytes] : [NEWLINE, line.bytes]));
  const raw = withoutReturn(lines.length === 1 ? last.bytes : Buffer.concat(bytes));
  return { line: last.number, raw, position: last.position, parse };
}

function withoutReturn(bytes: Buffer): Buffer {
  return bytes.at(-1) === 0x0d ? bytes.subarray(0, -1) : bytes;
}

function withoutMark(line: Line): Line {
  const isMarked = line.bytes.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK);
  return isMarked ? { ...line, bytes: line.bytes.subarray(BYTE_ORDER_MARK.length) } : line;
}

function refusal(description: string, reason: "MALFORMED" | "TOO_LARGE" = "MALFORMED"): ParsedEvent {
  return { violations: [{ field: "", description, reason }] };
}

function headerOf({ cells = [], fault }: Row): readonly string[] {
  if (fault !== undefined) throw new UsageError(`The input is no CSV: of the first row: ${fault}`);
  const wrong = cells.find((name, index) => !ATTRIBUTE_NAME.test(name) || cells.indexOf(name) !== index);
  if (wrong !== undefined) {
    throw new UsageError(
      `The input is no CSV: the first row must have names of attributes, each once, of lower-case letters and digits; it has ${JSON.stringify(wrong)}`,
    );
  }
  return cells;
}

function parseRow(names: readonly string[], { cells = [], fault }: Row): ParsedEvent {
  if (fault !== undefined) return refusal(fault);
  if (cells.length !== names.length) {
    return refusal(`The row has ${String(cells.length)} cells, and the header ${String(names.length)}.`);
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
