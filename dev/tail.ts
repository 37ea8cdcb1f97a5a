import { closeSync, fstatSync, openSync, readFileSync, readSync } from "node:fs";

const LINES = 8;
const BYTES = 8192;

/** The last lines of a text, indented for a terminal. */
export function tailText(text: string): string {
  return text
    .trimEnd()
    .split("\n")
    .slice(-LINES)
    .map((line) => `    ${line}`)
    .join("\n");
}

/** The last lines of a log from this byte on, indented for a terminal, and the log's path below them. */
export function tailOf(file: string, start: number): string {
  return `${tailText(readEnd(file, start) || "(nothing was written)")}\n  log: ${file}`;
}

/** Whether a log has a line like this from this byte on. */
export function hasLine(file: string, start: number, line: RegExp): boolean {
  return line.test(readFileSync(file).subarray(start).toString("utf8"));
}

function readEnd(file: string, start: number): string {
  let handle: number;
  try {
    handle = openSync(file, "r");
  } catch {
    return "(no log was written)";
  }
  try {
    const { size } = fstatSync(handle);
    // A log that is shorter now was begun anew meanwhile.
    const own = start > size ? size : size - start;
    const buffer = Buffer.alloc(Math.min(own, BYTES));
    const read = readSync(handle, buffer, 0, buffer.length, size - buffer.length);
    return buffer.toString("utf8", 0, read);
  } finally {
    closeSync(handle);
  }
}
