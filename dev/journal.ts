import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";

import { identify, isAlive } from "./identity.ts";

const entrySchema = z.object({
  name: z.string(),
  pid: z.number(),
  started: z.string(),
  stopSignal: z.enum(["SIGTERM", "SIGINT"]),
});
type Entry = z.infer<typeof entrySchema>;

/** A process, and the signal that asks it to end. */
export interface StartedProcess {
  readonly name: string;
  readonly pid: number;
  readonly stopSignal: "SIGTERM" | "SIGINT";
}

/** Keeps note of the processes that were started, for whoever comes after a process that was killed. */
export interface Journal {
  /** Call it as soon as the process exists. */
  readonly add: (process: StartedProcess) => void;
  /** All of them have ended. */
  readonly remove: () => void;
}

/** A new journal in this file. What an earlier one lists must be gone: see {@link stopLeftovers}. */
export function createJournal(file: string): Journal {
  const entries: Entry[] = [];
  return {
    add({ name, pid, stopSignal }) {
      const identity = identify(pid);
      if (identity === undefined) return;
      entries.push({ name, stopSignal, ...identity });
      // Whole or not at all: this process may be killed at any moment.
      writeFileSync(`${file}.new`, JSON.stringify(entries, null, 2));
      renameSync(`${file}.new`, file);
    },
    remove: () => rmSync(file, { force: true }),
  };
}

/**
 * Stops what the journal in this file lists and still runs, the last one first; each is asked, then forced after
 * `graceMs` (default 10,000). A process that merely has the id of one that is gone is left alone.
 *
 * @returns the names of those that were stopped.
 */
export async function stopLeftovers(file: string, graceMs = 10_000): Promise<string[]> {
  const stopped: string[] = [];
  for (const entry of readJournal(file).toReversed()) {
    if (!isAlive(entry)) continue;
    stopped.push(entry.name);
    process.kill(entry.pid, entry.stopSignal);
    const deadline = Date.now() + graceMs;
    while (isAlive(entry)) {
      if (Date.now() > deadline) process.kill(entry.pid, "SIGKILL");
      await sleep(20);
    }
  }
  rmSync(file, { force: true });
  return stopped;
}

function readJournal(file: string): Entry[] {
  try {
    return z.array(entrySchema).parse(JSON.parse(readFileSync(file, "utf8")));
  } catch {
    return [];
  }
}
