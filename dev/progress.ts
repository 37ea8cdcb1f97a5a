/** Tells a person what has been done and how long it took, a line each. */
export interface Progress {
  /** A line without a time. */
  readonly say: (line: string) => void;
  /** Runs a step and says what came of it, with the time that it took. A step that fails says nothing. */
  readonly step: <T>(work: () => Promise<T>, title: (result: T) => string) => Promise<T>;
}

/** Progress as lines of text. */
export function createProgress(write: (text: string) => void): Progress {
  return {
    say: (line) => write(`${" ".repeat(10)}${line}\n`),
    async step(work, title) {
      const started = performance.now();
      const result = await work();
      const seconds = ((performance.now() - started) / 1000).toFixed(1);
      write(`${seconds.padStart(7)} s  ${title(result)}\n`);
      return result;
    },
  };
}
