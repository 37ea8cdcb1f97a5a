import { spawn, type ChildProcess } from "node:child_process";

import { type Journal, type StartedProcess } from "./journal.ts";

/**
 * Reads "+ pid" and "- pid" until its input ends, which it does when the process at the other end is gone, however it
 * went; then ends by force what is left.
 */
const WATCHER = `
pids=" "
while read -r change pid; do
  case $change in
    +) pids="$pids$pid " ;;
    -) pids="\${pids%% $pid *} \${pids#* $pid }" ;;
  esac
done
for pid in $pids; do kill -KILL "$pid"; done
`;

let watcher: ChildProcess | undefined;

/**
 * Ties a process to this one: it does not outlive us, not even where we are killed. Gives what unties it, to be called
 * once it has ended.
 */
export function leash(pid: number): () => void {
  watcher ??= startWatcher();
  const { stdin } = watcher;
  stdin?.write(`+ ${pid}\n`);
  return () => stdin?.write(`- ${pid}\n`);
}

/**
 * Sees to a process that was just started, should this one be killed: whoever reads the journal stops it, or, without a
 * journal, it ends at once. Gives what is to be called once it has ended.
 */
export function lookAfter(started: StartedProcess, journal: Journal | undefined): () => void {
  if (journal === undefined) return leash(started.pid);
  journal.add(started);
  return () => {};
}

/** In a process group of its own, which a terminal's Ctrl-C does not reach. */
function startWatcher(): ChildProcess {
  const child = spawn("sh", ["-c", WATCHER], { detached: true, stdio: ["pipe", "ignore", "ignore"] });
  // A watcher that was itself killed watches nothing, which is no reason to end.
  child.stdin?.on("error", () => {});
  // Neither keeps this process: it may end whenever it wants.
  child.unref();
  (child.stdin as unknown as { unref(): void }).unref();
  return child;
}
