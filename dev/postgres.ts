import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { startChild, untilReady, type Child } from "./child.ts";
import { identify } from "./identity.ts";
import { type Journal } from "./journal.ts";
import { type Owner } from "./postgres-owner.ts";
import { tailOf } from "./tail.ts";
import { runTool } from "./tool.ts";

const POSTGRES_USER = "weir";
const READY_TIMEOUT_MS = 60_000;
const RETRY_MS = 100;

/** The database that a new server has beside its own `postgres`. */
export const POSTGRES_DATABASE = "weir";

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
  /** Makes `password` the superuser's of data that have another. Default: it is theirs already. */
  readonly isPasswordNew?: boolean;
  /** PostgreSQL refuses to run as root: the user to run it as there. */
  readonly user?: Owner | undefined;
  /** Further settings of this server, such as `fsync: "off"`. */
  readonly settings?: Readonly<Record<string, string>>;
  readonly journal?: Journal | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The address of one database of a server that {@link startPostgres} started, for its superuser. */
export function postgresUrl(port: number, password: string, database: string): string {
  return `postgres://${POSTGRES_USER}:${encodeURIComponent(password)}@127.0.0.1:${port}/${database}`;
}

/**
 * Starts a PostgreSQL server, whose data folder is made the first time with UTF-8, the C locale and password
 * authentication, and resolves once it takes connections. Its data survive a stop and a kill.
 */
export async function startPostgres(options: PostgresOptions): Promise<Child> {
  const { binaries, dataDir, logFile, port, user, signal } = options;
  refuseLiveCopy(dataDir);
  if (!existsSync(join(dataDir, "PG_VERSION"))) await initialise(options);
  else if (options.isPasswordNew === true) await replacePassword(options);
  const settings = {
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    port: String(port),
    ...options.settings,
  };
  const deadline = Date.now() + READY_TIMEOUT_MS;
  for (;;) {
    const child = await startChild({
      name: "PostgreSQL",
      command: join(binaries, "bin", "postgres"),
      args: ["-D", dataDir, ...Object.entries(settings).flatMap(([key, value]) => ["-c", `${key}=${value}`])],
      cwd: dataDir,
      logFile,
      user,
      // SIGINT is the fast shutdown; SIGTERM would wait for every client to leave.
      stopSignal: "SIGINT",
      journal: options.journal,
    });
    try {
      const timeoutMs = Math.max(0, deadline - Date.now());
      return await untilReady(child, () => isReady(dataDir, child.pid), { timeoutMs, signal });
    } catch (error) {
      // After a kill the former server's processes hold its shared memory until they have noticed.
      if (!tailOf(logFile, child.logStart).includes("is still in use") || Date.now() > deadline) throw error;
      await sleep(RETRY_MS, undefined, { ...(signal && { signal }) });
    }
  }
}

/** The first two lines of postmaster.pid: which process, and in which folder that runs. */
function refuseLiveCopy(dataDir: string): void {
  const file = join(dataDir, "postmaster.pid");
  if (!existsSync(file)) return;
  const [pid, original = dataDir] = readFileSync(file, "utf8").split("\n");
  if (original !== dataDir && existsSync(original) && identify(Number(pid)) !== undefined)
    throw new Error(
      `${dataDir} is a copy of ${original}, made while PostgreSQL ran there: stop that, and copy again.`,
    );
}

/** The server writes its state to the eighth line of postmaster.pid, as pg_ctl reads it. */
function isReady(dataDir: string, pid: number): boolean {
  const file = join(dataDir, "postmaster.pid");
  if (!existsSync(file)) return false;
  const lines = readFileSync(file, "utf8").split("\n");
  return lines[0] === String(pid) && lines[7]?.trim() === "ready";
}

/** Alone with the data, without any port: nobody else is asked for a password, or let in without one. */
async function replacePassword({
  binaries,
  dataDir,
  password,
  user,
  journal,
  signal,
}: PostgresOptions): Promise<void> {
  await runTool(join(binaries, "bin", "postgres"), ["--single", "-D", dataDir, "postgres"], {
    failure: "PostgreSQL's lost password could not be replaced",
    user,
    cwd: dataDir,
    journal,
    signal,
    input: `ALTER ROLE ${POSTGRES_USER} PASSWORD '${password}';\n`,
  });
}

/** Makes the data folder under another name first, so that one cut short is never taken for a whole one. */
async function initialise(options: PostgresOptions): Promise<void> {
  const { binaries, dataDir, password, user, journal, signal } = options;
  const partial = `${dataDir}.partial`;
  const secret = `${dataDir}.password`;
  rmSync(partial, { recursive: true, force: true });
  if (existsSync(dataDir) && readdirSync(dataDir).length > 0)
    throw new Error(
      `${dataDir} holds files, but no PG_VERSION, so it is no whole PostgreSQL: move it away to begin anew.`,
    );
  mkdirSync(dirname(dataDir), { recursive: true });
  mkdirSync(partial, { mode: 0o700 });
  try {
    writeFileSync(secret, `${password}\n`, { mode: 0o600 });
    if (user !== undefined) for (const path of [partial, secret]) chownSync(path, user.uid, user.gid);
    const failure = "PostgreSQL's data folder could not be made";
    const tool = { failure, user, cwd: partial, journal, signal };
    await runTool(
      join(binaries, "bin", "initdb"),
      [
        `--pgdata=${partial}`,
        `--username=${POSTGRES_USER}`,
        `--pwfile=${secret}`,
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--no-instructions",
      ],
      tool,
    );
    await runTool(join(binaries, "bin", "postgres"), ["--single", "-D", partial, "postgres"], {
      ...tool,
      input: `CREATE DATABASE ${POSTGRES_DATABASE};\n`,
    });
  } finally {
    rmSync(secret, { force: true });
  }
  renameSync(partial, dataDir);
}
