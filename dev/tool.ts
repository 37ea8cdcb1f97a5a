import { execFile, type ExecFileException } from "node:child_process";
import { basename } from "node:path";

import { type Journal } from "./journal.ts";
import { lookAfter } from "./leash.ts";
import { type Owner } from "./postgres-owner.ts";
import { tailText } from "./tail.ts";

const MAX_OUTPUT_BYTES = 16 << 20;

/** How a tool is run. */
export interface ToolOptions {
  /** What fails when the tool does: the beginning of the error's message. */
  readonly failure: string;
  /** Given to the tool on its standard input. Default: nothing. */
  readonly input?: string;
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly user?: Owner | undefined;
  /** Where the tool is noted while it runs; see `lookAfter`. */
  readonly journal?: Journal | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Runs a tool to its end and resolves with what it printed, standard error after standard output. Rejects with the last
 * lines of that where the tool is missing or fails, and with the signal's reason where that is raised.
 */
export function runTool(command: string, args: readonly string[], options: ToolOptions): Promise<string> {
  const { failure, input = "", cwd, env, user, journal, signal } = options;
  return new Promise((resolve, reject) => {
    const tool = execFile(
      command,
      args,
      {
        maxBuffer: MAX_OUTPUT_BYTES,
        ...(cwd !== undefined && { cwd }),
        ...(env && { env }),
        ...user,
        ...(signal && { signal }),
      },
      (error: ExecFileException | null, stdout, stderr) => {
        if (error === null) resolve(stdout + stderr);
        else if (signal?.aborted === true) reject(signal.reason as Error);
        else if (error.code === "ENOENT") reject(new Error(`${failure}: there is no command ${command}.`));
        else reject(new Error(`${failure}:\n${tailText(stdout + stderr)}`, { cause: error }));
      },
    );
    if (tool.pid !== undefined) {
      const untie = lookAfter({ name: basename(command), pid: tool.pid, stopSignal: "SIGTERM" }, journal);
      tool.once("exit", untie);
    }
    // A tool that ends before it has read its input is judged by its exit code.
    tool.stdin?.once("error", () => {});
    tool.stdin?.end(input);
  });
}
