import { parseArgs } from "node:util";

import { type KafkaClientName } from "#kafka/client.ts";
import { KAFKA } from "#runtime/settings/kafka.ts";

import { freePort } from "../dev/ports.ts";
import { type ServerTask, runClient, startServer as startLimit } from "./child-task.ts";
// The types alone: these files are programs.
import type { KafkaLimitOrder } from "./kafka-limit.ts";
import type { LoadOrder, LoadReport } from "./load.ts";
import type { PublishOrder } from "./publish.ts";
import { describeLoad, describeRatio, describeSpread, printRow } from "./report.ts";
import { batchRequest, EVENT_BYTES, jsonRequest, protobufRequest, unaryRequest } from "./requests.ts";
import { spreadOf, spreadOfAll } from "./statistics.ts";
import { type BenchBroker, type BenchServer, openBroker, startServer, untilReady } from "./weir.ts";

// `npm run bench -- ingest`: how near Weir's ingest is to the limits that are measured in the same run. Rounds of the limit
// and of Weir take turns, so that what else the machine does meets both.

const CONNECTIONS = 32;
const BATCH = 256;
const MEBIBYTE = 1024 * 1024;

/** How long it may take. */
interface Plan {
  readonly rounds: number;
  readonly seconds: number;
  readonly memoryMinutes: number;
}

/** The benchmark; the arguments are those of the command line after its name. */
export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      only: { type: "string" },
      rounds: { type: "string", default: "5" },
      seconds: { type: "string", default: "3" },
      "memory-minutes": { type: "string", default: "1" },
    },
  });
  const plan: Plan = {
    rounds: Number(values.rounds),
    seconds: Number(values.seconds),
    memoryMinutes: Number(values["memory-minutes"]),
  };
  const names = values.only?.split(",") ?? Object.keys(ROWS);
  const unknown = names.filter((name) => !Object.hasOwn(ROWS, name));
  if (unknown.length > 0)
    throw new Error(`No such row: ${unknown.join(", ")}. There are ${Object.keys(ROWS).join(", ")}.`);
  process.stdout.write(
    `${plan.rounds} rounds of ${plan.seconds} s; load ${describeLoad()}; Node.js ${process.version}\n\n`,
  );
  await using broker = await openBroker();
  for (const name of names) await ROWS[name]?.(broker, plan);
}

const ROWS: Readonly<Record<string, (broker: BenchBroker, plan: Plan) => Promise<void>>> = {
  http: (broker, plan) =>
    compareSingles(broker, plan, {
      what: `HTTP binding, single, JSON, ${CONNECTIONS} connections; limit: node:http with JSON.parse`,
      limit: "http-limit.ts",
      target: 0.5,
      request: jsonRequest,
    }),
  "http-protobuf": (broker, plan) =>
    compareSingles(broker, plan, {
      what: `HTTP binding, single, protobuf, ${CONNECTIONS} connections; limit: node:http with fromBinary`,
      limit: "http-limit.ts",
      target: 0.5,
      request: protobufRequest,
    }),
  connect: (broker, plan) =>
    compareSingles(broker, plan, {
      what: `Connect unary, protobuf, ${CONNECTIONS} connections; limit: a connect-node echo`,
      limit: "connect-limit.ts",
      target: 0.85,
      request: unaryRequest,
    }),
  publisher: comparePublisher,
  batch: measureBatches,
  processes: compareProcesses,
  memory: measureMemory,
};

interface Comparison {
  readonly what: string;
  readonly limit: string;
  readonly target: number;
  readonly request: (token: string) => string;
}

async function compareSingles(
  broker: BenchBroker,
  plan: Plan,
  { what, limit: entry, target, request }: Comparison,
): Promise<void> {
  await using weir = await startServer(broker);
  await using limit = await startLimit(entry);
  const bytes = request(weir.token);
  const rounds: { readonly limit: Load; readonly weir: Load }[] = [];
  for (let round = 0; round < plan.rounds; round++) {
    rounds.push({
      limit: await load(limit, { request: bytes, connections: CONNECTIONS }, plan),
      weir: await load(weir, { request: bytes, connections: CONNECTIONS }, plan),
    });
  }
  const ratio = spreadOf(rounds.map((each) => each.weir.perSecond / each.limit.perSecond));
  const micros = (of: "limit" | "weir"): string => describeCpu(rounds.map((each) => each[of].microsEach));
  const cpuRatio = spreadOfAll(
    rounds.map(({ limit: { microsEach: least }, weir: { microsEach: own } }) =>
      least === undefined || own === undefined ? undefined : least / own,
    ),
  );
  printRow({
    what,
    measured: `${describeSpread(spreadOf(rounds.map((each) => each.weir.perSecond)))} events/s, p99 ${spreadOf(rounds.map((each) => each.weir.p99)).median.toFixed(1)} ms, ${micros("weir")}`,
    limit: `${describeSpread(spreadOf(rounds.map((each) => each.limit.perSecond)))} requests/s, ${micros("limit")}`,
    ratio: describeRatio(ratio),
    target: `≥ ${target * 100} %`,
    isMet: ratio.median >= target,
    notes:
      cpuRatio === undefined ? [] : [`by CPU  ${describeRatio(cpuRatio)} (whatever else the machine does)`],
  });
}

interface Load extends LoadReport {
  /** CPU time of the server for each request, in microseconds. */
  readonly microsEach: number | undefined;
}

async function load(
  { port, pid }: Pick<ServerTask | BenchServer, "port" | "pid">,
  order: Omit<LoadOrder, "port" | "seconds" | "warmupSeconds">,
  { seconds }: Pick<Plan, "seconds">,
): Promise<Load> {
  const whole: LoadOrder = { ...order, port, seconds, warmupSeconds: 1 };
  const { result, watchedCpu } = await runClient<LoadReport>("load.ts", whole, [pid]);
  const requests = result.perSecond * seconds;
  return { ...result, microsEach: watchedCpu === undefined ? undefined : (watchedCpu * 1e6) / requests };
}

function describeCpu(micros: readonly (number | undefined)[]): string {
  const spread = spreadOfAll(micros);
  return spread === undefined ? "CPU unknown" : `${spread.median.toFixed(0)} µs CPU each`;
}

/** The limit is the best batch of the client that the server uses; kafkajs is measured beside it. */
async function comparePublisher(broker: BenchBroker, plan: Plan): Promise<void> {
  await using weir = await startServer(broker);
  const used = KAFKA.settings.client.form.parse(
    process.env["WEIR_KAFKA_CLIENT"] ?? KAFKA.settings.client.default,
  );
  const kafka = async (client: KafkaClientName, batch: number): Promise<number> => {
    const order: KafkaLimitOrder = {
      client,
      broker: broker.address,
      topic: weir.topic,
      partitions: 12,
      valueBytes: EVENT_BYTES,
      batch,
      seconds: plan.seconds,
      warmupSeconds: 1,
    };
    return (await runClient<{ readonly perSecond: number }>("kafka-limit.ts", order)).result.perSecond;
  };
  const best = async (client: KafkaClientName): Promise<number> => {
    const rates = [];
    for (const batch of [500, 2_000]) rates.push(await kafka(client, batch));
    return Math.max(...rates);
  };
  const rounds: { readonly weir: number; readonly limit: number; readonly kafkajs: number }[] = [];
  for (let round = 0; round < plan.rounds; round++) {
    const limit = await best(used);
    const order: PublishOrder = {
      port: weir.port,
      token: weir.token,
      seconds: plan.seconds,
      warmupSeconds: 2,
    };
    const { result } = await runClient<{ readonly perSecond: number }>("publish.ts", order);
    rounds.push({
      limit,
      weir: result.perSecond,
      kafkajs: used === "kafkajs" ? limit : await best("kafkajs"),
    });
  }
  const ratio = spreadOf(rounds.map((each) => each.weir / each.limit));
  const toKafkajs = spreadOf(rounds.map((each) => each.weir / each.kafkajs));
  printRow({
    what: `The SDK's publisher, one process, ${EVENT_BYTES} B events; limit: ${used} alone, its best batch`,
    measured: `${describeSpread(spreadOf(rounds.map((each) => each.weir)))} events/s`,
    limit: `${describeSpread(spreadOf(rounds.map((each) => each.limit)))} records/s; kafkajs ${describeSpread(spreadOf(rounds.map((each) => each.kafkajs)))}`,
    ratio: `${describeRatio(ratio)}; to kafkajs ${describeRatio(toKafkajs)}`,
    target: "≥ 60 %, and ahead of kafkajs",
    isMet: ratio.median >= 0.6 && toKafkajs.median > 1,
  });
}

async function measureBatches(broker: BenchBroker, plan: Plan): Promise<void> {
  await using weir = await startServer(broker);
  const request = batchRequest(weir.token, BATCH);
  const atRate = [];
  for (let round = 0; round < plan.rounds; round++)
    atRate.push(await load(weir, { request, connections: 8, perSecond: 20 }, plan));
  const most = await load(weir, { request, connections: 4 }, plan);
  const p99 = spreadOf(atRate.map((each) => each.p99));
  const p50 = spreadOf(atRate.map((each) => each.p50));
  printRow({
    what: `A batch of ${BATCH}, 20 a second: p99`,
    measured: `p50 ${p50.median.toFixed(1)} ms, p99 ${describeSpread(p99, 1)} ms`,
    ratio: `${p99.median.toFixed(1)} ms`,
    target: "< 50 ms",
    isMet: p99.median < 50,
    notes: [`batches one after the other on 4 connections: ${Math.round(most.perSecond * BATCH)} events/s`],
  });
}

async function compareProcesses(broker: BenchBroker, plan: Plan): Promise<void> {
  await using one = await startServer(broker);
  const metricsPort = await freePort();
  await using two = await startServer(broker, {
    WEIR_SERVER_PROCESSES: "2",
    WEIR_METRICS_PORT: String(metricsPort),
  });
  for (const port of [metricsPort, metricsPort + 1]) await untilReady(port);
  const rounds = [];
  for (let round = 0; round < plan.rounds; round++) {
    const [first, second] = [unaryRequest(one.token), unaryRequest(two.token)];
    rounds.push({
      one: await load(one, { request: first, connections: CONNECTIONS }, plan),
      two: await load(two, { request: second, connections: CONNECTIONS }, plan),
    });
  }
  const ratio = spreadOf(rounds.map((each) => each.two.perSecond / each.one.perSecond));
  printRow({
    what: "Server processes 1 → 2, Connect unary; load generator and broker share the processors with them",
    measured: `${describeSpread(spreadOf(rounds.map((each) => each.two.perSecond)))} events/s with two`,
    limit: `${describeSpread(spreadOf(rounds.map((each) => each.one.perSecond)))} events/s with one`,
    ratio: `${ratio.median.toFixed(2)} × (${ratio.min.toFixed(2)}–${ratio.max.toFixed(2)})`,
    target: "≥ 1.6 ×",
    isMet: ratio.median >= 1.6,
  });
}

async function measureMemory(broker: BenchBroker, { memoryMinutes }: Plan): Promise<void> {
  await using weir = await startServer(broker);
  const request = batchRequest(weir.token, 16);
  const parts = [];
  for (let part = 0; part < 10; part++) {
    await load(weir, { request, connections: CONNECTIONS }, { seconds: memoryMinutes * 6 });
    parts.push((await residentBytes(weir.port)) / MEBIBYTE);
  }
  // The first half is warming up: compilation, pools, the heap's own sizing.
  const half = parts.length / 2;
  const [early, late] = [spreadOf(parts.slice(half, half + 2)), spreadOf(parts.slice(-2))];
  const growth = late.median / early.median - 1;
  const most = Math.max(...parts);
  printRow({
    what: `Memory of the server under ${memoryMinutes} min of load, batches of 16 on ${CONNECTIONS} connections`,
    measured: `${parts.map((each) => each.toFixed(0)).join(" ")} MiB`,
    ratio: `${(growth * 100).toFixed(1)} % growth over the second half, at most ${most.toFixed(0)} MiB`,
    target: "flat (≤ 5 %), < 250 MB",
    isMet: growth <= 0.05 && most * MEBIBYTE < 250e6,
  });
}

/** The resident set size, as the server's own metrics have it. */
async function residentBytes(port: number): Promise<number> {
  const page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const bytes = /^process_memory_usage (\d+)/m.exec(page)?.[1];
  if (bytes === undefined) throw new Error("The server's metrics do not say how much memory it has.");
  return Number(bytes);
}
