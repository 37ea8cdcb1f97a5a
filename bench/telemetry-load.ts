import { createServer } from "node:http";
import { type AddressInfo } from "node:net";
import { parentPort } from "node:worker_threads";

import { createClients } from "../test/server/clients.ts";
import { sketch, toMessage } from "../test/server/events.ts";

// The other thread of bench/telemetry.ts: the clients, and two OTLP endpoints, one of which never answers.

const CONCURRENCY = 32;
const DATA = JSON.stringify({ text: "x".repeat(600) });

async function listen(answers: boolean): Promise<string> {
  const server = createServer((request, response) => {
    request.resume();
    if (answers) request.once("end", () => response.writeHead(200).end());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

interface Order {
  readonly baseUrl: string;
  readonly token: string;
  readonly calls: number;
}

async function serve({ baseUrl, token, calls }: Order): Promise<void> {
  const { ingest } = createClients(baseUrl, token);
  let left = calls;
  const client = async (): Promise<void> => {
    while (left-- > 0) {
      const event = toMessage(sketch({ datacontenttype: "application/json" }, DATA));
      await ingest.createEvent({ event });
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, client));
}

parentPort?.on("message", (order: Order) => void serve(order).then(() => parentPort?.postMessage("done")));
parentPort?.postMessage({ answers: await listen(true), silent: await listen(false) });
