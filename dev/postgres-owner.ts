import { execFileSync, spawnSync } from "node:child_process";

/** A user of this machine, as `spawn` takes it. */
export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

const NAME = "postgres";

/** The ways to make a system user, in the order in which they are tried: shadow, Debian, BusyBox. */
const MAKERS: readonly (readonly [string, ...string[]])[] = [
  ["useradd", "--system", "--user-group", "--no-create-home", NAME],
  ["adduser", "--system", "--group", "--no-create-home", NAME],
  ["adduser", "-S", "-D", "-H", NAME],
];

/**
 * Whom PostgreSQL runs as, since it refuses to run as root: undefined (ourselves) for an ordinary user, else the user
 * `postgres`, made when missing (on macOS `_postgres`, which is always there).
 */
export function postgresOwner(): Owner | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const found = lookUp(NAME) ?? lookUp(`_${NAME}`);
  if (found !== undefined) return found;
  for (const [command, ...args] of MAKERS) {
    if (spawnSync(command, args, { stdio: "ignore" }).status !== 0) continue;
    const made = lookUp(NAME);
    if (made !== undefined) return made;
  }
  throw new Error(
    `PostgreSQL cannot run as root, and no user ${NAME} could be made: make one, or set WEIR_DATABASE_URL.`,
  );
}

/** Whether this user, without any group but its own, can reach a folder or run a file. */
export function canEnter(user: Owner, path: string): boolean {
  // The shell's own test, for PATH may be anything.
  const script = ["-c", '[ -x "$1" ]', "sh", path];
  return spawnSync("/bin/sh", script, { ...user, cwd: "/", stdio: "ignore" }).status === 0;
}

function lookUp(name: string): Owner | undefined {
  const id = (flag: string): number =>
    Number(execFileSync("id", [flag, name], { stdio: ["ignore", "pipe", "ignore"] }));
  try {
    return { uid: id("-u"), gid: id("-g") };
  } catch {
    return undefined;
  }
}
