import { isIP } from "node:net";

import {
  type Base,
  type BaseOptions,
  type Broker,
  type Connection,
  ConnectionPool,
  type SASLMechanismValue,
} from "@platformatic/kafka";

import { type ConnectionOptions } from "../connection.ts";
import { countProduceRequests } from "../produce-requests.ts";
import { isProtocolError } from "./errors.ts";

/** The sockets of a client, which can be taken from it. */
export interface Sockets {
  /** How many Produce requests have been handed to a socket. What was not handed over was certainly not published. */
  readonly produceRequests: number;
  /** Closes every socket, and lets none be opened: from now on nothing is sent, whatever is still under way. */
  destroy(): void;
}

/** What a client is made with. `retries`: how often it tries a request again that failed, 0.1 to 1 s apart. */
export function clientOptions(options: ConnectionOptions, retries: number): BaseOptions {
  const { brokers, clientId, tls, sasl, connectTimeoutMs, requestTimeoutMs } = options;
  return {
    // The library begins with the first, every time: where that one is ill, the next client begins with another.
    bootstrapBrokers: shuffled(brokers),
    clientId,
    connectTimeout: connectTimeoutMs,
    requestTimeout: requestTimeoutMs,
    timeout: requestTimeoutMs,
    retries,
    retryDelay,
    ...(tls && {
      tls: tls.ca === undefined ? {} : { ca: tls.ca },
      // The name goes along in the handshake, where it is one.
      tlsServerName: brokers.every((broker) => isIP(hostOf(broker)) === 0),
    }),
    ...(sasl && {
      sasl: {
        mechanism: sasl.mechanism.toUpperCase() as SASLMechanismValue,
        username: sasl.username,
        password: sasl.password,
      },
    }),
  };
}

function retryDelay(_client: object, _what: string, attempt: number, _retries: number, error: Error): number {
  // Another broker may know the topic; whoever asks waits by itself where none does.
  if (isProtocolError(error, "UNKNOWN_TOPIC_OR_PARTITION")) return 0;
  return Math.min(100 * 2 ** (attempt - 1), 1_000);
}

/** The sockets of a client that has not been used yet. */
export function ownSockets(client: Base): Sockets {
  return watchPool(client.connections);
}

/** Further connections, for requests that wait at the broker, behind which others would have to wait too. */
export function openPool(options: BaseOptions): Sockets & { get(broker: Broker): Promise<Connection> } {
  const pool = new ConnectionPool(options.clientId, options);
  const sockets = watchPool(pool);
  return { get: (broker) => pool.get(broker), produceRequests: 0, destroy: () => sockets.destroy() };
}

function watchPool(pool: ConnectionPool): Sockets {
  const connections = new Set<Connection>();
  let produceRequests = 0;
  pool.on("connecting", ({ connection }) => {
    connections.add(connection);
    connection.once("close", () => connections.delete(connection));
    // Requests and their callers learn of it; without a listener the process would end.
    connection.on("error", () => {});
    connection.once("connect", () => {
      connection.socket.setKeepAlive(true, 60_000);
      countProduceRequests(connection.socket, () => (produceRequests += 1));
    });
  });
  return {
    get produceRequests() {
      return produceRequests;
    },
    destroy() {
      // It gives out no connection any more, and would let those that it has write what they hold.
      pool.close().catch(() => {});
      for (const connection of connections) connection.socket.destroy(new Error("this client was given up"));
    },
  };
}

/** The items in an order of chance. */
export function shuffled<T>(items: Iterable<T>): T[] {
  return Array.from(items, (item) => ({ item, place: Math.random() }))
    .toSorted((a, b) => a.place - b.place)
    .map(({ item }) => item);
}

function hostOf(broker: string): string {
  return broker.slice(0, broker.lastIndexOf(":")).replaceAll(/[[\]]/g, "");
}
