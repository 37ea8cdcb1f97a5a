import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";

/** A TCP proxy whose faults can be chosen. It begins without any. */
export interface Proxy extends AsyncDisposable {
  readonly address: string;
  /**
   * "pass": everything goes through. "swallow": answers are lost. "sever": what the client sends still goes through, and
   * its connection ends at once. "stall": nothing goes through, either way. "refuse": no new connection. Connections that
   * are open stay so.
   */
  mode: "pass" | "swallow" | "sever" | "stall" | "refuse";
  /** Ends every connection. */
  cut(): void;
  /** What is behind it is down, or up again: nobody listens meanwhile. */
  down(): Promise<void>;
  up(): Promise<void>;
  /** Resolves when so much has been withheld from now on: answers, or in "stall" and "sever" requests. */
  withheld(count?: number): Promise<void>;
}

/** Starts a proxy before a port of this machine. */
export async function startProxy(target: number): Promise<Proxy> {
  const connections = new Set<Socket>();
  let held = Promise.withResolvers<void>();
  let missing = 0;
  function withhold(): void {
    missing -= 1;
    if (missing === 0) held.resolve();
  }
  const server: Server = createServer((client) => {
    if (proxy.mode === "refuse") return void client.destroy();
    const broker = connect(target, "127.0.0.1");
    let isSevered = false;
    for (const socket of [client, broker]) {
      connections.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        connections.delete(socket);
        client.destroy();
        if (isSevered) broker.end();
        else broker.destroy();
      });
    }
    client.on("data", (chunk: Buffer) => {
      if (proxy.mode === "stall") return withhold();
      broker.write(chunk);
      if (proxy.mode !== "sever") return;
      isSevered = true;
      client.destroy();
      withhold();
    });
    broker.on("data", (chunk: Buffer) => {
      if (proxy.mode === "swallow") withhold();
      else if (proxy.mode !== "stall") client.write(chunk);
    });
    return undefined;
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  const proxy: Proxy = {
    address: `127.0.0.1:${port}`,
    mode: "pass",
    cut() {
      for (const socket of connections) socket.destroy();
    },
    withheld(count = 1) {
      missing = count;
      held = Promise.withResolvers();
      return held.promise;
    },
    async down() {
      const closed = once(server, "close");
      server.close();
      this.cut();
      await closed;
    },
    async up() {
      server.listen(port, "127.0.0.1");
      await once(server, "listening");
    },
    async [Symbol.asyncDispose]() {
      if (server.listening) await this.down();
    },
  };
  return proxy;
}
