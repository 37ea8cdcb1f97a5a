import { execFile } from "node:child_process";
import {
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

import { startChild, untilReady, type Child } from "./child.ts";

/** The superuser, and the owner of every database that the launcher makes. */
export const POSTGRES_USER = "weir";

/** What it takes to start a {@link Child} that is a PostgreSQL server. */
export interface PostgresOptions {
  /** The folder with PostgreSQL's own `bin`, `lib` and `share`. */
  readonly binaries: string;
  /** The server's own folder; must be reachable by `user`. Absolute; made when missing. */
  readonly dataDir: string;
  /** Where the server's log goes. Absolute; need not be reachable by `user`. */
  readonly logFile: string;
  /** Where clients connect, on 127.0.0.1. There is no Unix socket. */
  readonly port: number;
  /** The superuser's, as given when the data folder was made. */
  readonly password: string;
  /** PostgreSQL refuses to run as root: the user to run it as there. */
  readonly user?: { readonly uid: number; readonly gid: number } | undefined;
  /** Further settings of this server, such as `fsync: "off"`. */
  readonly settings?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
}

/** The address of one database of a server that {@link startPostgres} started. */
export function postgresUrl(port: number, password: string, database: string): string {
  return `postgres://${POSTGRES_USER}:${encodeURIComponent(password)}@127.0.0.1:${port}/${database}`;
}

/**
 * Starts a PostgreSQL server, whose data folder is made the first time with UTF-8, the C locale and password
 * authentication, and resolves once it takes connections. Its data survive a stop and a kill.
 */
export async function startPostgres(options: PostgresOptions): Promise<Child> {
  const { binaries, dataDir, logFile, port, user, signal } = options;
  if (!existsSync(join(dataDir, "PG_VERSION"))) await initialise(options);
  const settings = {
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    port: String(port),
    ...options.settings,
  };
  const child = await startChild({
    name: "PostgreSQL",
    command: join(binaries, "bin", "postgres"),
    args: [
      "-D",
      dataDir,
      ...Object.entries(settings).flatMap(([key, value]) => ["-c", `${key}=${value}`]),
    ],
    cwd: dataDir,
    logFile,
    user,
    // SIGINT is the fast shutdown; SIGTERM would wait for every client to leave.
    stopSignal: "SIGINT",
  });
  try {
    await untilReady(child, () => isReady(dataDir, child.pid), { timeoutMs: 60_000, signal });
  } catch (error) {
    await child.stop();
    throw error;
  }
  return child;
}

/** The server writes its state to the eighth line of postmaster.pid, as pg_ctl reads it. */
function isReady(dataDir: string, pid: number): boolean {
  const file = join(dataDir, "postmaster.pid");
  if (!existsSync(file)) return false;
  const lines = readFileSync(file, "utf8").split("\n");
  return lines[0] === String(pid) && lines[7]?.trim() === "ready";
}

/** Makes the data folder under another name first, so that one cut short is never taken for a whole one. */
async function initialise({
  binaries,
  dataDir,
  password,
  user,
  signal,
}: PostgresOptions): Promise<void> {
  const partial = `${dataDir}.partial`;
  const secret = `${dataDir}.password`;
  rmSync(partial, { recursive: true, force: true });
  rmSync(dataDir, { recursive: true, force: true });
  mkdirSync(dirname(dataDir), { recursive: true });
  mkdirSync(partial, { mode: 0o700 });
  try {
    writeFileSync(secret, `${password}\n`, { mode: 0o600 });
    if (user !== undefined)
      for (const path of [partial, secret]) chownSync(path, user.uid, user.gid);
    await promisify(execFile)(
      join(binaries, "bin", "initdb"),
      [
        ...["-D", partial, "-U", POSTGRES_USER, "--auth=scram-sha-256", `--pwfile=${secret}`],
        ...[
          "--encoding=UTF8",
          "--locale=C",
          "--locale-provider=builtin",
          "--builtin-locale=C.UTF-8",
        ],
        "--no-instructions",
      ],
      { ...user, cwd: partial, ...(signal && { signal }) },
    );
  } finally {
    rmSync(secret, { force: true });
  }
  renameSync(partial, dataDir);
}
