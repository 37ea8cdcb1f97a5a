import { spawn } from "node:child_process";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../..");

/** A run of the `weir` command. */
export interface Run {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A run that goes on. */
export interface Running {
  readonly ended: Promise<Run>;
  kill(signal: NodeJS.Signals): void;
}

/**
 * Starts the command, in a folder, with an environment of its own and what it reads from standard input, which ends with
 * that unless it `staysOpen`.
 */
export function startCommand(
  args: readonly string[],
  options: {
    readonly cwd: string;
    readonly env: Readonly<Record<string, string>>;
    readonly input?: string;
    readonly staysOpen?: boolean;
  },
): Running {
  const child = spawn(process.execPath, [join(ROOT, "cli/weir.mjs"), ...args], {
    cwd: options.cwd,
    env: { PATH: process.env["PATH"], ...options.env },
  });
  const [stdout, stderr]: [Buffer[], Buffer[]] = [[], []];
  child.stdout.on("data", (chunk: Buffer) => stdout.push(chunk));
  child.stderr.on("data", (chunk: Buffer) => stderr.push(chunk));
  child.stdin.write(options.input ?? "");
  if (options.staysOpen !== true) child.stdin.end();
  const ended = new Promise<Run>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) =>
      resolve({ code, stdout: Buffer.concat(stdout).toString(), stderr: Buffer.concat(stderr).toString() }),
    );
  });
  return { ended, kill: (signal) => void child.kill(signal) };
}
