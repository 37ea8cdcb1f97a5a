import { closeSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";

import { UsageError } from "./usage-error.ts";

/** How far a sending has come. */
export interface SendState {
  readonly url: string;
  /** How many records of the input are settled, and how many of these were refused. */
  readonly records: number;
  readonly refused: number;
  /** Of the settled records' bytes, one after another: the same input begins with them. */
  readonly sha256: string;
  /** The file of refusals, seen from the folder of the state; "" where there is none. */
  readonly refusedFile: string;
  /** How long that file was at this point, and the SHA-256 of it. */
  readonly refusedBytes: number;
  readonly refusedSha256: string;
}

/** The file of a state, which one run at a time has. */
export interface StateFile {
  /** What an earlier run left. */
  readonly found: SendState | undefined;
  /** Throws an Error where another run has taken the file over, or what the file system says. */
  save(state: SendState): void;
  /** Lets another run have it. */
  release(state: SendState): void;
  remove(): void;
}

/** A state with the process that is at it; 0 where none is. */
interface Kept extends SendState {
  readonly pid: number;
}

const MEMBERS = {
  url: "string",
  records: "number",
  refused: "number",
  sha256: "string",
  refusedFile: "string",
  refusedBytes: "number",
  refusedSha256: "string",
  pid: "number",
} satisfies Record<keyof Kept, string>;

/**
 * Takes a state file, which is made where there is none. Throws a UsageError where another run has it, where it cannot be
 * made, and where what is there is no state, or that of a sending to another server.
 */
export function openStateFile(path: string, initial: SendState): StateFile {
  const found = read(path);
  if (found !== undefined && found.pid !== process.pid && isAlive(found.pid)) throw isTaken(path, found.pid);
  if (found !== undefined && found.records > 0 && found.url !== initial.url) {
    throw new UsageError(
      `An earlier run that sent to ${found.url} was broken off. Finish it with that --url, or delete ${path} to begin anew.`,
    );
  }
  const write = (state: SendState, pid: number): void => {
    writeFileSync(`${path}.new`, `${JSON.stringify({ ...state, pid })}\n`);
    renameSync(`${path}.new`, path);
  };
  try {
    if (found === undefined) make(path, { ...initial, pid: process.pid });
    else write(found, process.pid);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") throw isTaken(path, read(path)?.pid ?? 0);
    throw new UsageError(
      `How far the sending is cannot be kept beside the file: ${message}. Send it as standard input: weir send - < FILE`,
    );
  }
  const checked = (): void => {
    const now = read(path);
    if (now !== undefined && now.pid !== process.pid) {
      throw new Error(`another run (process ${String(now.pid)}) has taken ${path} over.`);
    }
  };
  return {
    found,
    save(state) {
      checked();
      write(state, process.pid);
    },
    release(state) {
      checked();
      write(state, 0);
    },
    remove: () => rmSync(path, { force: true }),
  };
}

/** Makes the file, of which there is none: of several runs that begin together one does. */
function make(path: string, state: Kept): void {
  const file = openSync(path, "wx");
  writeFileSync(file, `${JSON.stringify(state)}\n`);
  closeSync(file);
}

function isTaken(path: string, pid: number): UsageError {
  return new UsageError(
    `Another run (process ${String(pid)}) is sending this file. Wait for its end; where that process is no weir send, delete ${path} to begin anew.`,
  );
}

function read(path: string): Kept | undefined {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new UsageError(`How far an earlier run came cannot be read: ${(error as Error).message}`);
  }
  const state = parsed(text);
  if (state === undefined) {
    throw new UsageError(
      `${path} is no state of a sending: delete it to send the whole input again, which does no harm.`,
    );
  }
  return state;
}

function parsed(text: string): Kept | undefined {
  try {
    const state = JSON.parse(text) as Readonly<Record<string, unknown>> | null;
    const isWhole = Object.entries(MEMBERS).every(([name, type]) => typeof state?.[name] === type);
    return isWhole ? (state as unknown as Kept) : undefined;
  } catch {
    return undefined;
  }
}

function isAlive(pid: number): boolean {
  if (pid <= 0) return false;
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
