/**
 * Lets the process go on where the reader of its standard output or error has gone away, such as `head` once it has its
 * lines. What is written from then on is lost. Any other error of the two ends the process, as without this.
 */
export function outliveReaders(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "EPIPE") throw error;
    });
  }
}
