import { createServer } from "node:http";
import { type AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, it } from "vitest";

import { createTracer, type Tracer } from "#runtime/tracing.ts";

import { silentLogger } from "../support/logger.ts";

let stack = new AsyncDisposableStack();
beforeEach(() => void (stack = new AsyncDisposableStack()));
afterEach(() => stack.disposeAsync());

/** An endpoint that answers with the status at hand, or never where there is none. */
async function startEndpoint(status: number | undefined) {
  const endpoint = { url: "", status };
  const server = createServer((request, response) => {
    request.resume();
    if (endpoint.status !== undefined) response.writeHead(endpoint.status).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  stack.defer(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  endpoint.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return endpoint;
}

/** A tracer, what it counts and what it logs. */
async function createWatchedTracer(otlpEndpoint: string) {
  const counts = { exported: 0, failed: 0, dropped: 0 };
  const logged: string[] = [];
  let changed = Promise.withResolvers<void>();
  const change = (): void => {
    changed.resolve();
    changed = Promise.withResolvers();
  };
  const hear = (message: string): void => void logged.push(message);
  const tracer = await createTracer({
    otlpEndpoint,
    sampling: 1,
    serviceName: "test",
    log: { ...silentLogger, info: hear, warn: hear },
    telemetry: {
      count(_name, labels, by = 1) {
        const { outcome } = labels as { readonly outcome: keyof typeof counts };
        counts[outcome] += by;
        change();
      },
    },
  });
  if (tracer === undefined) throw new Error("There is no tracer");
  const until = async (condition: () => boolean): Promise<void> => {
    while (!condition()) await changed.promise;
  };
  return { tracer: stack.use(tracer), counts, logged, until };
}

function makeSpans(tracer: Tracer, count: number): void {
  for (let i = 0; i < count; i++) tracer.start("http", { name: "GET /", attributes: {} })?.end();
}

it("tells an outage and its end once each, and counts what it cost", async () => {
  const endpoint = await startEndpoint(400);
  const { tracer, counts, logged, until } = await createWatchedTracer(endpoint.url);
  makeSpans(tracer, 1_024);
  await until(() => counts.failed === 1_024);
  expect(logged).toEqual(["Spans cannot be sent and are lost"]);

  endpoint.status = 200;
  makeSpans(tracer, 1_024);
  await until(() => counts.exported === 1_024);
  expect(logged).toEqual(["Spans cannot be sent and are lost", "Spans are sent again"]);
  expect(counts.dropped).toBe(0);
});

it("holds no more spans than its queue has places, while an endpoint does not answer", async () => {
  const endpoint = await startEndpoint(undefined);
  const { tracer, counts } = await createWatchedTracer(endpoint.url);
  makeSpans(tracer, 10_000);
  // One export is under way; the others wait for it.
  expect(counts).toEqual({ exported: 0, failed: 0, dropped: 10_000 - 512 - 2_048 });
  endpoint.status = 400;
});
