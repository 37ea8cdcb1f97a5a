import { randomBytes, randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

import { type AcceptedEvent } from "#core/event.ts";
import { parseTimestamp } from "#core/timestamp.ts";
import { loadKafkaClient } from "#kafka/client.ts";
import { type Producer } from "#kafka/ports.ts";
import { encodeRecord } from "#kafka/record.ts";
import { ensureTopics, type TopicSettings, topicTable } from "#kafka/topics.ts";
import { migrate } from "#postgres/migrate.ts";
import { createDatabase, type Database } from "#postgres/pool.ts";
import { getRedrive, type Redrive, startRedrive } from "#postgres/redrives.ts";
import { createTelemetry } from "#runtime/telemetry.ts";

import { type Child, startChild } from "../dev/child.ts";
import { freePort } from "../dev/ports.ts";
import { makeDeadLetters } from "../test/support/dead-letters.ts";
import { createServiceFolder, startLocalPostgres } from "../test/support/local-services.ts";
import { silentLogger } from "../test/support/logger.ts";
import { deleteTopics } from "../test/support/topic.ts";
import { printRow } from "./report.ts";
import { openBroker } from "./weir.ts";

// `npm run bench -- redrive --letters 100000`: how fast a worker replays dead letters in bulk, and in how much memory. The
// letters hold events of 600 B; the persist role does not run meanwhile, and stores them afterwards for the count.

const DATA_BYTES = 600;
const TARGET_PER_SECOND = 5_000;
const MEBIBYTE = 1024 * 1024;

/** What a run has. */
interface Bed {
  readonly db: Database;
  readonly databaseUrl: string;
  readonly brokers: string;
  readonly group: string;
  readonly topics: TopicSettings;
}

/** The benchmark; the arguments are those of the command line after its name. */
export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: { letters: { type: "string", default: "20000" } },
  });
  const count = Number(values.letters);
  await using stack = new AsyncDisposableStack();
  const bed = await makeBed(stack);
  await makeLetters(bed, count);

  const worker = await startWorker(bed, "redrive", stack);
  const { begun } = await startRedrive(bed.db, {
    id: randomUUID(),
    group: bed.group,
    filter: "",
    reason: undefined,
    maxPerSecond: 100_000,
    startedBy: "bench",
  });
  if (begun === undefined) throw new Error("Another redrive has not ended.");
  const memory: number[] = [];
  let redrive: Redrive | undefined = begun;
  while (redrive?.state === "RUNNING") {
    await sleep(100);
    memory.push(await memoryOf(worker));
    redrive = await getRedrive(bed.db, bed.group, begun.id);
    if (redrive?.error !== undefined) throw new Error(redrive.error);
  }
  const replayed = redrive?.counts.REPLAYED ?? 0;
  const seconds = Number(redrive!.endedAt! - redrive!.startedAt) / 1e6;
  await worker.child.stop();

  await startWorker(bed, "persist", stack);
  const deadline = performance.now() + 600_000;
  let rows = 0;
  while (rows < count && performance.now() < deadline) {
    await sleep(250);
    rows = await countRows(bed.db);
  }
  // A heap grows until it is collected: flat is where the last third needs no more than the one before.
  const third = Math.floor(memory.length / 3);
  const [middle, last] = [memory.slice(third, 2 * third), memory.slice(2 * third)].map((part) =>
    Math.max(...part),
  );
  const rate = replayed / seconds;
  const [inMiddle, atEnd] = [middle!, last!].map((bytes) => `${(bytes / MEBIBYTE).toFixed(0)} MiB`);
  printRow({
    what: `redrive of ${count} dead letters of ${DATA_BYTES} B, with the worker's look for it; ${seconds.toFixed(2)} s`,
    measured: `${rate.toFixed(0)} letters/s`,
    ratio: `${(rate / TARGET_PER_SECOND).toFixed(2)} of ${TARGET_PER_SECOND}`,
    target: `${TARGET_PER_SECOND}/s`,
    isMet: rate >= TARGET_PER_SECOND && replayed === count && rows === count,
    notes: [
      `replayed ${replayed}, stored afterwards ${rows} rows, each once`,
      `resident memory of the worker: ${inMiddle} at most in the second third, ${atEnd} in the last`,
    ],
  });
}

async function makeBed(stack: AsyncDisposableStack): Promise<Bed> {
  const broker = stack.use(await openBroker());
  const { folder, remove } = createServiceFolder("weir-bench-");
  stack.defer(remove);
  const { urlOf, stop } = await startLocalPostgres(folder);
  stack.defer(stop);
  const databaseUrl = urlOf("postgres");
  await migrate({ url: databaseUrl, logger: silentLogger });
  const db = stack.use(
    createDatabase({
      url: databaseUrl,
      poolSize: 2,
      applicationName: "weir bench",
      statementTimeoutMs: 60_000,
      connectTimeoutMs: 5_000,
      logger: silentLogger,
    }),
  );
  const name = randomUUID().slice(0, 8);
  const topics: TopicSettings = {
    replication: undefined,
    events: `bench.events.${name}`,
    eventsPartitions: 12,
    eventsRetentionMs: 7 * 24 * 3_600_000,
    deadLetters: `bench.dlq.${name}`,
    deadLettersPartitions: 3,
    deadLettersRetentionMs: 30 * 24 * 3_600_000,
  };
  stack.defer(() => deleteTopics(broker.address, [topics.events, topics.deadLetters]));
  return { db, databaseUrl, brokers: broker.address, group: `bench.persist.${name}`, topics };
}

async function makeLetters({ db, brokers, group, topics }: Bed, count: number): Promise<void> {
  const client = await loadKafkaClient("platformatic");
  const connection = {
    brokers: brokers.split(","),
    clientId: "bench",
    tls: undefined,
    sasl: undefined,
    connectTimeoutMs: 5_000,
    requestTimeoutMs: 30_000,
  };
  await using admin = client.createAdmin({ connection, log: silentLogger });
  await ensureTopics(admin, topics);
  const [events, letters] = topicTable(topics);
  await using producer: Producer = client.createProducer({
    connection,
    topics: [letters],
    log: silentLogger,
    telemetry: createTelemetry(silentLogger),
  });
  const records = Array.from({ length: count }, (_, index) =>
    encodeRecord(eventOf(index), events.name, events.partitions),
  );
  const place = { db, producer, group, events: topics.events, deadLetters: letters.name };
  await makeDeadLetters({ ...place, deadLettersPartitions: letters.partitions }, records);
}

function eventOf(index: number): AcceptedEvent {
  return {
    event: {
      id: randomUUID(),
      source: `/bench/${index % 64}`,
      type: "com.example.bench",
      subject: undefined,
      time: parseTimestamp(new Date().toISOString()),
      datacontenttype: "text/plain",
      dataschema: undefined,
      extensions: new Map(),
      data: { bytes: Buffer.from(randomBytes(DATA_BYTES / 2).toString("hex")), protoType: undefined },
    },
    acceptTime: Date.now(),
    principal: "bench",
    traceParent: undefined,
    traceState: undefined,
  };
}

interface Worker {
  readonly child: Child;
  readonly port: number;
}

async function startWorker(bed: Bed, role: string, stack: AsyncDisposableStack): Promise<Worker> {
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), "weir-bench-"));
  stack.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  const child = await startChild({
    name: "workers",
    command: process.execPath,
    args: ["--disable-warning=TimeoutNegativeWarning", "workers/main.ts"],
    cwd: join(import.meta.dirname, ".."),
    logFile: join(folder, "workers.log"),
    env: {
      ...process.env,
      WEIR_LOG_FORMAT: "json",
      WEIR_DATABASE_URL: bed.databaseUrl,
      WEIR_KAFKA_BROKERS: bed.brokers,
      WEIR_TOPIC_EVENTS: bed.topics.events,
      WEIR_TOPIC_DEAD_LETTERS: bed.topics.deadLetters,
      WEIR_PERSIST_GROUP: bed.group,
      WEIR_WORKER_ROLES: role,
      WEIR_WORKERS_PORT: String(port),
    },
  });
  stack.defer(() => child.stop());
  const ready = async (): Promise<boolean> =>
    fetch(`http://127.0.0.1:${port}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    );
  while (!(await ready())) await sleep(50);
  return { child, port };
}

async function memoryOf({ port }: Worker): Promise<number> {
  const page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  return Number(/^process_memory_usage(?:_bytes)? (\S+)$/m.exec(page)?.[1]);
}

async function countRows(db: Database): Promise<number> {
  const { rows } = await db.pool.query<{ count: number }>("select count(*)::int as count from events.event");
  return rows[0]!.count;
}
