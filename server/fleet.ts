import cluster, { type Worker } from "node:cluster";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { type Logger } from "#runtime/log.ts";
import { type Service } from "#runtime/service.ts";

/** Several server processes behind one port. */
export interface FleetOptions {
  /** How many processes serve. */
  readonly processes: number;
  /** The metrics port of the first one; each further one has the next. */
  readonly metricsPort: number;
  readonly log: Logger;
}

/** So many deaths within WINDOW_MS are a crash loop, which a restart does not cure. */
const MOST_DEATHS = 5;
const WINDOW_MS = 60_000;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

/**
 * Runs the server as several processes: this one takes the connections of the port and hands them round, which costs a
 * connection and not a request; it serves nothing itself. A process that dies is replaced, after a pause that grows with
 * each death.
 *
 * `run` rejects, so that all end, where a process ends before it serves for the first time, and where MOST_DEATHS have
 * died within a minute. On its signal every process stops in order, as a single one does; where one does not end well,
 * it rejects too. Should this process be killed, the others end at once.
 */
export function createFleet({ processes, metricsPort, log }: FleetOptions): Service {
  const ready = Promise.withResolvers<void>();
  ready.promise.catch(() => undefined);
  const running = new Set<Worker>();
  const deaths: number[] = [];

  /** One place of the fleet: a process after the other, until the signal. Answers whether the last one ended well. */
  async function keep(index: number, signal: AbortSignal, serves: () => void): Promise<boolean> {
    for (let hasServed = false; ;) {
      const place = { metricsPort: metricsPort + index };
      const worker = cluster.fork({ WEIR_METRICS_PORT: String(place.metricsPort) });
      const { pid } = worker.process;
      running.add(worker);
      log.info("A server process was started", { pid, ...place });
      if (signal.aborted) worker.process.kill("SIGTERM");
      // The port comes last, after the metrics port.
      let ports = 0;
      worker.on("listening", () => {
        ports += 1;
        if (ports < 2) return;
        hasServed = true;
        serves();
      });
      const [code, killedBy] = (await once(worker, "exit")) as [number | null, string | null];
      running.delete(worker);
      if (signal.aborted) return code === 0;
      if (!hasServed) throw new Error(`A server process (${String(pid)}) ended before it served.`);
      const now = performance.now();
      deaths.push(now);
      const recent = deaths.filter((at) => now - at < WINDOW_MS).length;
      if (recent >= MOST_DEATHS) {
        throw new Error(
          `${String(recent)} server processes have died within ${String(WINDOW_MS / 1_000)} s.`,
        );
      }
      const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** recent, LONGEST_PAUSE_MS);
      log.error("A server process ended and is replaced", { pid, ...place, code, signal: killedBy, pauseMs });
      await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return true;
    }
  }

  return {
    name: "server processes",
    ready: ready.promise,
    async run(stop) {
      const end = new AbortController();
      const signal = AbortSignal.any([stop, end.signal]);
      signal.addEventListener("abort", () => {
        for (const worker of running) worker.process.kill("SIGTERM");
      });
      let serving = 0;
      const serves = (): void => {
        serving += 1;
        if (serving === processes) ready.resolve();
      };
      const places = Array.from({ length: processes }, (_, index) => keep(index, signal, serves));
      try {
        const ends = await Promise.all(places);
        if (!ends.every(Boolean)) throw new Error("A server process did not stop in order.");
      } catch (error) {
        end.abort();
        await Promise.allSettled(places);
        ready.reject(error);
        throw error;
      }
    },
  };
}
