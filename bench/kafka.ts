import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

import { Admin } from "@platformatic/kafka";

import { type KafkaClient, type KafkaClientName, loadKafkaClient } from "#kafka/client.ts";
import { type ConnectionOptions } from "#kafka/connection.ts";
import { type OutgoingRecord } from "#kafka/ports.ts";
import { type Logger } from "#runtime/log.ts";
import { createTelemetry } from "#runtime/telemetry.ts";

import { silentLogger } from "../test/support/logger.ts";
import { deleteTopics } from "../test/support/topic.ts";
import { describeLoad, describeSpread } from "./report.ts";
import { type Spread, spreadOf } from "./statistics.ts";
import { openBroker } from "./weir.ts";

// `npm run bench -- kafka`: the two Kafka clients side by side, through Weir's own producer and consumer, and what each
// compression costs and saves. Rounds take turns, so that what else the machine does meets all of them.

const CLIENTS: readonly KafkaClientName[] = ["kafkajs", "platformatic"];
const COMPRESSIONS = ["none", "gzip", "zstd"] as const;
const PARTITIONS = 12;
const IN_FLIGHT = 2_000;
const IDLE_MS = 10_000;

/** One measurement. */
interface Sample {
  /** Records a second. */
  readonly rate: number;
  /** CPU time of this process a record, in microseconds. */
  readonly cpu: number;
}

interface Bench {
  readonly clients: Readonly<Record<KafkaClientName, KafkaClient>>;
  readonly connection: ConnectionOptions;
  readonly admin: Admin;
  readonly log: Logger;
  readonly seconds: number;
}

/** The benchmark; the arguments are those of the command line after its name. */
export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: { rounds: { type: "string", default: "5" }, seconds: { type: "string", default: "2" } },
  });
  const [rounds, seconds] = [Number(values.rounds), Number(values.seconds)];
  await using broker = await openBroker();
  const connection = {
    brokers: [broker.address],
    clientId: "weir-bench",
    tls: undefined,
    sasl: undefined,
    connectTimeoutMs: 3_000,
    requestTimeoutMs: 10_000,
  };
  const admin = new Admin({ clientId: "weir-bench", bootstrapBrokers: [broker.address] });
  const [kafkajs, platformatic] = [await loadKafkaClient("kafkajs"), await loadKafkaClient("platformatic")];
  const bench: Bench = { clients: { kafkajs, platformatic }, connection, admin, log: silentLogger, seconds };
  say(`${rounds} rounds of ${seconds} s; load ${describeLoad()}; Node.js ${process.version}`);
  say(`600 B events on ${PARTITIONS} partitions, ${IN_FLIGHT} in flight, acks=all, idempotent\n`);
  try {
    await compareClients(bench, rounds);
    await compareCompressions(bench, rounds);
    for (const client of CLIENTS) await measureIdle(bench, client);
  } finally {
    await admin.close();
  }
}

async function compareClients(bench: Bench, rounds: number): Promise<void> {
  const produced = new Map<KafkaClientName, Sample[]>(CLIENTS.map((name) => [name, []]));
  const consumed = new Map<KafkaClientName, Sample[]>(CLIENTS.map((name) => [name, []]));
  for (let round = 0; round < rounds; round += 1) {
    for (const name of CLIENTS) {
      await using topic = await createTopic(bench);
      const sent = await produce(bench, name, topic.name, "none");
      produced.get(name)!.push(sent.sample);
      consumed.get(name)!.push(await consume(bench, name, topic.name, sent.records));
    }
  }
  for (const [what, samples] of [
    ["produce", produced],
    ["consume", consumed],
  ] as const) {
    const [a, b] = CLIENTS.map((name) => samples.get(name)!);
    say(`${what}: platformatic / kafkajs`);
    say(`  rate   ${times(a!, b!, "rate")}   CPU a record ${times(a!, b!, "cpu")}`);
    for (const name of CLIENTS) say(`  ${name.padEnd(13)} ${describe(samples.get(name)!)}`);
  }
}

async function compareCompressions(bench: Bench, rounds: number): Promise<void> {
  for (const name of CLIENTS) {
    const samples = new Map<string, Sample[]>(COMPRESSIONS.map((compression) => [compression, []]));
    const sizes = new Map<string, number>();
    for (let round = 0; round < rounds; round += 1) {
      for (const compression of COMPRESSIONS) {
        await using topic = await createTopic(bench);
        const { sample, records } = await produce(bench, name, topic.name, compression);
        samples.get(compression)!.push(sample);
        sizes.set(compression, (await sizeOf(bench, topic.name)) / records);
      }
    }
    say(`compression by ${name}, against none`);
    for (const compression of COMPRESSIONS) {
      const mine = samples.get(compression)!;
      const ratio = `rate ${times(samples.get("none")!, mine, "rate")}, CPU ${times(samples.get("none")!, mine, "cpu")}`;
      const bytes = sizes.get(compression)!;
      const saved = `${(bytes / sizes.get("none")!).toFixed(2)} of the bytes (${bytes.toFixed(0)} B a record)`;
      say(`  ${compression.padEnd(5)} ${ratio}, ${saved}`);
    }
  }
}

/** Keeps so many records under way for a while. */
async function produce(
  { clients, connection, log, seconds }: Bench,
  name: KafkaClientName,
  topic: string,
  compression: (typeof COMPRESSIONS)[number],
): Promise<{ readonly sample: Sample; readonly records: number }> {
  await using telemetry = createTelemetry(log);
  const topics = [{ name: topic, maxMessageBytes: 2 * 1024 * 1024 }];
  await using producer = clients[name].createProducer({
    connection,
    topics,
    log,
    telemetry,
    compression,
    queueRecords: 2 * IN_FLIGHT,
  });
  await producer.ready;
  const records = Array.from({ length: 5_000 }, (_, index) => eventRecord(topic, index));
  let [next, total, isCounting, counted] = [0, 0, false, 0];
  const end = new AbortController();
  async function sender(): Promise<void> {
    while (!end.signal.aborted) {
      const { outcome } = await producer.publish({
        ...records[next++ % records.length]!,
        timestamp: Date.now(),
      });
      if (outcome !== "acknowledged") throw new Error(`a record is ${outcome}`);
      total += 1;
      if (isCounting) counted += 1;
    }
  }
  const senders = Promise.all(Array.from({ length: IN_FLIGHT }, sender));
  await Promise.race([senders, sleep(500)]);
  isCounting = true;
  const sample = await measure(
    async () => void (await Promise.race([senders, sleep(seconds * 1_000)])),
    () => counted,
  );
  isCounting = false;
  end.abort();
  await senders;
  return { sample, records: total };
}

/** Consumes everything. */
async function consume(
  { clients, connection, log }: Bench,
  name: KafkaClientName,
  topic: string,
  records: number,
): Promise<Sample> {
  const [joined, done] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const go = Promise.withResolvers<void>();
  let [assigned, seen] = [0, 0];
  const consumer = clients[name].createConsumer({
    connection,
    group: `bench.${randomUUID()}`,
    topic: { name: topic, maxMessageBytes: 2 * 1024 * 1024 },
    log,
    handler: {
      async assigned(_partition, range) {
        if ((assigned += 1) === PARTITIONS) joined.resolve();
        await go.promise;
        return range.start;
      },
      async records(_partition, batch) {
        seen += batch.length;
        if (seen >= records) done.resolve();
      },
      passed: async () => {},
      revoked() {},
    },
  });
  const end = new AbortController();
  const running = consumer.run(end.signal);
  await joined.promise;
  const sample = await measure(
    () => {
      go.resolve();
      return done.promise;
    },
    () => seen,
  );
  end.abort();
  await running;
  return sample;
}

/** What a producer and a consumer cost that have nothing to do. */
async function measureIdle(bench: Bench, name: KafkaClientName): Promise<void> {
  const { clients, connection, log } = bench;
  await using topic = await createTopic(bench);
  await using telemetry = createTelemetry(log);
  const options = { name: topic.name, maxMessageBytes: 2 * 1024 * 1024 };
  await using producer = clients[name].createProducer({ connection, topics: [options], log, telemetry });
  const joined = Promise.withResolvers<void>();
  let assigned = 0;
  const consumer = clients[name].createConsumer({
    connection,
    group: `bench.${randomUUID()}`,
    topic: options,
    log,
    handler: {
      async assigned(_partition, range) {
        if ((assigned += 1) === PARTITIONS) joined.resolve();
        return range.end;
      },
      records: async () => {},
      passed: async () => {},
      revoked() {},
    },
  });
  const end = new AbortController();
  const running = consumer.run(end.signal);
  await Promise.all([producer.ready, joined.promise]);
  await sleep(1_000);
  const before = process.cpuUsage();
  await sleep(IDLE_MS);
  const { user, system } = process.cpuUsage(before);
  say(`idle ${name}: ${((user + system) / 10 / IDLE_MS).toFixed(2)} % of a processor (target: under 1 %)`);
  end.abort();
  await running;
}

async function measure(work: () => Promise<void>, count: () => number): Promise<Sample> {
  const [cpu, began] = [process.cpuUsage(), performance.now()];
  await work();
  const seconds = (performance.now() - began) / 1_000;
  const { user, system } = process.cpuUsage(cpu);
  return { rate: count() / seconds, cpu: (user + system) / count() };
}

async function createTopic({
  admin,
  connection,
}: Bench): Promise<{ readonly name: string } & AsyncDisposable> {
  const name = `bench.${randomUUID()}`;
  const configs = [{ name: "compression.type", value: "producer" }];
  await admin.createTopics({ topics: [name], partitions: PARTITIONS, replicas: 1, configs });
  return { name, [Symbol.asyncDispose]: () => deleteTopics(connection.brokers[0]!, [name]) };
}

/** What a topic takes on the brokers' disks. */
async function sizeOf({ admin }: Bench, topic: string): Promise<number> {
  const partitions = Array.from({ length: PARTITIONS }, (_, partition) => partition);
  const brokers = await admin.describeLogDirs({ topics: [{ name: topic, partitions }] });
  const dirs = brokers.flatMap(({ results }) => results.flatMap(({ topics }) => topics));
  return dirs
    .flatMap((each) => each.partitions)
    .reduce((sum, { partitionSize }) => sum + Number(partitionSize), 0);
}

/** A record as the ingest writes it, of some 600 B. */
function eventRecord(topic: string, index: number): OutgoingRecord {
  const data = {
    orderId: randomUUID(),
    customer: { id: 10_000 + (index % 977), country: ["DE", "FR", "US", "JP"][index % 4] },
    items: [1, 2].map((line) => ({
      sku: `sku-${(index * 7 + line) % 311}`,
      quantity: line,
      price: `${index % 90}.95`,
    })),
    note: "Please ring twice; the bell is on the left of the door.",
    total: (index * 17) % 1_000,
  };
  const headers: Readonly<Record<string, string>> = {
    ce_specversion: "1.0",
    ce_id: randomUUID(),
    ce_source: `/shops/${index % 50}`,
    ce_type: "com.example.order.placed",
    ce_time: new Date(1_790_000_000_000 + index).toISOString(),
    "content-type": "application/json",
    "weir-principal": "bench",
  };
  return {
    topic,
    partition: index % PARTITIONS,
    key: Buffer.from(headers["ce_source"]!),
    value: Buffer.from(JSON.stringify(data)),
    headers: Object.entries(headers).map(([name, value]) => [name, Buffer.from(value)]),
    timestamp: 0,
  };
}

/** How many times as much the second ones came to, of the medians of each round. */
function times(first: readonly Sample[], second: readonly Sample[], what: keyof Sample): string {
  const { median, min, max } = spreadOf(second.map((sample, round) => sample[what] / first[round]![what]));
  return `${median.toFixed(2)}× (${min.toFixed(2)}–${max.toFixed(2)})`;
}

function describe(samples: readonly Sample[]): string {
  const spread = (what: keyof Sample): Spread => spreadOf(samples.map((sample) => sample[what]));
  return `${describeSpread(spread("rate"))} records/s, ${describeSpread(spread("cpu"), 1)} µs of CPU a record`;
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
