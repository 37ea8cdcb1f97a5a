import { createHash, randomBytes } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";

import { postgresBinaries } from "./postgres-binaries.ts";
import { canEnter, postgresOwner, type Owner } from "./postgres-owner.ts";

/** Where root keeps what PostgreSQL's user could not reach in the clone. */
const ELSEWHERE = "/var/lib/weir-dev";
const PASSWORD_BYTES = 24;

/** Where PostgreSQL lives, and as whom. */
export interface PostgresPlace {
  readonly dataDir: string;
  readonly binaries: string;
  readonly password: string;
  readonly user: Owner | undefined;
  /** The data are not in the data folder, for PostgreSQL's user cannot enter it. */
  readonly isElsewhere: boolean;
}

const stateSchema = z.object({ folder: z.string(), password: z.string() });

/**
 * Finds PostgreSQL its place and keeps it in the data folder's `postgres.json`: in that folder itself, or, where we are
 * root and the user that PostgreSQL then runs as cannot enter it, in a folder of /var/lib/weir-dev. The password is made
 * here, and known to that file alone.
 */
export async function choosePostgresPlace(dataFolder: string): Promise<PostgresPlace> {
  const inside = join(dataFolder, "postgres");
  const stateFile = join(dataFolder, "postgres.json");
  const state = readState(stateFile);
  const user = ownerOf(state?.folder) ?? postgresOwner();
  const folder =
    state?.folder ?? (user === undefined || canEnter(user, dataFolder) ? inside : elsewhere(dataFolder));
  const password = state?.password ?? randomBytes(PASSWORD_BYTES).toString("hex");
  if (state === undefined) {
    // Without its password a cluster is of no use: it belongs to a data folder that was deleted.
    rmSync(folder, { recursive: true, force: true });
    writeFileSync(stateFile, `${JSON.stringify({ folder, password })}\n`, { mode: 0o600 });
  }
  makeEnterable(folder);
  return {
    dataDir: join(folder, "data"),
    binaries: await postgresBinaries(user, ELSEWHERE),
    password,
    user,
    isElsewhere: folder !== inside,
  };
}

function readState(file: string): z.infer<typeof stateSchema> | undefined {
  try {
    const state = stateSchema.parse(JSON.parse(readFileSync(file, "utf8")));
    return existsSync(state.folder) ? state : undefined;
  } catch {
    return undefined;
  }
}

/** As root, whoever made the cluster before (an ordinary user, perhaps) goes on with it. */
function ownerOf(folder: string | undefined): Owner | undefined {
  if (process.getuid?.() !== 0 || folder === undefined) return undefined;
  const stat = statSync(join(folder, "data"), { throwIfNoEntry: false });
  return stat === undefined || stat.uid === 0 ? undefined : { uid: stat.uid, gid: stat.gid };
}

function elsewhere(dataFolder: string): string {
  return join(ELSEWHERE, createHash("sha256").update(dataFolder).digest("hex").slice(0, 12));
}

/** Whatever the umask says. */
function makeEnterable(folder: string): void {
  if (mkdirSync(dirname(folder), { recursive: true }) !== undefined) chmodSync(dirname(folder), 0o711);
  mkdirSync(folder, { recursive: true });
  chmodSync(folder, 0o711);
}
