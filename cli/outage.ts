/** So long nothing is heard from Weir before that is said, in milliseconds. */
const SILENCE_MS = 10_000;

/** Tells once of each time in which Weir does not answer, so that nobody has to wonder about a command that stands still. */
export interface OutageNotice {
  /** To be called at each outcome of an event. */
  heard(): void;
  /** To be called from time to time. */
  check(isWaiting: boolean): void;
}

/** A notice on a stream, of the server at a URL. */
export function createOutageNotice(stream: NodeJS.WriteStream, url: string): OutageNotice {
  let last = performance.now();
  let isTold = false;
  return {
    heard() {
      last = performance.now();
      isTold = false;
    },
    check(isWaiting) {
      if (!isWaiting) last = performance.now();
      if (isTold || performance.now() - last < SILENCE_MS) return;
      isTold = true;
      // The first two clear the line on which progress is shown.
      const start = stream.isTTY ? "\r\u001b[K" : "";
      stream.write(`${start}${url} has acknowledged nothing for 10 s: trying on.\n`);
    },
  };
}
