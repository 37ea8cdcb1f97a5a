import { setTimeout as sleep } from "node:timers/promises";
import { type Logger } from "#runtime/log.ts";
import { type Probe, type Service } from "#runtime/service.ts";

/** What services depend on, and how it is watched. */
export interface ReadinessOptions {
  /** By name: what tells whether a dependency is well. */
  readonly dependencies: Readonly<Record<string, Probe>>;
  /** By a service's full name: the dependencies without which it cannot do its work. */
  readonly services: Readonly<Record<string, readonly string[]>>;
  /** The dependencies without which no service can. */
  readonly everywhere?: readonly string[];
  /** By a dependency's name: what an operator should know of it though it is well; undefined for nothing. */
  readonly notes?: Readonly<Record<string, () => string | undefined>>;
  /** Raised when the process begins to stop: nothing is ready from then on. */
  readonly stopping: AbortSignal;
  readonly log: Logger;
}

/** Whether one service can do its work now, and if not, every reason why. */
export interface ServiceReadiness {
  readonly ready: boolean;
  readonly dependencies: readonly string[];
  readonly reasons: readonly string[];
}

/** Whether one dependency is well. */
export interface DependencyState {
  readonly ready: boolean;
  /** Why it is not. */
  readonly reason?: string;
  readonly note?: string;
}

/** What /readyz says. */
export interface ReadinessReport {
  /** Every service is ready; some are; none is; the process is stopping. */
  readonly status: "ready" | "partial" | "not_ready" | "stopping";
  readonly services: Readonly<Record<string, ServiceReadiness>>;
  readonly dependencies: Readonly<Record<string, DependencyState>>;
}

/** Whether the process as a whole should be sent requests: at least one of its services can serve them. */
export function isServing({ status }: ReadinessReport): boolean {
  return status === "ready" || status === "partial";
}

/** Watches the dependencies. Everything asked of it is answered at once, from what was last seen. */
export interface Readiness extends Service {
  /** One service's readiness; undefined where there is no such service. */
  of(service: string): ServiceReadiness | undefined;
  readonly report: ReadinessReport;
  /** Resolves when the readiness of a service changes, or when the signal is raised. */
  changed(signal: AbortSignal): Promise<void>;
}

const INTERVAL_MS = 1_000;
const PROBE_TIMEOUT_MS = 3_000;
const NOT_SEEN = "was not reached yet";
const STOPPING = "the process is stopping";

/** The readiness of a process's services. Its `ready` settles once every dependency was asked for the first time. */
export function createReadiness(options: ReadinessOptions): Readiness {
  const { services, stopping, log } = options;
  const faults = new Map<string, string | undefined>(
    Object.keys(options.dependencies).map((name) => [name, NOT_SEEN]),
  );
  const first = Promise.withResolvers<void>();
  const waiting = new Set<() => void>();
  const tell = (): void => {
    for (const wake of waiting) wake();
  };

  const ask = async (name: string, probe: Probe): Promise<void> => {
    const fault = await probeFault(probe);
    const before = faults.get(name);
    faults.set(name, fault);
    if (fault === before) return;
    if (fault === undefined) log.info("A dependency is well", { dependency: name });
    else if (before === undefined || before === NOT_SEEN)
      log.warn("A dependency is away", { dependency: name, fault });
    tell();
  };

  const watch = async (name: string, probe: Probe, signal: AbortSignal): Promise<void> => {
    while (!signal.aborted) {
      await sleep(INTERVAL_MS, undefined, { signal, ref: false }).catch(() => undefined);
      if (!signal.aborted) await ask(name, probe);
    }
  };

  const readinessOf = (own: readonly string[]): ServiceReadiness => {
    const needed = [...own, ...(options.everywhere ?? [])];
    const missing = needed.flatMap((name) => {
      const fault = faults.get(name);
      return fault === undefined ? [] : [`${name}: ${fault}`];
    });
    const reasons = stopping.aborted ? [STOPPING] : missing;
    return { ready: reasons.length === 0, dependencies: needed, reasons };
  };

  return {
    name: "readiness",
    ready: first.promise,
    async run(signal) {
      stopping.addEventListener("abort", tell, { once: true });
      const dependencies = Object.entries(options.dependencies);
      await Promise.all(dependencies.map(([name, probe]) => ask(name, probe)));
      first.resolve();
      await Promise.all(dependencies.map(([name, probe]) => watch(name, probe, signal)));
    },
    of(service) {
      const needed = Object.hasOwn(services, service) ? services[service] : undefined;
      return needed && readinessOf(needed);
    },
    get report() {
      const each = Object.entries(services).map(([name, needed]) => [name, readinessOf(needed)] as const);
      const readyOnes = each.filter(([, { ready }]) => ready).length;
      return {
        status: stopping.aborted ? "stopping" : statusOf(readyOnes, each.length),
        services: Object.fromEntries(each),
        dependencies: Object.fromEntries(
          [...faults].map(([name, fault]) => [name, stateOf(fault, options.notes?.[name]?.())]),
        ),
      };
    },
    async changed(signal) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const wake = (): void => resolve();
      waiting.add(wake);
      signal.addEventListener("abort", wake);
      if (signal.aborted) wake();
      await promise;
      waiting.delete(wake);
      signal.removeEventListener("abort", wake);
    },
  };
}

function statusOf(ready: number, all: number): ReadinessReport["status"] {
  if (ready === all) return "ready";
  return ready > 0 ? "partial" : "not_ready";
}

function stateOf(fault: string | undefined, note: string | undefined): DependencyState {
  return {
    ready: fault === undefined,
    ...(fault !== undefined && { reason: fault }),
    ...(note !== undefined && { note }),
  };
}

async function probeFault(probe: Probe): Promise<string | undefined> {
  const late = new AbortController();
  try {
    return await Promise.race([
      probe(),
      sleep(PROBE_TIMEOUT_MS, `did not answer within ${String(PROBE_TIMEOUT_MS / 1000)} s`, {
        signal: late.signal,
        ref: false,
      }),
    ]);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  } finally {
    late.abort();
  }
}
