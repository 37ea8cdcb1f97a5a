import * as net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

import { answer, order } from "./child-task.ts";
import { createAnswerReader } from "./http-answers.ts";

// The load generator, a process of its own: HTTP/1.1 over plain sockets, the same bytes again and again, one request at a
// time on each connection. A client library would take more CPU than the server that is to be measured.

/** What to send where. */
export interface LoadOrder {
  readonly port: number;
  /** The bytes of a whole request, in base64. */
  readonly request: string;
  readonly connections: number;
  readonly warmupSeconds: number;
  readonly seconds: number;
  /** Requests begin at this rate, however long their answers take; left out: each follows the one before. */
  readonly perSecond?: number | undefined;
}

/** What came of it. Latencies are milliseconds, from when a request was due. */
export interface LoadReport {
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

const { port, request, connections, warmupSeconds, seconds, perSecond } = await order<LoadOrder>();
const bytes = Buffer.from(request, "base64");
const latencies: number[] = [];
let isMeasuring = false;
let isOver = false;

/** One connection: sends a request and resolves at the end of its answer. */
async function connect(): Promise<() => Promise<void>> {
  const socket = net.connect({ port, host: "127.0.0.1", noDelay: true });
  let answered = Promise.withResolvers<void>();
  const read = createAnswerReader(({ status, body }) => {
    if (status === 200) answered.resolve();
    else answered.reject(new Error(`The server answered ${status}: ${body}`));
  });
  socket.on("data", read);
  socket.on("error", (error) => answered.reject(error));
  socket.on("close", () => answered.reject(new Error("The server closed the connection")));
  await new Promise<void>((resolve) => socket.once("connect", resolve));
  return () => {
    answered = Promise.withResolvers();
    socket.write(bytes);
    return answered.promise;
  };
}

function note(due: number): void {
  if (isMeasuring) latencies.push(performance.now() - due);
}

const open = await Promise.all(Array.from({ length: connections }, connect));

async function loadOneAfterTheOther(): Promise<void> {
  await Promise.all(
    open.map(async (send) => {
      while (!isOver) {
        const due = performance.now();
        await send();
        note(due);
      }
    }),
  );
}

async function loadAtRate(rate: number): Promise<void> {
  const idle = [...open];
  const pending = new Set<Promise<void>>();
  const began = performance.now();
  for (let count = 1; !isOver; count++) {
    const due = began + (count * 1000) / rate;
    await sleep(Math.max(0, due - performance.now()));
    // Where every connection waits for an answer, the request is late; that counts.
    while (idle.length === 0) await Promise.race(pending);
    const send = idle.pop()!;
    const sent = send().then(() => {
      note(due);
      idle.push(send);
      pending.delete(sent);
    });
    pending.add(sent);
  }
  await Promise.all(pending);
}

const loading = perSecond === undefined ? loadOneAfterTheOther() : loadAtRate(perSecond);
await Promise.race([loading, sleep(warmupSeconds * 1000)]);
answer({});
isMeasuring = true;
const began = performance.now();
await Promise.race([loading, sleep(seconds * 1000)]);
isMeasuring = false;
const took = (performance.now() - began) / 1000;
latencies.sort((a, b) => a - b);
const at = (share: number): number => latencies[Math.ceil(share * latencies.length) - 1] ?? Number.NaN;
const report: LoadReport = { perSecond: latencies.length / took, p50: at(0.5), p99: at(0.99), max: at(1) };
answer(report);
isOver = true;
await loading;
process.exit(0);
