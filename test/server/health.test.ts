import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { afterEach, describe, expect, it } from "vitest";
import { Health, HealthCheckResponse_ServingStatus as Status } from "#gen/health/v1/health_pb.ts";
import { createHealthService } from "../../server/health.ts";
import { createReadiness, type Readiness } from "../../server/ready.ts";
import { shuttingDown } from "../../server/http/serving.ts";
import { healthzRoute, metricsRoute, readyzRoute } from "../../server/http/status-routes.ts";
import { silentLogger } from "../support/logger.ts";
import { type RpcServer, startRpcServer } from "../support/rpc-server.ts";

const INGEST = "weir.v1.IngestService";
const SEARCH = "weir.v1.SearchService";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

interface Setup {
  readonly server: RpcServer;
  readonly readiness: Readiness;
  /** By dependency: why it is away. */
  readonly faults: { kafka?: string; postgresql?: string };
  readonly stopping: AbortController;
}

async function start(faults: Setup["faults"] = {}): Promise<Setup> {
  const stopping = new AbortController();
  const end = new AbortController();
  const readiness = createReadiness({
    dependencies: { kafka: () => faults.kafka, postgresql: () => faults.postgresql },
    services: { [INGEST]: ["kafka"], [SEARCH]: ["postgresql"] },
    notes: { kafka: () => "one copy: t" },
    stopping: stopping.signal,
    log: silentLogger,
  });
  const done = readiness.run(end.signal);
  stack.defer(() => done);
  stack.defer(() => end.abort());
  await readiness.ready;
  const server = stack.use(
    await startRpcServer({
      routes: (router) => router.service(Health, createHealthService(readiness)),
      httpRoutes: [healthzRoute, readyzRoute(readiness)],
    }),
  );
  stopping.signal.addEventListener("abort", () => server.streamsEnd.abort(shuttingDown()));
  return { server, readiness, faults, stopping };
}

describe("Health", () => {
  const clientOf = ({ server }: Setup) => createClient(Health, createGrpcTransport({ baseUrl: server.url }));

  it("checks the server and each service, without a token", async () => {
    const client = clientOf(await start({ postgresql: "away" }));
    expect((await client.check({})).status).toBe(Status.SERVING);
    expect((await client.check({ service: INGEST })).status).toBe(Status.SERVING);
    expect((await client.check({ service: SEARCH })).status).toBe(Status.NOT_SERVING);
    const { statuses } = await client.list({});
    expect(Object.entries(statuses).map(([name, { status }]) => [name, status])).toEqual([
      ["", Status.SERVING],
      [INGEST, Status.SERVING],
      [SEARCH, Status.NOT_SERVING],
    ]);
  });

  it("does not find a service that is not there", async () => {
    const client = clientOf(await start());
    const error = await client
      .check({ service: "weir.v1.Nothing" })
      .catch((reason: unknown) => ConnectError.from(reason));
    expect(error).toMatchObject({ code: Code.NotFound });
  });

  it("watches a service: its state at once, then each change, and the stop", async () => {
    const setup = await start();
    const statuses = clientOf(setup).watch({ service: SEARCH })[Symbol.asyncIterator]();
    expect((await statuses.next()).value).toMatchObject({ status: Status.SERVING });
    setup.faults.postgresql = "away";
    expect((await statuses.next()).value).toMatchObject({ status: Status.NOT_SERVING });
    delete setup.faults.postgresql;
    expect((await statuses.next()).value).toMatchObject({ status: Status.SERVING });
    setup.stopping.abort();
    expect((await statuses.next()).value).toMatchObject({ status: Status.NOT_SERVING });
    const end = await statuses.next().catch((reason: unknown) => ConnectError.from(reason));
    expect(end).toMatchObject({ code: Code.Unavailable });
  });

  it("keeps the watch of an unknown service open, and says that it is unknown", async () => {
    const setup = await start();
    const leaving = new AbortController();
    const statuses = clientOf(setup)
      .watch({ service: "weir.v1.Nothing" }, { signal: leaving.signal })
      [Symbol.asyncIterator]();
    expect((await statuses.next()).value).toMatchObject({ status: Status.SERVICE_UNKNOWN });
    expect(setup.server.rpc.streams).toBe(1);
    const next = statuses.next().catch((reason: unknown) => ConnectError.from(reason));
    leaving.abort();
    expect(await next).toMatchObject({ code: Code.Canceled });
    await expect.poll(() => setup.server.rpc.streams).toBe(0);
  });
});

describe("GET", () => {
  const get = async ({ server }: Setup, path: string): Promise<[number, unknown]> => {
    const response = await fetch(server.url + path);
    return [response.status, await response.json()];
  };

  it("/healthz says that the process runs, whatever is away", async () => {
    expect(await get(await start({ kafka: "away", postgresql: "away" }), "/healthz")).toEqual([
      200,
      { status: "ok" },
    ]);
  });

  it("/readyz is 200 while one service is ready, with every reason", async () => {
    const setup = await start({ postgresql: "connection refused" });
    expect(await get(setup, "/readyz")).toEqual([
      200,
      {
        status: "partial",
        services: {
          [INGEST]: { ready: true, dependencies: ["kafka"], reasons: [] },
          [SEARCH]: {
            ready: false,
            dependencies: ["postgresql"],
            reasons: ["postgresql: connection refused"],
          },
        },
        dependencies: {
          kafka: { ready: true, note: "one copy: t" },
          postgresql: { ready: false, reason: "connection refused" },
        },
      },
    ]);
    expect(await get(setup, `/readyz?service=${INGEST}`)).toEqual([
      200,
      {
        service: INGEST,
        ready: true,
        reasons: [],
        dependencies: { kafka: { ready: true, note: "one copy: t" } },
      },
    ]);
    expect(await get(setup, `/readyz?service=${SEARCH}`)).toMatchObject([503, { ready: false }]);
  });

  it("/readyz is 503 while no service is ready, and from the moment of the stop", async () => {
    const away = await start({ kafka: "away", postgresql: "away" });
    expect(await get(away, "/readyz")).toMatchObject([503, { status: "not_ready" }]);
    const stopped = await start();
    stopped.stopping.abort();
    expect(await get(stopped, "/readyz")).toMatchObject([503, { status: "stopping" }]);
    expect(await get(stopped, `/readyz?service=${INGEST}`)).toMatchObject([
      503,
      { reasons: ["the process is stopping"] },
    ]);
  });

  it("/readyz does not find a service that is not there, and names those that are", async () => {
    const [status, body] = await get(await start(), "/readyz?service=weir.v1.Nothing");
    expect(status).toBe(404);
    expect(body).toMatchObject({
      code: "not_found",
      message: expect.stringContaining(`${INGEST}, ${SEARCH}`) as string,
    });
  });

  it("/metrics is Prometheus' text", async () => {
    await using server = await startRpcServer({ httpRoutes: [healthzRoute] });
    await using page = await startRpcServer({ httpRoutes: [metricsRoute(server.telemetry)] });
    await fetch(`${server.url}/healthz`);
    const response = await fetch(`${page.url}/metrics`);
    expect(response.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    expect(await response.text()).toMatch(/weir_request_duration\w*_count\{method="\/healthz",code="ok"\} 1/);
  });
});
