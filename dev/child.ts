import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, fstatSync, mkdirSync, openSync, renameSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { type Journal } from "./journal.ts";
import { lookAfter } from "./leash.ts";
import { tailOf } from "./tail.ts";

const MAX_LOG_BYTES = 20_000_000;
const POLL_MS = 50;

/** How a process ended: an exit code, or the signal that ended it. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A process that we started and that writes to a log file. */
export interface Child {
  readonly name: string;
  readonly pid: number;
  readonly logFile: string;
  /** What this process itself wrote there begins at this byte: the file keeps former runs too. */
  readonly logStart: number;
  /** What takes its time when it stops. */
  readonly stopRemark?: string;
  /** Settles when the process has ended; never rejects. */
  readonly exited: Promise<Exit>;
  /** Undefined while the process lives. */
  readonly exit: () => Exit | undefined;
  /** Asks the process to end, by force after `graceMs`, and resolves when it has. Safe to repeat. */
  stop(): Promise<void>;
  /** Ends the process by force. */
  kill(): void;
}

/** What it takes to start a {@link Child}. */
export interface ChildOptions {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** Standard output and error are appended here; made when missing, begun anew (one kept) when over 20 MB. */
  readonly logFile: string;
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly user?: { readonly uid: number; readonly gid: number } | undefined;
  /** What asks this process to end in order. Default SIGTERM. */
  readonly stopSignal?: "SIGTERM" | "SIGINT";
  /** Milliseconds from `stop` until the process is killed. Default 30,000. */
  readonly graceMs?: number;
  /** Where the process is noted as soon as it exists; see `lookAfter`. */
  readonly journal?: Journal | undefined;
}

/**
 * Starts a process in its own process group, so that a terminal's Ctrl-C reaches the launcher alone and the order of
 * stopping stays ours. Should this process end without stopping it, or be killed, it ends too: in order and in its turn
 * where there is a journal, else at once. Rejects where the command cannot be started at all.
 */
export async function startChild(options: ChildOptions): Promise<Child> {
  const { name, logFile, stopSignal = "SIGTERM", graceMs = 30_000 } = options;
  mkdirSync(dirname(logFile), { recursive: true });
  if ((statSync(logFile, { throwIfNoEntry: false })?.size ?? 0) > MAX_LOG_BYTES)
    renameSync(logFile, `${logFile}.1`);
  const log = openSync(logFile, "a");
  const logStart = fstatSync(log).size;
  const child = spawn(options.command, options.args, {
    stdio: ["ignore", log, log],
    detached: true,
    ...(options.cwd !== undefined && { cwd: options.cwd }),
    ...(options.env !== undefined && { env: options.env }),
    ...options.user,
  });
  closeSync(log);
  const { pid } = child;
  if (pid === undefined) {
    const [error] = (await once(child, "error")) as [Error];
    throw new Error(`${name} could not be started: ${error.message}`, { cause: error });
  }
  const untie = lookAfter({ name, pid, stopSignal }, options.journal);

  const askToEnd = (): void => void child.kill(stopSignal);
  let exit: Exit | undefined;
  const exited = new Promise<Exit>((resolve) => {
    child.once("exit", (code, signal) => {
      untie();
      exit = { code, signal };
      resolve(exit);
    });
  });

  return {
    name,
    pid,
    logFile,
    logStart,
    exited,
    exit: () => exit,
    async stop() {
      if (exit !== undefined) return;
      askToEnd();
      const timer = setTimeout(() => child.kill("SIGKILL"), graceMs);
      await exited;
      clearTimeout(timer);
    },
    kill() {
      child.kill("SIGKILL");
    },
  };
}

/**
 * Resolves with the child once `isReady` says so. Where the child ends first, where `signal` is raised, or after
 * `timeoutMs`, it is stopped and the promise rejects, with the last lines of its log if it is at fault.
 */
export async function untilReady(
  child: Child,
  isReady: () => Promise<boolean> | boolean,
  options: { readonly timeoutMs: number; readonly signal?: AbortSignal | undefined },
): Promise<Child> {
  const deadline = Date.now() + options.timeoutMs;
  try {
    for (;;) {
      const isChildReady = await isReady();
      options.signal?.throwIfAborted();
      // It may be another who answered where this one has ended.
      if (child.exit() !== undefined) throw new Error(describeEnd(child));
      if (isChildReady) return child;
      if (Date.now() > deadline)
        throw new Error(
          `${child.name} was not ready after ${options.timeoutMs / 1000} s.\n${tailOf(child.logFile, child.logStart)}`,
        );
      await Promise.race([child.exited, sleep(POLL_MS)]);
    }
  } catch (error) {
    await child.stop();
    throw error;
  }
}

/** Which child ended and how, with the last lines of its log and the log's path. */
export function describeEnd(child: Child): string {
  const exit = child.exit();
  const how =
    exit === undefined
      ? "is still running"
      : exit.signal === null
        ? `ended with exit code ${exit.code}`
        : `was ended by ${exit.signal}`;
  return `${child.name} (process ${child.pid}) ${how}.\n${tailOf(child.logFile, child.logStart)}`;
}
