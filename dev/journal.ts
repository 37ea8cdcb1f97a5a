import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";

import { identify, identifyFolder, isAlive } from "./identity.ts";

/** Above what the watcher gives each process. */
const WATCHER_GRACE_MS = 12_000;

const entrySchema = z.object({
  name: z.string(),
  pid: z.number(),
  started: z.string(),
  stopSignal: z.enum(["SIGTERM", "SIGINT"]),
});
type Entry = z.infer<typeof entrySchema>;

const journalSchema = z.object({
  /** In a copy of this folder it lists nothing of ours. */
  folder: z.string(),
  /** What stops the processes, should the one that started them be killed. */
  watcher: z.object({ pid: z.number(), started: z.string() }).optional(),
  processes: z.array(entrySchema),
});
type Content = z.infer<typeof journalSchema>;

/** A process, and the signal that asks it to end. */
export interface StartedProcess {
  readonly name: string;
  readonly pid: number;
  readonly stopSignal: "SIGTERM" | "SIGINT";
}

/** Keeps note of the processes that were started, for whoever comes after a process that was killed. */
export interface Journal {
  /** Call it as soon as the process exists. `watcherPid` is whoever stops it, should this process be killed. */
  readonly add: (process: StartedProcess, watcherPid?: number) => void;
  /** All of them have ended. */
  readonly remove: () => void;
}

/** A new journal in this file. What an earlier one lists must be gone: see {@link stopLeftovers}. */
export function createJournal(file: string): Journal {
  const folder = identifyFolder(dirname(file));
  const entries: Entry[] = [];
  return {
    add({ name, pid, stopSignal }, watcherPid) {
      const identity = identify(pid);
      if (identity === undefined) return;
      entries.push({ name, stopSignal, ...identity });
      // Whole or not at all: this process may be killed at any moment.
      const watcher = watcherPid === undefined ? undefined : identify(watcherPid);
      const content: Content = { folder, processes: entries, ...(watcher && { watcher }) };
      writeFileSync(`${file}.new`, JSON.stringify(content, null, 2));
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
  const { watcher, processes } = readJournal(file);
  const left = processes.filter(isAlive).toReversed();
  // It is at that already; a second signal would cut short what the first began.
  const watcherDeadline = Date.now() + (processes.length + 1) * WATCHER_GRACE_MS;
  while (watcher !== undefined && isAlive(watcher) && Date.now() < watcherDeadline) await sleep(20);
  for (const entry of left) {
    if (!isAlive(entry)) continue;
    process.kill(entry.pid, entry.stopSignal);
    const deadline = Date.now() + graceMs;
    while (isAlive(entry)) {
      if (Date.now() > deadline) process.kill(entry.pid, "SIGKILL");
      await sleep(20);
    }
  }
  rmSync(file, { force: true });
  return left.map(({ name }) => name);
}

function readJournal(file: string): Content {
  try {
    const content = journalSchema.parse(JSON.parse(readFileSync(file, "utf8")));
    if (content.folder === identifyFolder(dirname(file))) return content;
  } catch {
    // There is none, or it was cut short.
  }
  return { folder: "", processes: [] };
}
