import { connect } from "node:net";

const METADATA = 3;
const VERSION = 1;
const TIMEOUT_MS = 2000;

/**
 * Whether a Kafka broker on this port of 127.0.0.1 answers a Metadata request with at least one broker: an open port
 * alone says nothing, for the broker accepts connections before it serves them. (Coordinators may take a moment more;
 * every Kafka client retries that.)
 */
export function answersMetadata(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    let answer = Buffer.alloc(0);
    const settle = (isReady: boolean): void => {
      socket.destroy();
      resolve(isReady);
    };
    socket.setTimeout(TIMEOUT_MS, () => settle(false));
    socket.once("error", () => settle(false));
    socket.once("close", () => settle(false));
    socket.once("connect", () => socket.write(metadataRequest()));
    socket.on("data", (chunk: Buffer) => {
      answer = Buffer.concat([answer, chunk]);
      // length, correlation id, number of brokers (Kafka protocol guide, Metadata response version 1)
      if (answer.length >= 12) settle(answer.readInt32BE(8) > 0);
    });
  });
}

/** Kafka protocol guide, Metadata request version 1 of a nameless client that asks for no topic. */
function metadataRequest(): Buffer {
  const request = Buffer.alloc(18);
  request.writeInt32BE(14, 0);
  request.writeInt16BE(METADATA, 4);
  request.writeInt16BE(VERSION, 6);
  request.writeInt32BE(0, 8);
  request.writeInt16BE(-1, 12);
  request.writeInt32BE(0, 14);
  return request;
}
