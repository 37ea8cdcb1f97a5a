import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";

// Whatever is measured, and whatever loads it, is a process of its own, which is given its order and answers by messages.

/** A process that serves a port. */
export interface ServerTask extends AsyncDisposable {
  readonly port: number;
  readonly pid: number;
}

/** Starts a server, which says on which port it listens; disposing ends it. */
export async function startServer(entry: string): Promise<ServerTask> {
  const child = start(entry);
  const { port } = (await answerOf(child, entry)) as { readonly port: number };
  return {
    port,
    pid: child.pid ?? 0,
    async [Symbol.asyncDispose]() {
      child.kill();
      await once(child, "exit");
    },
  };
}

/** A client process: what it came to, and what another process spent meanwhile. */
export interface TaskResult<T> {
  readonly result: T;
  /** CPU seconds of the process that was watched; undefined where the system has no /proc. */
  readonly watchedCpu: number | undefined;
}

/**
 * Runs a client process to its end. It answers twice: when it begins to measure, and with its result.
 *
 * @param watch the processes whose CPU time counts between the two.
 */
export async function runClient<T>(
  entry: string,
  order: unknown,
  watch: readonly number[] = [],
): Promise<TaskResult<T>> {
  const child = start(entry);
  child.send(order as object);
  await answerOf(child, entry);
  const before = cpuSeconds(watch);
  const result = (await answerOf(child, entry)) as T;
  const after = cpuSeconds(watch);
  child.disconnect();
  await once(child, "exit");
  return {
    result,
    watchedCpu: before === undefined || after === undefined ? undefined : after - before,
  };
}

function start(entry: string): ChildProcess {
  return fork(join(import.meta.dirname, entry), {
    execArgv: ["--disable-warning=TimeoutNegativeWarning"],
  });
}

async function answerOf(child: ChildProcess, entry: string): Promise<unknown> {
  const exited = once(child, "exit").then(([code]) => {
    throw new Error(`bench/${entry} ended with exit code ${String(code)}`);
  });
  const [answer] = (await Promise.race([once(child, "message"), exited])) as [unknown];
  return answer;
}

/** Linux counts in ticks of 10 ms (proc(5), fields 14 and 15 of stat, and USER_HZ). */
const TICKS_PER_SECOND = 100;

/** CPU time of processes so far, user and system; undefined where the system has no /proc. */
export function cpuSeconds(pids: readonly number[]): number | undefined {
  try {
    let ticks = 0;
    for (const pid of pids) {
      // The name, in parentheses, may hold spaces.
      const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
      ticks += Number(fields[11]) + Number(fields[12]);
    }
    return ticks / TICKS_PER_SECOND;
  } catch {
    return undefined;
  }
}

/** The order of this process, where it is a client. */
export async function order<T>(): Promise<T> {
  const [given] = (await once(process, "message")) as [T];
  return given;
}

/** Answers the process that started this one. */
export function answer(value: object): void {
  process.send?.(value);
}
