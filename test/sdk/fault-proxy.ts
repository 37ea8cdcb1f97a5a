import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A TCP proxy before a server, which fails as networks do. */
export interface FaultProxy extends AsyncDisposable {
  /** Such as "http://127.0.0.1:40123". */
  readonly baseUrl: string;
  /** Where connections go from now on: a base URL. */
  target(baseUrl: string): void;
  /** Breaks every connection, whatever is on it. */
  cut(): void;
  /** Passes the next request on and breaks its connection instead of passing the answer back. */
  loseNextAnswer(): void;
  /** Passes nothing on, in either direction, until `resume`. */
  stall(): void;
  resume(): void;
  /** How many there are now. */
  readonly connections: number;
}

/** Starts a proxy before the server at a base URL. */
export async function startFaultProxy(baseUrl: string): Promise<FaultProxy> {
  const pairs = new Set<readonly [Socket, Socket]>();
  let { port, hostname } = new URL(baseUrl);
  let isLosing = false;
  let isStalled = false;

  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    const pair = [client, upstream] as const;
    pairs.add(pair);
    const end = (): void => {
      pairs.delete(pair);
      for (const socket of pair) socket.destroy();
    };
    for (const socket of pair) {
      socket.on("error", end).on("close", end);
      if (isStalled) socket.pause();
    }
    client.on("data", (chunk) => void upstream.write(chunk));
    upstream.on("data", (chunk) => {
      if (isLosing) {
        isLosing = false;
        end();
      } else client.write(chunk);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");

  const cut = (): void => {
    for (const [client, upstream] of pairs) {
      client.destroy();
      upstream.destroy();
    }
  };
  const each = (act: (socket: Socket) => void): void => {
    for (const socket of [...pairs].flat()) act(socket);
  };
  return {
    baseUrl: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`,
    target: (url) => void ({ port, hostname } = new URL(url)),
    cut,
    loseNextAnswer: () => void (isLosing = true),
    stall() {
      isStalled = true;
      each((socket) => socket.pause());
    },
    resume() {
      isStalled = false;
      each((socket) => socket.resume());
    },
    get connections() {
      return pairs.size;
    },
    async [Symbol.asyncDispose]() {
      cut();
      server.close();
      await once(server, "close");
    },
  };
}
