import { createHash, type Hash } from "node:crypto";
import { closeSync, fstatSync, ftruncateSync, openSync, readSync, writeFileSync } from "node:fs";
import { parse, format } from "node:path";

import { UsageError } from "./usage-error.ts";

/** The file into which refusals are written. */
export interface Refusals {
  readonly path: string;
  readonly bytes: number;
  /** Of all that is in it. */
  readonly sha256: string;
  /** Appends a line. Throws what the file system says. */
  write(line: string): void;
  close(): void;
}

/** What every line begins with. */
export const LINE_START = '{"line":';

/** Names are tried so often before it is given up. */
const MAX_NAMES = 1_000;
const CHUNK_BYTES = 1024 * 1024;

/**
 * Makes a new file, and never takes one that is there: where a name was asked for, that is a UsageError; else the next
 * free one is taken, such as "orders.refused-2.ndjson". Throws a UsageError where no file can be made there.
 */
export function createRefusals(path: string, isAskedFor: boolean): Refusals {
  for (let number = 1; number <= MAX_NAMES; number++) {
    const name = number === 1 ? path : numbered(path, number);
    try {
      return refusalsIn(name, openSync(name, "wx"), { bytes: 0, hash: createHash("sha256") });
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code !== "EEXIST") throw new UsageError(`What is refused cannot be written down: ${message}`);
      if (isAskedFor) {
        throw new UsageError(
          `--refused: ${path} is there already, and nothing of it is overwritten. Name a file that is not there.`,
        );
      }
    }
  }
  throw new UsageError(
    `${path} is there already, and ${String(MAX_NAMES)} like it: name another with --refused.`,
  );
}

/**
 * Opens the file of an earlier run again, as it was when that run's state was taken down: what it wrote after that is cut
 * off, since it is found again. Throws a UsageError where the file is not there, or is not what that run wrote.
 */
export function reopenRefusals(
  path: string,
  was: { readonly bytes: number; readonly sha256: string },
): Refusals {
  let file: number;
  try {
    file = openSync(path, "r+");
  } catch (error) {
    throw new UsageError(`What an earlier run refused is not there: ${(error as Error).message}. ${CURE}`);
  }
  const { hash, rest } = readThrough(file, was.bytes);
  const isItsOwn = rest.split("\n").every((line) => line.startsWith(LINE_START.slice(0, line.length)));
  if (hash.copy().digest("hex") !== was.sha256 || !isItsOwn) {
    closeSync(file);
    throw new UsageError(`${path} is not what an earlier run wrote there: it was changed. ${CURE}`);
  }
  closeSync(file);
  file = openSync(path, "a");
  ftruncateSync(file, was.bytes);
  return refusalsIn(path, file, { bytes: was.bytes, hash });
}

const CURE =
  "Put it back as it was, or delete the state beside the input to send all of that again, which does no harm.";

function refusalsIn(
  path: string,
  file: number,
  from: { readonly bytes: number; readonly hash: Hash },
): Refusals {
  const { hash } = from;
  let { bytes } = from;
  return {
    path,
    get bytes() {
      return bytes;
    },
    get sha256() {
      return hash.copy().digest("hex");
    },
    write(line) {
      const text = `${line}\n`;
      writeFileSync(file, text);
      bytes += Buffer.byteLength(text);
      hash.update(text);
    },
    close: () => closeSync(file),
  };
}

/** The hash of so many bytes, and the text after them. */
function readThrough(file: number, bytes: number): { readonly hash: Hash; readonly rest: string } {
  const hash = createHash("sha256");
  const chunk = Buffer.alloc(CHUNK_BYTES);
  for (let at = 0; at < bytes;) {
    const read = readSync(file, chunk, 0, Math.min(CHUNK_BYTES, bytes - at), at);
    if (read === 0) break;
    hash.update(chunk.subarray(0, read));
    at += read;
  }
  const rest = Buffer.alloc(Math.max(0, fstatSync(file).size - bytes));
  readSync(file, rest, 0, rest.length, bytes);
  return { hash, rest: rest.toString("utf8") };
}

function numbered(path: string, number: number): string {
  const { dir, name, ext } = parse(path);
  return format({ dir, name: `${name}-${String(number)}`, ext });
}
