import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { isAbsolute, join, relative, resolve } from "node:path";
import { z } from "zod";

import { claimedFolder, claimFolder, createFolder, ELSEWHERE, makeEnterable } from "./postgres-elsewhere.ts";
import { postgresBinaries } from "./postgres-binaries.ts";
import { canEnter, postgresOwner, type Owner } from "./postgres-owner.ts";

const PASSWORD_BYTES = 24;

/** Where PostgreSQL lives, and as whom. */
export interface PostgresPlace {
  readonly dataDir: string;
  readonly binaries: string;
  readonly password: string;
  /** The password is new and the data are not: nobody knows theirs any more. */
  readonly isPasswordNew: boolean;
  readonly user: Owner | undefined;
  /** The data are not in the data folder, for PostgreSQL's user cannot enter it. */
  readonly isElsewhere: boolean;
}

/** `folder` is relative to the data folder where it lies in it, so that both can be moved and copied. */
const stateSchema = z.object({ folder: z.string().min(1), password: z.string().min(1) });

/**
 * Finds PostgreSQL its place and keeps it in the data folder's `postgres.json`: in that folder itself, or, where we are
 * root and the user that PostgreSQL then runs as cannot enter it, in a folder of /var/lib/weir-dev. The password is made
 * here, and known to that file alone; where it is lost, data are found again and get a new one. Data are never removed.
 *
 * @throws Error of one line where the data belong to another data folder, or PostgreSQL's user cannot go there.
 */
export async function choosePostgresPlace(
  dataFolder: string,
  elsewhere: string = ELSEWHERE,
): Promise<PostgresPlace> {
  const inside = join(dataFolder, "postgres");
  const stateFile = join(dataFolder, "postgres.json");
  const state = readState(stateFile);
  const found = findData(dataFolder, inside, state?.folder, elsewhere);
  const user = (found === undefined ? undefined : ownerOf(found)) ?? postgresOwner();
  const folder =
    found ?? (user === undefined || canEnter(user, dataFolder) ? inside : createFolder(elsewhere));
  makeEnterable(folder);
  const isElsewhere = folder !== inside;
  if (isElsewhere) claimFolder(folder, dataFolder);
  if (user !== undefined && !canEnter(user, folder))
    throw new Error(
      `PostgreSQL's data are in ${folder}, which its user (uid ${user.uid}) cannot enter: ` +
        "let everybody enter the folders above (chmod o+x), or move the clone to where that is so.",
    );
  const password = state?.password ?? randomBytes(PASSWORD_BYTES).toString("hex");
  const kept = isElsewhere ? folder : relative(dataFolder, folder);
  if (state?.folder !== kept || state.password !== password)
    writeFileSync(stateFile, `${JSON.stringify({ folder: kept, password })}\n`, { mode: 0o600 });
  return {
    dataDir: join(folder, "data"),
    binaries: await postgresBinaries(user, elsewhere),
    password,
    isPasswordNew: found !== undefined && state === undefined,
    user,
    isElsewhere,
  };
}

/** The folder with this data folder's cluster; undefined where there is none yet. */
function findData(
  dataFolder: string,
  inside: string,
  kept: string | undefined,
  elsewhere: string,
): string | undefined {
  // What lies in the data folder was moved and copied with it, wherever it was when the path was written.
  const named = kept === undefined ? undefined : resolve(dataFolder, kept);
  if (named !== undefined && isAbsolute(kept ?? "") && isBelow(elsewhere, named) && hasCluster(named))
    return named;
  if (hasCluster(inside)) return inside;
  // Without a log no PostgreSQL has run for this folder: what lies elsewhere is that of a folder that was deleted.
  const hasRun = existsSync(join(dataFolder, "log", "postgres.log"));
  return hasRun ? claimedFolder(elsewhere, dataFolder, hasCluster) : undefined;
}

function isBelow(parent: string, path: string): boolean {
  const way = relative(parent, path);
  return way !== "" && !way.startsWith("..") && !isAbsolute(way);
}

function hasCluster(folder: string): boolean {
  return existsSync(join(folder, "data", "PG_VERSION"));
}

function readState(file: string): z.infer<typeof stateSchema> | undefined {
  try {
    return stateSchema.parse(JSON.parse(readFileSync(file, "utf8")));
  } catch {
    return undefined;
  }
}

/** As root, whoever made the cluster before (an ordinary user, perhaps) goes on with it. */
function ownerOf(folder: string): Owner | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const stat = statSync(join(folder, "data"), { throwIfNoEntry: false });
  return stat === undefined || stat.uid === 0 ? undefined : { uid: stat.uid, gid: stat.gid };
}
