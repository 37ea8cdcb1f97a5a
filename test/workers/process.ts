import { randomUUID } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { type Child, startChild } from "../../dev/child.ts";
import { freePort } from "../../dev/ports.ts";
import { type Bench } from "./bench.ts";

/** What /readyz of a worker says. */
export interface Readyz {
  readonly status: string;
  readonly services: Readonly<
    Record<string, { readonly ready: boolean; readonly reasons: readonly string[] }>
  >;
  readonly dependencies: Readonly<Record<string, { readonly ready: boolean; readonly reason?: string }>>;
}

/** A worker process: `npm run workers`. */
export interface WorkerProcess extends AsyncDisposable {
  readonly child: Child;
  readonly url: string;
  /** undefined while the page does not answer. */
  readyz(): Promise<Readyz | undefined>;
  /** All that it has written. */
  output(): string;
}

const ROOT = join(import.meta.dirname, "../..");

/** Starts a worker process on a bench; `env` wins over the bench's settings. */
export async function startWorkerProcess(
  bench: Bench,
  env: Readonly<Record<string, string>> = {},
): Promise<WorkerProcess> {
  const folder = mkdtempSync(join(tmpdir(), "weir-workers-"));
  const logFile = join(folder, `${randomUUID()}.log`);
  const port = await freePort();
  const child = await startChild({
    name: "workers",
    command: process.execPath,
    args: ["--disable-warning=TimeoutNegativeWarning", "workers/main.ts"],
    cwd: ROOT,
    logFile,
    env: {
      PATH: process.env["PATH"],
      WEIR_LOG_FORMAT: "json",
      WEIR_DATABASE_URL: bench.databaseUrl,
      WEIR_KAFKA_BROKERS: bench.broker.connection.brokers.join(","),
      WEIR_TOPIC_EVENTS: bench.events,
      WEIR_TOPIC_EVENTS_PARTITIONS: String(bench.partitions),
      WEIR_TOPIC_DEAD_LETTERS: bench.deadLetters,
      WEIR_TOPIC_DEAD_LETTERS_PARTITIONS: "1",
      WEIR_PERSIST_GROUP: bench.group,
      WEIR_WORKERS_PORT: String(port),
      ...env,
    },
  });
  const url = `http://127.0.0.1:${port}`;
  return {
    child,
    url,
    async readyz() {
      try {
        return (await (await fetch(`${url}/readyz`)).json()) as Readyz;
      } catch {
        return undefined;
      }
    },
    output: () => readFileSync(logFile, "utf8"),
    async [Symbol.asyncDispose]() {
      await child.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
