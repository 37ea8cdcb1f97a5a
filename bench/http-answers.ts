/** An HTTP/1.1 answer. */
export interface Answer {
  readonly status: number;
  /** Its text; a chunked body with its chunks' sizes. */
  readonly body: string;
}

const END = Buffer.from("\r\n\r\n");
const LAST_CHUNK = Buffer.from("0\r\n\r\n");

/**
 * Reads the answers of one connection, as little of them as tells where each ends: for answers of a content-length, and
 * chunked ones without trailers.
 */
export function createAnswerReader(onAnswer: (answer: Answer) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0);
  return (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    for (;;) {
      const headEnd = rest.indexOf(END);
      if (headEnd < 0) return;
      const head = rest.toString("latin1", 0, headEnd);
      const bodyStart = headEnd + END.length;
      const end = endOfBody(head, rest, bodyStart);
      if (end === undefined) return;
      const body = rest.toString("utf8", bodyStart, end);
      rest = rest.subarray(end);
      onAnswer({ status: Number(head.slice(9, 12)), body });
    }
  };
}

function endOfBody(head: string, bytes: Buffer, start: number): number | undefined {
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (length !== undefined) {
    const end = start + Number(length);
    return bytes.length < end ? undefined : end;
  }
  const last = bytes.indexOf(LAST_CHUNK, start);
  return last < 0 ? undefined : last + LAST_CHUNK.length;
}
