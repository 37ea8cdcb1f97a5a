import { once } from "node:events";

/** Where a command writes what it finds. */
export interface Output {
  /** Whether people read it. */
  readonly isTerminal: boolean;
  /** Raised when its reader has gone away, such as `head` once it has its lines. */
  readonly closed: AbortSignal;
  /** Writes text; resolves when more may follow. */
  write(text: string): Promise<void>;
}

/** Standard output, at the pace of its reader. */
export function openOutput(): Output {
  const { stdout } = process;
  const controller = new AbortController();
  stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    controller.abort(new Error("The reader has gone away."));
  });
  return {
    isTerminal: stdout.isTTY,
    closed: controller.signal,
    async write(text) {
      if (controller.signal.aborted || stdout.write(text)) return;
      await once(stdout, "drain", { signal: controller.signal }).catch(() => {});
    },
  };
}
