import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";

/** Where root keeps what PostgreSQL's user could not reach in the clone. */
export const ELSEWHERE = "/var/lib/weir-dev";

/** In each folder there: the data folder that it belongs to. */
const CLAIM = "belongs-to";

/** A new folder there. */
export function createFolder(elsewhere: string): string {
  makeEnterable(elsewhere);
  return mkdtempSync(join(elsewhere, "data-"));
}

/** The folder there that belongs to this data folder and is good; the newest of several. */
export function claimedFolder(
  elsewhere: string,
  dataFolder: string,
  isGood: (folder: string) => boolean,
): string | undefined {
  if (!existsSync(elsewhere)) return undefined;
  const since = (folder: string): number => statSync(join(folder, CLAIM)).mtimeMs;
  return readdirSync(elsewhere)
    .map((name) => join(elsewhere, name))
    .filter((folder) => claimOf(folder) === dataFolder && isGood(folder))
    .sort((one, other) => since(other) - since(one))[0];
}

/**
 * Notes that a folder there belongs to this data folder. One that was moved takes its folder along; a copy does not.
 *
 * @throws Error of one line where it belongs to another that still exists.
 */
export function claimFolder(folder: string, dataFolder: string): void {
  const holder = claimOf(folder);
  if (holder === dataFolder) return;
  if (holder !== undefined && isInUse(folder, holder))
    throw new Error(
      `The PostgreSQL data in ${folder} belong to ${holder}, of which ${dataFolder} is a copy: ` +
        `delete ${join(dataFolder, "postgres.json")} and ${join(dataFolder, "log", "postgres.log")} ` +
        "to begin with an empty database here.",
    );
  writeFileSync(join(folder, CLAIM), `${dataFolder}\n`);
}

/** Where a data folder has lost its note, it is enough that a PostgreSQL has run for it. */
function isInUse(folder: string, holder: string): boolean {
  try {
    return (
      (JSON.parse(readFileSync(join(holder, "postgres.json"), "utf8")) as { folder: string }).folder ===
      folder
    );
  } catch {
    return existsSync(join(holder, "log", "postgres.log"));
  }
}

/** Whatever the umask says. */
export function makeEnterable(folder: string): void {
  if (mkdirSync(dirname(folder), { recursive: true }) !== undefined) chmodSync(dirname(folder), 0o711);
  mkdirSync(folder, { recursive: true });
  chmodSync(folder, 0o711);
}

function claimOf(folder: string): string | undefined {
  try {
    return readFileSync(join(folder, CLAIM), "utf8").trimEnd();
  } catch {
    return undefined;
  }
}
