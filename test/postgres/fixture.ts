import { randomUUID } from "node:crypto";
import { connect, createServer, type Socket } from "node:net";
import { once } from "node:events";
import { afterAll, beforeAll } from "vitest";

import { type StoredEvent } from "#core/event.ts";
import { parseTimestamp } from "#core/timestamp.ts";
import { createDatabase, type Database, type DatabaseOptions } from "#postgres/pool.ts";

import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { silentLogger } from "../support/logger.ts";

/** Connects to a database of the tests, with short bounds. */
export function openDatabase(url: string, options: Partial<DatabaseOptions> = {}): Database {
  return createDatabase({
    url,
    poolSize: 4,
    applicationName: "weir test",
    statementTimeoutMs: 10_000,
    connectTimeoutMs: 2_000,
    logger: silentLogger,
    ...options,
  });
}

/** A migrated database of the suite's own, with a pool. */
export function useDatabase(): { readonly url: string; readonly db: Database } {
  let database: TestDatabase;
  let db: Database;
  beforeAll(async () => {
    database = await createTestDatabase();
    db = openDatabase(database.url);
  });
  afterAll(async () => {
    await db[Symbol.asyncDispose]();
    await database[Symbol.asyncDispose]();
  });
  return {
    get url() {
      return database.url;
    },
    get db() {
      return db;
    },
  };
}

/** What a test says of an event; the rest is filled in. */
export interface EventSketch extends Partial<Omit<StoredEvent["event"], "time" | "data">> {
  readonly offset: bigint;
  readonly partition?: number;
  readonly topic?: string;
  readonly time?: string | undefined;
  readonly data?: Uint8Array | undefined;
  readonly acceptTime?: number;
}

/** An event of the present, with an id of its own unless the sketch has one. */
export function sketchEvent(sketch: EventSketch): StoredEvent {
  const { offset, partition, topic, time, data, acceptTime, ...attributes } = sketch;
  const text = "time" in sketch ? time : new Date().toISOString();
  return {
    event: {
      id: randomUUID(),
      source: "/test",
      type: "com.example.test",
      subject: undefined,
      datacontenttype: undefined,
      dataschema: undefined,
      extensions: new Map(),
      ...attributes,
      time: text === undefined ? undefined : parseTimestamp(text),
      data: data === undefined ? undefined : { bytes: new Uint8Array(data), protoType: undefined },
    },
    acceptTime: acceptTime ?? Date.now(),
    principal: "alice",
    traceParent: undefined,
    traceState: undefined,
    position: { topic: topic ?? "events", partition: partition ?? 0, offset },
  };
}

/** A network in between, to do to a connection what networks do. */
export interface Proxy extends AsyncDisposable {
  /** The database's address by way of the proxy. */
  readonly url: string;
  /** Breaks every connection and refuses new ones. */
  cut(): Promise<void>;
  /** Takes connections again. */
  restore(): Promise<void>;
  /** Takes connections and answers, but passes nothing on. */
  silence(): void;
  /**
   * The next time a client sends `text`: "before" breaks the connection and passes nothing on; "after" passes it on,
   * waits for the server's answer, keeps that to itself and breaks the connection.
   */
  breakAt(text: string, when: "before" | "after"): void;
}

/** A proxy before the server of `url`. */
export async function createProxy(url: string): Promise<Proxy> {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  let silent = false;
  let trap: { text: string; when: "before" | "after" } | undefined;
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    let answerOpensTrap = false;
    client.on("data", (chunk) => {
      if (silent) return;
      if (trap !== undefined && chunk.includes(trap.text)) {
        const { when } = trap;
        trap = undefined;
        if (when === "before") return void client.destroy();
        answerOpensTrap = true;
      }
      upstream.write(chunk);
    });
    upstream.on("data", (chunk) => {
      if (answerOpensTrap) client.destroy();
      else if (!silent) client.write(chunk);
    });
  });
  const listen = async (port: number): Promise<void> => {
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
  };
  await listen(0);
  const { port } = server.address() as { port: number };
  const cut = async (): Promise<void> => {
    if (!server.listening) return;
    const closed = once(server, "close");
    server.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  target.host = `127.0.0.1:${port}`;
  const proxied = target.href;
  target.href = url;
  return {
    url: proxied,
    cut,
    restore: () => listen(port),
    silence: () => (silent = true),
    breakAt: (text, when) => (trap = { text, when }),
    [Symbol.asyncDispose]: cut,
  };
}
