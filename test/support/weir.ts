import { randomBytes, randomUUID } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SignJWT } from "jose";
import { inject } from "vitest";

import { type Child, startChild, untilReady } from "../../dev/child.ts";
import { createTestDatabase } from "./database.ts";
import { deleteTopics } from "./topic.ts";

/** What a suite may choose of its Weir; everything else is its own and fresh. */
export interface WeirOptions {
  /** Brokers instead of the run's; its topics stay there. */
  readonly brokers?: string;
  /** A migrated database instead of a new one; it is not dropped. */
  readonly databaseUrl?: string;
  /** Further settings, which win over the harness's. */
  readonly env?: Readonly<Record<string, string>>;
  /** Whether to start a worker process too. Default false. */
  readonly workers?: boolean;
  /** What must be ready before the start is over. Default "all"; "listening" where something is meant to be away. */
  readonly until?: "all" | "listening";
}

/** A real server, as a process of its own, with topics and a database that no other suite has. */
export interface Weir extends AsyncDisposable {
  /** Such as "http://127.0.0.1:40123"; the same after a restart. */
  readonly baseUrl: string;
  readonly brokers: string;
  readonly databaseUrl: string;
  /** The topic of the events, of three partitions. */
  readonly topic: string;
  readonly deadLetterTopic: string;
  readonly server: Child;
  /** A token of the server's key: every scope, for alice, for an hour, unless said otherwise. */
  token(claims?: { readonly scope?: string; readonly sub?: string }): Promise<string>;
  /** The lines of the server's log so far. */
  log(): readonly Readonly<Record<string, unknown>>[];
}

/** Every scope there is. */
export const ALL_SCOPES = "events.write events.read admin.read admin.write";

const ROOT = join(import.meta.dirname, "../..");
const START_TIMEOUT_MS = 30_000;

/** Starts a Weir; disposing of it stops it and removes its topics, database and files. */
export async function startWeir(options: WeirOptions = {}): Promise<Weir> {
  await using stack = new AsyncDisposableStack();
  const { brokers = inject("kafkaBrokers"), until = "all" } = options;
  const isShared = options.brokers === undefined;
  const databaseUrl = options.databaseUrl ?? stack.use(await createTestDatabase()).url;
  const folder = mkdtempSync(join(tmpdir(), "weir-suite-"));
  stack.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  const suite = randomUUID().slice(0, 8);
  const [topic, deadLetterTopic] = [`test.events.${suite}`, `test.dlq.${suite}`];
  if (isShared) stack.defer(() => deleteTopics(brokers, [topic, deadLetterTopic]));

  const secret = randomBytes(32).toString("hex");
  const env = {
    PATH: process.env["PATH"],
    WEIR_LOG_FORMAT: "json",
    WEIR_KAFKA_BROKERS: brokers,
    WEIR_DATABASE_URL: databaseUrl,
    WEIR_TOPIC_EVENTS: topic,
    WEIR_TOPIC_EVENTS_PARTITIONS: "3",
    WEIR_TOPIC_DEAD_LETTERS: deadLetterTopic,
    WEIR_TOPIC_DEAD_LETTERS_PARTITIONS: "1",
    WEIR_PERSIST_GROUP: `test.persist.${suite}`,
    WEIR_JWT_ALGORITHM: "HS256",
    WEIR_JWT_SECRET: secret,
    WEIR_STOP_DELAY: "0s",
    ...options.env,
  };
  const run = async (name: "server" | "workers", own: Readonly<Record<string, string>>): Promise<Child> => {
    const child = await startChild({
      name,
      command: process.execPath,
      args: ["--disable-warning=TimeoutNegativeWarning", `${name}/main.ts`],
      cwd: ROOT,
      env: { ...env, ...own },
      logFile: join(folder, `${name}.log`),
      graceMs: 10_000,
    });
    stack.defer(() => child.stop());
    return child;
  };

  const server = await run("server", { WEIR_PORT: "0" });
  const log = (): ReturnType<Weir["log"]> => linesOf(server.logFile);
  const port = (): unknown =>
    log().find(({ message, on }) => message === "Listening" && on === "port")?.["port"];
  await untilReady(server, () => port() !== undefined, { timeoutMs: START_TIMEOUT_MS });
  const baseUrl = `http://127.0.0.1:${String(port())}`;
  if (until === "all") {
    await untilReady(server, () => isReady(baseUrl), { timeoutMs: START_TIMEOUT_MS });
  }
  if (options.workers === true) await run("workers", {});

  const owned = stack.move();
  return {
    baseUrl,
    brokers,
    databaseUrl,
    topic,
    deadLetterTopic,
    server,
    log,
    token: ({ scope = ALL_SCOPES, sub = "alice" } = {}) =>
      new SignJWT({ scope })
        .setProtectedHeader({ alg: "HS256" })
        .setSubject(sub)
        .setIssuedAt()
        .setExpirationTime("1h")
        .sign(Buffer.from(secret)),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function isReady(baseUrl: string): Promise<boolean> {
  const response = await fetch(`${baseUrl}/readyz`);
  const { status } = (await response.json()) as { readonly status: string };
  return status === "ready";
}

/** A process that is killed may leave half a line, and Node writes warnings that are no JSON. */
function linesOf(file: string): Readonly<Record<string, unknown>>[] {
  return readFileSync(file, "utf8")
    .split("\n")
    .flatMap((line) => {
      try {
        return line.startsWith("{") ? [JSON.parse(line) as Record<string, unknown>] : [];
      } catch {
        return [];
      }
    });
}
