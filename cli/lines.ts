/** A line of an input. */
export interface Line {
  /** From 1. */
  readonly number: number;
  /** Without what ends it; of a longer line than is held the first bytes. */
  readonly bytes: Buffer;
  /** Whether it is longer than is held. */
  readonly isCut: boolean;
  /** How many bytes of the input have been read with it. */
  readonly position: number;
}

/** No line is held that is longer, nor a record of several lines; an event of Weir's is far smaller. */
export const MAX_RECORD_BYTES: number = 16 * 1024 * 1024;
/** So much is kept of a line that is longer. */
const KEPT_BYTES = 1024;
const NEWLINE = 0x0a;

/** The lines of an input, each as it ends ("\r" is in its bytes); what comes after the last newline is one where it is not empty. */
export async function* readLines(input: AsyncIterable<Buffer>): AsyncGenerator<Line> {
  let [number, position] = [0, 0];
  // The parts of a line that goes on in the next chunk.
  let parts: Buffer[] = [];
  let [held, isCut] = [0, false];
  const add = (part: Buffer): void => {
    position += part.length;
    if (isCut) return;
    parts.push(part);
    held += part.length;
    if (held <= MAX_RECORD_BYTES) return;
    isCut = true;
    parts = [Buffer.from(Buffer.concat(parts).subarray(0, KEPT_BYTES))];
  };
  const end = (): Line => {
    number += 1;
    const line = { number, bytes: Buffer.concat(parts), isCut, position };
    [parts, held, isCut] = [[], 0, false];
    return line;
  };
  for await (const chunk of input) {
    let start = 0;
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, start)) {
      add(chunk.subarray(start, at));
      position += 1;
      yield end();
      start = at + 1;
    }
    add(chunk.subarray(start));
  }
  if (held > 0) yield end();
}
