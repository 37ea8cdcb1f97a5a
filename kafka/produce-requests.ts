import { type Socket } from "node:net";

/** Calls back for every Produce request that is handed to the socket. A request is expected to be a chunk of its own. */
export function countProduceRequests(socket: Socket, count: () => void): void {
  const write = socket.write.bind(socket) as (chunk: Uint8Array | string, ...rest: unknown[]) => boolean;
  socket.write = (chunk: Uint8Array | string, ...rest: unknown[]) => {
    if (isProduceRequest(chunk)) count();
    return write(chunk, ...rest);
  };
}

/** A request is its length (int32) and its API key (int16), which is 0 for Produce (Kafka protocol guide). */
function isProduceRequest(chunk: Uint8Array | string): boolean {
  return typeof chunk !== "string" && chunk.length > 8 && chunk[4] === 0 && chunk[5] === 0;
}
