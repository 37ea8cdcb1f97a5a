import { connect, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

import type { ISocketFactory, Kafka, LogEntry, SASLOptions } from "kafkajs";

import { type Logger } from "#runtime/log.ts";

import { type ConnectionOptions } from "../connection.ts";
import { countProduceRequests } from "../produce-requests.ts";
import { kafkajs } from "./library.ts";

/** A kafkajs client with sockets of its own, which can be taken from it. */
export interface Client {
  readonly kafka: Kafka;
  /** How many Produce requests have been handed to a socket. What was not handed over was certainly not published. */
  readonly produceRequests: number;
  readonly isDestroyed: boolean;
  /** Closes every socket, and lets none be opened: from now on nothing is sent, whatever kafkajs still has under way. */
  destroy(): void;
}

/**
 * A client; it connects when it is used. Every line of kafkajs' own log becomes a debug line of ours. `retries`: how often
 * kafkajs itself tries a request again that failed, such as a coordinator that is still loading (0.1 to 1 s apart).
 */
export function createClient(options: ConnectionOptions, retries: number, log: Logger): Client {
  const sockets = new Set<Socket>();
  let produceRequests = 0;
  let destroyed = false;

  const socketFactory: ISocketFactory = ({ host, port, ssl, onConnect }) => {
    if (destroyed) throw new Error("this client was given up");
    const target = { host, port };
    const name = isIP(host) === 0 ? { servername: host } : {};
    const socket = options.tls
      ? connectTls({ ...target, ...name, ...ssl }, onConnect)
      : connect(target, onConnect);
    socket.setKeepAlive(true, 60_000).setNoDelay(true);
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    countProduceRequests(socket, () => (produceRequests += 1));
    return socket;
  };

  const kafka = new kafkajs.Kafka({
    brokers: [...options.brokers],
    clientId: options.clientId,
    ...(options.tls && { ssl: options.tls.ca === undefined ? true : { ca: options.tls.ca } }),
    ...(options.sasl && { sasl: options.sasl as SASLOptions }),
    connectionTimeout: options.connectTimeoutMs,
    authenticationTimeout: options.requestTimeoutMs,
    requestTimeout: options.requestTimeoutMs,
    retry: { retries, initialRetryTime: 100, maxRetryTime: 1_000 },
    socketFactory,
    logLevel: kafkajs.logLevel.INFO,
    logCreator: () => (entry) => logEntry(log, entry),
  });

  return {
    kafka,
    get produceRequests() {
      return produceRequests;
    },
    get isDestroyed() {
      return destroyed;
    },
    destroy() {
      destroyed = true;
      for (const socket of sockets) socket.destroy(new Error("this client was given up"));
    },
  };
}

/** kafkajs calls an error what it then retries; what matters comes back to the adapters, and they log it. */
function logEntry(log: Logger, { namespace, label, log: line }: LogEntry): void {
  log.debug(line.message, { kafkajs: { ...line, namespace, level: label } });
}
