import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { z } from "zod";

import { identify, identifyFolder, isAlive, type ProcessIdentity } from "./identity.ts";

/** Who holds a lock. */
export interface Holder extends ProcessIdentity {
  /** Where the holder serves. */
  readonly url: string;
  /** The holder is on its way out. */
  readonly stopping: boolean;
  /** Which folder it locked: the lock in a copy of that folder is nobody's. */
  readonly folder: string;
}

const holderSchema: z.ZodType<Holder> = z.object({
  pid: z.number(),
  started: z.string(),
  url: z.string(),
  stopping: z.boolean(),
  folder: z.string(),
});

/** A lock that this process holds. */
export interface Lock {
  /** Tells others that the lock will be free soon. */
  markStopping(): void;
  release(): void;
}

/**
 * Takes the lock that this file stands for, or says who holds it. The lock of a process that is no more is taken over,
 * even where its id belongs to another process by now.
 */
export function acquireLock(file: string, url: string): Lock | Holder {
  const self = identify(process.pid);
  if (self === undefined) throw new Error("This process cannot be found among the running ones.");
  const mine = `${file}.${process.pid}`;
  const folder = identifyFolder(dirname(file));
  const text = (stopping: boolean): string => `${JSON.stringify({ ...self, url, stopping, folder })}\n`;
  writeFileSync(mine, text(false));
  try {
    for (;;) {
      try {
        // A link appears with its whole content or not at all, and never replaces another.
        linkSync(mine, file);
        break;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      }
      const found = readLock(file);
      if (found === undefined) continue;
      if (found.holder?.folder === folder && isAlive(found.holder)) return found.holder;
      removeStale(file, mine, found.text);
    }
  } finally {
    rmSync(mine, { force: true });
  }
  const release = (): void => rmSync(file, { force: true });
  process.once("exit", release);
  return {
    markStopping() {
      writeFileSync(mine, text(true));
      renameSync(mine, file);
    },
    release() {
      process.off("exit", release);
      release();
    },
  };
}

/** Undefined where there is no lock by now. */
function readLock(file: string): { readonly text: string; readonly holder?: Holder } | undefined {
  let text: string | undefined;
  try {
    text = readFileSync(file, "utf8");
    return { text, holder: holderSchema.parse(JSON.parse(text)) };
  } catch {
    return text === undefined ? undefined : { text };
  }
}

/** Moves the lock aside before removing it: what another process put there in the meantime is given back. */
function removeStale(file: string, mine: string, stale: string): void {
  const aside = `${mine}.stale`;
  try {
    renameSync(file, aside);
    if (readFileSync(aside, "utf8") !== stale) linkSync(aside, file);
  } catch (error) {
    if (!["ENOENT", "EEXIST"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
  } finally {
    rmSync(aside, { force: true });
  }
}
