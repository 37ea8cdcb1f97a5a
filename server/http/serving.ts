import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Code, type ConnectError } from "@connectrpc/connect";
import { type Logger } from "#runtime/log.ts";
import { type Service } from "#runtime/service.ts";
import { toConnectError } from "../errors.ts";
import { type Listener, listen, type ListenerOptions, type RequestHandler } from "./listener.ts";

/** A port that is served for as long as the process runs, and how it ends. Times are milliseconds. */
export interface ServingOptions {
  readonly name: string;
  readonly listener: ListenerOptions;
  readonly handler: RequestHandler;
  /** How long connections are still taken after the stop has begun, so that load balancers see that it is not ready. */
  readonly stopDelayMs: number;
  /** How long requests in flight may take to finish. */
  readonly drainTimeoutMs: number;
  /** Aborted, with an error of toConnectError's, when the requests still in flight must end. */
  readonly shutdown: AbortController;
  readonly log: Logger;
}

/** A served port. */
export interface Serving extends Service {
  /** undefined until it listens. */
  readonly listener: Listener | undefined;
}

/** For the answers of requests that were ended to leave the machine. */
const FLUSH_MS = 500;

/**
 * Serves a port. On a stop it goes on for a while, then takes no more connections and waits for the requests in flight;
 * those that do not finish in time are ended with an error that says so.
 */
export function createServing(options: ServingOptions): Serving {
  const { name, log, shutdown, drainTimeoutMs } = options;
  const ready = Promise.withResolvers<void>();
  let listener: Listener | undefined;
  return {
    name,
    ready: ready.promise,
    async run(signal) {
      try {
        listener = await listen(options.listener, options.handler);
      } catch (error) {
        // The run's own rejection is what the process hears.
        ready.promise.catch(() => undefined);
        ready.reject(error);
        throw error;
      }
      const { host } = options.listener;
      log.info("Listening", { on: name, host, port: listener.port, tls: options.listener.tls !== undefined });
      ready.resolve();
      if (!signal.aborted) await once(signal, "abort");
      await sleep(options.stopDelayMs);
      const timer = setTimeout(() => shutdown.abort(shuttingDown()), drainTimeoutMs);
      await listener.close(drainTimeoutMs + FLUSH_MS);
      clearTimeout(timer);
    },
    get listener() {
      return listener;
    },
  };
}

/** What a call is told that was in flight when the server stopped. */
export function shuttingDown(): ConnectError {
  return toConnectError({
    code: Code.Unavailable,
    reason: "SHUTTING_DOWN",
    message:
      "The server is stopping. Try again: another one, or this one when it is back, will take the call.",
    retryAfterMs: 1_000,
  });
}
