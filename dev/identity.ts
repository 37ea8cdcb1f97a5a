import { execFileSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";

/** A process, told apart from a later one that was given the same id by the moment at which it started. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Opaque; to be compared alone. */
  readonly started: string;
}

/** Who has this process id now; undefined where nobody has (or a process that ended and was not yet collected). */
export function identify(pid: number): ProcessIdentity | undefined {
  const started = process.platform === "linux" ? startOnLinux(pid) : startByPs(pid);
  return started === undefined ? undefined : { pid, started };
}

/** Whether this very process still runs. */
export function isAlive(identity: ProcessIdentity): boolean {
  return identify(identity.pid)?.started === identity.started;
}

/** Which folder this is, wherever it is moved to; a copy is another one. Opaque; to be compared alone. */
export function identifyFolder(path: string): string {
  const { dev, ino } = statSync(path);
  return `${dev}:${ino}`;
}

/** Start in clock ticks since boot (proc_pid_stat(5), field 22), and which boot: steady where the clock is set. */
function startOnLinux(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The command, in parentheses, may itself hold spaces and parentheses; the state follows the last one.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    if (fields[0] === "Z" || fields[0] === "X") return undefined;
    return `${fields[19]} ${readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()}`;
  } catch {
    return undefined;
  }
}

function startByPs(pid: number): string | undefined {
  try {
    const line = execFileSync("ps", ["-o", "stat=,lstart=", "-p", String(pid)], {
      encoding: "utf8",
      env: { ...process.env, LC_ALL: "C" },
      stdio: ["ignore", "pipe", "ignore"],
    }).trim();
    const [state = "", ...start] = line.split(/\s+/);
    return state === "" || state.startsWith("Z") ? undefined : start.join(" ");
  } catch {
    return undefined;
  }
}
