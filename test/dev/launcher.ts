import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Readable } from "node:stream";

import { type ProcessIdentity } from "../../dev/identity.ts";

const root = join(import.meta.dirname, "../..");

/** How a launcher ended, and all that it said. */
export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A launcher that was started as `npm start` starts it. */
export interface Launcher {
  readonly pid: number;
  /** Resolves with what was printed once the panel stands there; rejects where the launcher ends before. */
  readonly running: Promise<string>;
  readonly ended: Promise<Ended>;
  readonly kill: (signal: NodeJS.Signals) => void;
  /** Reads its standard output no more, as `head` once it has its lines. */
  readonly closeOutput: () => void;
}

/** Starts a launcher whose data are in this folder. What the run's own environment says of Weir is left out. */
export function startLauncher(dataFolder: string, settings: Readonly<Record<string, string>>): Launcher {
  const child = spawn(process.execPath, [join(root, "dev", "start.ts")], {
    env: { ...environment(), WEIR_DEV_DATA_DIR: dataFolder, ...settings },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const { stdout, stderr } = child;
  const [printed, complained] = [collect(stdout), collect(stderr)];
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once("error", reject);
    // "close" comes when the last line has been read, too.
    child.once("close", (code) => resolve({ code, stdout: printed(), stderr: complained() }));
  });
  const running = new Promise<string>((resolve, reject) => {
    stdout.on("data", () => {
      if (printed().includes("Ctrl-C stops everything.")) resolve(printed());
    });
    ended.then(
      (end) => reject(new Error(`The launcher ended (${end.code}):\n${end.stdout}${end.stderr}`)),
      reject,
    );
  });
  // A launcher that is meant to end early has nobody who waits for it to run.
  running.catch(() => {});
  return {
    pid: child.pid ?? 0,
    running,
    ended,
    kill: (signal) => child.kill(signal),
    closeOutput: () => void stdout.destroy(),
  };
}

/** This run's environment without the settings of Weir, and with the clone's own tools first. */
export function environment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !/^(WEIR_|npm_)/.test(name));
  return {
    ...Object.fromEntries(kept),
    PATH: `${join(root, "node_modules", ".bin")}:${process.env["PATH"]}`,
  };
}

/** The processes that a launcher has started, as it keeps note of them, by name. */
export function startedProcesses(dataFolder: string): ReadonlyMap<string, ProcessIdentity> {
  const { processes } = JSON.parse(readFileSync(join(dataFolder, "run.json"), "utf8")) as {
    readonly processes: readonly (ProcessIdentity & { readonly name: string })[];
  };
  return new Map(processes.map(({ name, pid, started }) => [name, { pid, started }]));
}

function collect(stream: Readable): () => string {
  let text = "";
  stream.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  return () => text;
}
