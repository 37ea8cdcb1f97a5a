import { type Config, ConfigError, loadConfig, unknownVariables } from "./config.ts";
import { createLogger, type Logger } from "./log.ts";
import { observeProcess } from "./process-metrics.ts";
import { type Service } from "./service.ts";
import { createTelemetry, type Telemetry } from "./telemetry.ts";
import { createTracer, type Tracer } from "./tracing.ts";

/** What a process gives to its composition root. */
export interface ProcessContext<G extends keyof Config> {
  readonly config: Pick<Config, G>;
  readonly log: Logger;
  readonly telemetry: Telemetry;
  /** undefined where tracing is off. */
  readonly tracer: Tracer | undefined;
  /**
   * What must be given back at the end: producers, pools. It is disposed of last in, first out, once every service has
   * stopped; the spans that are left and then the telemetry come last.
   */
  readonly resources: AsyncDisposableStack;
  /** Raised when the stop begins, before any service is told: from then on the process is not ready. */
  readonly stopping: AbortSignal;
}

/** A process: its name, the settings that it reads, and its composition root. */
export interface ProcessOptions<G extends keyof Config> {
  readonly name: string;
  readonly needs: readonly G[];
  /**
   * Makes everything and answers the services in the order of their start; they stop in reverse order. Called once.
   * Where `stopping` is raised meanwhile it should give up soon.
   */
  readonly start: (context: ProcessContext<G>) => Promise<readonly Service[]>;
}

/** What every process reads for itself. */
const OWN = ["process", "tracing"] as const;
type Own = (typeof OWN)[number];

/**
 * Runs a process until it is asked to stop (SIGTERM, SIGINT) or one of its services ends, then ends it with status 0
 * where it was asked for and went well, else 1.
 *
 * The stop: `stopping` is raised (readiness fails), the services stop one after the other in reverse order, each
 * finishing what it has in flight; then resources, telemetry and log. A second signal, or WEIR_STOP_TIMEOUT, ends the
 * process at once; so do an uncaught exception and an unhandled rejection, since nothing can be said of the state that
 * they leave. No event is lost by it: what is not accounted for is read again.
 */
export async function runProcess<G extends keyof Config>(options: ProcessOptions<G>): Promise<void> {
  const config = readConfig(options.needs);
  const { logLevel: level, logFormat: format, stopTimeoutMs } = config.process;
  const log = await createLogger({ name: options.name, level, format });
  for (const warning of unknownVariables()) log.warn(warning);

  const stop = new AbortController();
  const beginStop = (): void => {
    if (stop.signal.aborted) return;
    stop.abort();
    setTimeout(() => {
      endNow(log, "The stop took longer than WEIR_STOP_TIMEOUT: the process ends at once", { stopTimeoutMs });
    }, stopTimeoutMs).unref();
  };
  process.on("uncaughtException", (error) =>
    endNow(log, "Uncaught exception: the process ends at once", { error }),
  );
  process.on("unhandledRejection", (error) =>
    endNow(log, "Unhandled rejection: the process ends at once", { error }),
  );
  onStopSignal(log, beginStop);

  const well = await runServices(options, config, log, stop.signal, beginStop);
  // Explicitly, since a timer or socket that a library forgot would keep the process.
  process.exit(well ? 0 : 1);
}

function readConfig<G extends keyof Config>(needs: readonly G[]): Pick<Config, G | Own> {
  try {
    return loadConfig([...OWN, ...needs]);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    // There is no log yet, its own settings may be the bad ones.
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  }
}

function endNow(log: Logger, message: string, fields: Readonly<Record<string, unknown>>): never {
  log.error(message, fields);
  process.exit(1);
}

/**
 * One Ctrl-C may arrive twice: from the terminal, which signals the whole process group, and again from a parent, such
 * as npm, that passes it on.
 */
const SAME_SIGNAL_MS = 500;

function onStopSignal(log: Logger, beginStop: () => void): void {
  let first: number | undefined;
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.on(signal, () => {
      if (first === undefined) {
        first = performance.now();
        log.info("Stopping", { signal });
        beginStop();
      } else if (performance.now() - first > SAME_SIGNAL_MS) {
        endNow(log, "Second signal: the process ends at once", { signal });
      }
    });
  }
}

/** Starts, waits, stops. Answers whether all went well. */
async function runServices<G extends keyof Config>(
  options: ProcessOptions<G>,
  config: Pick<Config, G | Own>,
  log: Logger,
  stopping: AbortSignal,
  beginStop: () => void,
): Promise<boolean> {
  let well = true;
  const told = new Set<unknown>();
  const fail = (message: string, fields: Readonly<Record<string, unknown>>): void => {
    well = false;
    // A service that cannot start says so by its `ready` and by its end.
    const { error } = fields;
    if (error === undefined || !told.has(error)) log.error(message, fields);
    told.add(error);
    beginStop();
  };
  const stopped = new Promise<void>((resolve) => stopping.addEventListener("abort", () => resolve()));
  const resources = new AsyncDisposableStack();
  const running: Running[] = [];
  try {
    const telemetry = resources.use(createTelemetry(log.scope("telemetry")));
    resources.use(observeProcess(telemetry));
    const tracer = await createTracer({
      ...config.tracing,
      serviceName: `weir-${options.name}`,
      telemetry,
      log: log.scope("tracing"),
    });
    resources.use(tracer);
    for (const service of await options.start({ config, log, telemetry, tracer, resources, stopping })) {
      if (stopping.aborted) break;
      const started = run(service, fail);
      running.push(started);
      await Promise.race([service.ready, started.done, stopped]);
    }
    if (!stopping.aborted) log.info("Started", { services: running.map((each) => each.name) });
    await stopped;
  } catch (error) {
    // Whoever was told to stop while starting has not failed.
    if (stopping.aborted && well) log.info("Start given up", { error });
    else fail("The process could not start", { error });
  }
  for (const each of running.reverse()) {
    each.stop.abort();
    await each.done;
    log.debug("Service stopped", { service: each.name });
  }
  try {
    await resources.disposeAsync();
  } catch (error) {
    fail("Not everything could be closed", { error });
  }
  log.info("Stopped", { well });
  return well;
}

interface Running {
  readonly name: string;
  readonly stop: AbortController;
  /** Resolves when the service has ended, however it did. */
  readonly done: Promise<void>;
}

function run(
  service: Service,
  fail: (message: string, fields: Readonly<Record<string, unknown>>) => void,
): Running {
  const stop = new AbortController();
  const done = service.run(stop.signal).then(
    () => {
      if (!stop.signal.aborted) fail("A service ended unasked", { service: service.name });
    },
    (error: unknown) => fail("A service failed", { service: service.name, error }),
  );
  return { name: service.name, stop, done };
}
