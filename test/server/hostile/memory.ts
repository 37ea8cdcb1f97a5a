import { readFileSync } from "node:fs";

/** What a process of Node's has in memory, in bytes. */
export interface Memory {
  /** What is reachable: the JavaScript heap and the buffers outside it. All garbage was collected before. */
  readonly liveBytes: number;
  /** The most that was ever resident. */
  readonly peakBytes: number;
}

/** Node's arguments by which a process can be asked for its memory: on a port of the system's choice. */
export const INSPECTED = "--inspect=127.0.0.1:0";

/**
 * Asks a process that runs with INSPECTED, through Node's inspector: the process has no code of ours for it.
 *
 * @param logFile where its standard error goes, in which Node writes the inspector's address.
 */
export async function readMemory(logFile: string): Promise<Memory> {
  const [, url] = /^Debugger listening on (ws:\S+)$/m.exec(readFileSync(logFile, "utf8")) ?? [];
  if (url === undefined) throw new Error(`No inspector's address in ${logFile}`);
  const socket = new WebSocket(url);
  try {
    await next(socket, "open");
    await call(socket, 1, "HeapProfiler.collectGarbage", {});
    const { result } = await call(socket, 2, "Runtime.evaluate", { expression: EXPRESSION });
    return JSON.parse(result.value) as Memory;
  } finally {
    socket.close();
  }
}

const EXPRESSION = `{
  const { heapUsed, external } = process.memoryUsage();
  JSON.stringify({ liveBytes: heapUsed + external, peakBytes: process.resourceUsage().maxRSS * 1024 });
}`;

interface Reply {
  readonly id: number;
  readonly result: { readonly result: { readonly value: string } };
}

/** Calls a method of the Chrome DevTools Protocol. */
async function call(socket: WebSocket, id: number, method: string, params: object): Promise<Reply["result"]> {
  const replied = next(socket, "message");
  socket.send(JSON.stringify({ id, method, params }));
  const reply = JSON.parse(String(await replied)) as Reply;
  if (reply.id !== id) throw new Error(`Another message than the answer to ${method}`);
  return reply.result;
}

/** The data of the next such event, where it has any. */
function next(socket: WebSocket, event: "open" | "message"): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const heard = (given: Event): void => resolve("data" in given ? given.data : undefined);
    socket.addEventListener(event, heard, { once: true });
    socket.addEventListener("error", () => reject(new Error("The inspector does not answer")), {
      once: true,
    });
  });
}
