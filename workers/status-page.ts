import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo } from "node:net";

import { type Logger } from "#runtime/log.ts";
import { type Probe, type Service } from "#runtime/service.ts";
import { type Telemetry } from "#runtime/telemetry.ts";

import { type Dependency, type Role } from "./role.ts";

/** What the page tells of. */
export interface StatusPageOptions {
  readonly host: string;
  /** 0 lets the system choose. */
  readonly port: number;
  readonly roles: readonly Role[];
  readonly dependencies: Readonly<Record<Dependency, Probe>>;
  /** What people should know and is no fault. */
  readonly notes: () => readonly string[];
  readonly telemetry: Telemetry;
  /** Raised when the process begins to stop: nothing is ready from then on. */
  readonly stopping: AbortSignal;
  readonly log: Logger;
}

interface Answer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
}

/** Nobody needs more of a page of three short texts. */
const MAX_CONNECTIONS = 64;
const TIMEOUT_MS = 5_000;

/** Serves /healthz, /readyz and /metrics of a worker process over HTTP/1.1. Ready once it listens. */
export function createStatusPage(options: StatusPageOptions): Service {
  const { host, port, telemetry, log } = options;
  const ready = Promise.withResolvers<void>();

  async function answer(path: string): Promise<Answer> {
    switch (path) {
      case "/healthz":
        return json(200, { status: "ok" });
      case "/readyz":
        return readiness(options);
      case "/metrics":
        return { status: 200, ...(await telemetry.page()) };
      default:
        return json(404, { code: "not_found", message: "There are /healthz, /readyz and /metrics" });
    }
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const allowed = request.method === "GET" || request.method === "HEAD";
    const { status, contentType, body } = allowed
      ? await answer(new URL(request.url ?? "/", "http://worker").pathname)
      : json(405, { code: "unimplemented", message: "Ask with GET" });
    response.writeHead(status, {
      "content-type": contentType,
      "cache-control": "no-store",
      ...(!allowed && { allow: "GET, HEAD" }),
    });
    response.end(body);
  }

  function createPage(): Server {
    const server = createServer({
      requestTimeout: TIMEOUT_MS,
      headersTimeout: TIMEOUT_MS,
      keepAliveTimeout: TIMEOUT_MS,
    });
    server.maxConnections = MAX_CONNECTIONS;
    server.on("request", (request: IncomingMessage, response: ServerResponse) => {
      serve(request, response).catch((error: unknown) => {
        log.error("The status page could not be made", { error });
        response.destroy();
      });
    });
    return server;
  }

  return {
    name: "status page",
    ready: ready.promise,
    async run(signal) {
      const server = createPage();
      server.listen(port, host);
      await once(server, "listening");
      log.info("Status page", { host, port: (server.address() as AddressInfo).port });
      ready.resolve();
      if (!signal.aborted)
        await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      server.close();
      server.closeAllConnections();
    },
  };
}

/**
 * In the shape of the server's: every role with its reasons, every dependency; and whether a role waits for a person. 503
 * unless all roles do their work.
 */
async function readiness({ roles, dependencies, notes, stopping }: StatusPageOptions): Promise<Answer> {
  const faults = { kafka: await ask(dependencies.kafka), postgresql: await ask(dependencies.postgresql) };
  const services = roles.map((role) => {
    const missing = role.dependencies.flatMap((name) =>
      faults[name] === undefined ? [] : [`${name}: ${faults[name]}`],
    );
    const found = role.fault === undefined ? missing : [...missing, role.fault];
    const reasons = stopping.aborted ? ["the process is stopping"] : found;
    const { failed, dependencies: needs } = role;
    return [role.name, { ready: reasons.length === 0, failed, dependencies: needs, reasons }] as const;
  });
  const ready = services.every(([, service]) => service.ready);
  return json(ready ? 200 : 503, {
    status: stopping.aborted ? "stopping" : ready ? "ready" : "not_ready",
    services: Object.fromEntries(services),
    dependencies: Object.fromEntries(
      Object.entries(faults).map(([name, reason]) => [
        name,
        reason === undefined ? { ready: true } : { ready: false, reason },
      ]),
    ),
    notes: notes(),
  });
}

async function ask(probe: Probe): Promise<string | undefined> {
  try {
    return await probe();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function json(status: number, value: unknown): Answer {
  return { status, contentType: "application/json", body: `${JSON.stringify(value)}\n` };
}
