import { spawn, type ChildProcess } from "node:child_process";

import { type Journal, type StartedProcess } from "./journal.ts";

/** How long one process may take to end, in tenths of a second, before it is ended by force. */
const GRACE = 100;

/**
 * Reads "+ pid signal" and "- pid" until its input ends, which it does when the process at the other end is gone, however
 * it went; then ends what is left, the last first: each is asked, and the next when it is gone. A process that nobody has
 * collected yet (Linux: state Z) is gone.
 */
const WATCHER = `
tied=""
while read -r change pid signal; do
  case $change in
    +) tied="$pid:$signal $tied" ;;
    -) left=""; for each in $tied; do case $each in $pid:*) ;; *) left="$left$each " ;; esac; done; tied=$left ;;
  esac
done
lives() {
  kill -0 "$1" || return 1
  [ -r "/proc/$1/stat" ] || return 0
  read -r stat < "/proc/$1/stat" || return 1
  case \${stat##*) } in Z*|X*) return 1 ;; esac
}
for each in $tied; do
  pid=\${each%:*}
  kill -s "\${each#*:}" "$pid"
  waited=0
  while lives "$pid" && [ $waited -lt ${GRACE} ]; do sleep 0.1; waited=$((waited + 1)); done
  kill -s KILL "$pid"
done
`;

let watcher: ChildProcess | undefined;

/**
 * Ties a process to this one: it does not outlive us, not even where we are killed; then it gets this signal, and
 * SIGKILL where it has not ended after ten seconds, once those that were tied later are gone. Gives what unties it, to be
 * called once it has ended.
 */
export function leash(pid: number, signal: NodeJS.Signals = "SIGKILL"): () => void {
  watcher ??= startWatcher();
  const { stdin } = watcher;
  stdin?.write(`+ ${pid} ${signal.slice("SIG".length)}\n`);
  return () => stdin?.write(`- ${pid}\n`);
}

/**
 * Sees to a process that was just started, should this one be killed: with a journal it is asked to end, in its turn,
 * and what outlives even that is stopped by whoever reads the journal; without one it ends at once. Gives what is to be
 * called once it has ended.
 */
export function lookAfter(started: StartedProcess, journal: Journal | undefined): () => void {
  if (journal === undefined) return leash(started.pid);
  const untie = leash(started.pid, started.stopSignal);
  journal.add(started, watcher?.pid);
  return untie;
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
