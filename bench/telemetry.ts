import { once } from "node:events";
import { Worker } from "node:worker_threads";

import { DEFAULT_LIMITS } from "#core/admission.ts";
import { IngestService } from "#gen/weir/v1/ingest_pb.ts";
import { type Producer, type PublishResult } from "#kafka/ports.ts";
import { traceProducer } from "#kafka/traced.ts";
import { createTelemetry } from "#runtime/telemetry.ts";
import { createTracer } from "#runtime/tracing.ts";

import { createAdmission } from "../server/admit.ts";
import { createIngestService } from "../server/ingest.ts";
import { silentLogger } from "../test/support/logger.ts";
import { describeLoad } from "./report.ts";
import { spreadOf } from "./statistics.ts";
import { createToken, type RpcServer, startRpcServer } from "../test/support/rpc-server.ts";

const ROUNDS = 5;
const CALLS = 3_000;
const WARM_UP_CALLS = 3_000;

const LIMITS = { ...DEFAULT_LIMITS, batchEvents: 256, batchBytes: 8 * 1024 * 1024 };

interface Mode {
  readonly name: string;
  readonly tracing?: { readonly sampling: number; readonly endpoint: "answers" | "silent" };
}

const OFF: Mode = { name: "off" };
const MODES: readonly Mode[] = [
  OFF,
  { name: "on, 0 % sampled", tracing: { sampling: 0, endpoint: "answers" } },
  { name: "on, 1 % sampled", tracing: { sampling: 0.01, endpoint: "answers" } },
  { name: "on, 100 % sampled", tracing: { sampling: 1, endpoint: "answers" } },
  { name: "on, 100 %, endpoint silent", tracing: { sampling: 1, endpoint: "silent" } },
];

/**
 * What tracing costs a call of CreateEvent: the whole server in this thread, Connect clients and the OTLP endpoint in
 * another, and a log that acknowledges at once, since a real one would hide the cost behind its own. Rounds of all modes
 * take turns; medians.
 */
export async function run(): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const load = new Worker(new URL("telemetry-load.ts", import.meta.url));
  stack.defer(async () => void (await load.terminate()));
  const [endpoints] = (await once(load, "message")) as [Record<"answers" | "silent", string>];
  const token = await createToken("events.write");

  const servers = new Map<Mode, RpcServer>();
  for (const mode of MODES) servers.set(mode, stack.use(await startServer(mode, endpoints, stack)));
  const measure = async (mode: Mode, calls: number): Promise<Figures> => {
    const [cpu, began] = [process.threadCpuUsage(), performance.now()];
    load.postMessage({ baseUrl: servers.get(mode)?.url, token, calls });
    await once(load, "message");
    const { user, system } = process.threadCpuUsage(cpu);
    return {
      cpuMicros: (user + system) / calls,
      perSecond: calls / ((performance.now() - began) / 1_000),
    };
  };

  for (const mode of MODES) await measure(mode, WARM_UP_CALLS);
  const figures = new Map<Mode, Figures[]>(MODES.map((mode) => [mode, []]));
  for (let round = 0; round < ROUNDS; round++)
    for (const mode of MODES) figures.get(mode)?.push(await measure(mode, CALLS));

  const off = figures.get(OFF) ?? [];
  process.stdout.write("tracing                       CPU of a call   to off    calls/s   to off\n");
  for (const [{ name }, mine] of figures) {
    const [cpu, rate] = (["cpuMicros", "perSecond"] as const).map((figure) => ({
      median: spreadOf(mine.map((round) => round[figure])).median,
      // Of each round's own, so that what the machine did meanwhile falls on both.
      ratio: spreadOf(mine.map((round, index) => round[figure] / (off[index]?.[figure] ?? Number.NaN)))
        .median,
    }));
    const cells = [
      name.padEnd(28),
      `${cpu?.median.toFixed(0)} µs`.padStart(14),
      cpu?.ratio.toFixed(2).padStart(8),
      rate?.median.toFixed(0).padStart(10),
      rate?.ratio.toFixed(2).padStart(8),
    ];
    process.stdout.write(`${cells.join(" ")}\n`);
  }
  process.stdout.write(`load ${describeLoad()}\n`);
}

interface Figures {
  /** Of the server's thread. */
  readonly cpuMicros: number;
  readonly perSecond: number;
}

async function startServer(
  { tracing }: Mode,
  endpoints: Record<"answers" | "silent", string>,
  stack: AsyncDisposableStack,
): Promise<RpcServer> {
  const telemetry = stack.use(createTelemetry(silentLogger));
  const tracer = await createTracer({
    otlpEndpoint: tracing && endpoints[tracing.endpoint],
    sampling: tracing?.sampling ?? 0,
    serviceName: "bench",
    telemetry,
    log: silentLogger,
  });
  stack.use(tracer);
  const producer = traceProducer(createInstantLog(), tracer);
  const admission = createAdmission({
    producer,
    limits: LIMITS,
    topic: "events",
    partitions: 12,
    maxRecordBytes: 2 * 1024 * 1024,
    telemetry,
  });
  const ingest = createIngestService({
    admission,
    limits: LIMITS,
    // No call of the bench waits for a stage.
    stored: { wait: async (places) => places.map(() => undefined), waiting: 0 },
    stopping: new AbortController().signal,
  });
  return await startRpcServer({ routes: (router) => void router.service(IngestService, ingest), tracer });
}

/** A producer whose log acknowledges at once: of the way to Kafka nothing is measured here. */
function createInstantLog(): Producer {
  let offset = 0n;
  const publish: Producer["publish"] = async ({ topic, partition }): Promise<PublishResult> => ({
    outcome: "acknowledged",
    position: { topic, partition, offset: offset++ },
  });
  return {
    publish,
    offer: publish,
    room: async () => {},
    ready: Promise.resolve(),
    fault: undefined,
    queued: { records: 0, bytes: 0 },
    close: async () => {},
    async [Symbol.asyncDispose]() {},
  };
}
