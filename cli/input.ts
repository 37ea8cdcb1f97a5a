import { closeSync, createReadStream, fstatSync, open } from "node:fs";
import { Socket } from "node:net";
import { addAbortSignal, type Readable } from "node:stream";
import { promisify } from "node:util";

import { UsageError } from "./usage-error.ts";

/** What is to be sent. */
export interface Input extends Disposable {
  /** How many bytes there are; undefined where it is no file, and can be read but once. */
  readonly size: number | undefined;
  /** Its bytes. They end, without an error, when the signal is raised. */
  read(signal: AbortSignal): AsyncIterable<Buffer>;
}

const CHUNK_BYTES = 256 * 1024;

/**
 * Opens a file, a pipe or, for "-", standard input; of a pipe with a name the writer is waited for. Throws a UsageError
 * where it cannot be read.
 */
export async function openInput(name: string): Promise<Input> {
  if (name === "-") return inputOf(process.stdin, undefined);
  let fd: number;
  try {
    fd = await promisify(open)(name, "r");
  } catch (error) {
    throw new UsageError(`${name} cannot be read: ${(error as Error).message}`);
  }
  const stat = fstatSync(fd);
  if (stat.isFile()) return inputOf(createReadStream("", { fd, highWaterMark: CHUNK_BYTES }), stat.size);
  // Unlike that of a file, the read of a socket can be broken off.
  if (stat.isFIFO()) return inputOf(new Socket({ fd, readable: true, writable: false }), undefined);
  closeSync(fd);
  throw new UsageError(`${name} cannot be read: it is neither a file nor a pipe.`);
}

function inputOf(stream: Readable, size: number | undefined): Input {
  return {
    size,
    async *read(signal) {
      try {
        for await (const chunk of addAbortSignal(signal, stream)) yield chunk as Buffer;
      } catch (error) {
        if (!signal.aborted) throw error;
      }
    },
    [Symbol.dispose]: () => void stream.destroy(),
  };
}
