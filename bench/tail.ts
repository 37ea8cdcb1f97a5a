import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

import { create } from "@bufbuild/protobuf";
import { timestampNow } from "@bufbuild/protobuf/wkt";
import { type Client } from "@connectrpc/connect";

import { type CloudEvent, CloudEventSchema } from "#gen/io/cloudevents/v1/cloudevents_pb.ts";
import { Stage } from "#gen/weir/v1/event_pb.ts";
import { type TailService } from "#gen/weir/v1/tail_pb.ts";

import { printRow } from "./report.ts";
import { percentile } from "./statistics.ts";
import { startTailPlatform, type TailPlatform } from "./tail-platform.ts";

// `npm run bench -- tail`: how soon, how fast and at what cost events are shown. Clients and servers share the machine. Events
// have 300 B of data.

const MEBIBYTE = 1024 * 1024;
const FILTERS = 100;
/** A server takes 256 streams on a connection. */
const STREAMS_OF_CONNECTION = 250;

/** The benchmark; the arguments are those of the command line after its name. */
export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seconds: { type: "string", default: "10" },
      viewers: { type: "string", default: "1000" },
      idle: { type: "string", default: "5000" },
      events: { type: "string", default: "50000" },
    },
  });
  const seconds = Number(values.seconds);
  await using platform = await startTailPlatform();
  // First, as its heap has grown with nothing yet.
  await measureIdle(platform, Number(values.idle), seconds);
  await measureReceipts(platform);
  await measureLatency(platform, seconds);
  await measureOne(platform, Number(values.events));
  await measureMany(platform, Number(values.viewers), seconds);
}

let serial = 0;

function eventOf(source: string): CloudEvent {
  serial += 1;
  return create(CloudEventSchema, {
    id: String(serial),
    source,
    specVersion: "1.0",
    type: "com.example.bench",
    attributes: {
      time: { attr: { case: "ceTimestamp", value: timestampNow() } },
      subject: { attr: { case: "ceString", value: String(serial % FILTERS) } },
    },
    data: { case: "textData", value: "x".repeat(300) },
  });
}

async function measureReceipts({ ingest }: TailPlatform): Promise<void> {
  const took: number[] = [];
  // The first ones wait for the worker to join its group, and warm everything up.
  for (let count = -100; count < 500; count += 1) {
    const began = performance.now();
    const request = { event: eventOf("/receipts"), waitFor: Stage.STORED };
    const { receipt } = await ingest.createEvent(request, { timeoutMs: 60_000 });
    if (receipt?.stage !== Stage.STORED) throw new Error("An event was not stored in time.");
    if (count >= 0) took.push(performance.now() - began);
  }
  const p99 = percentile(took, 0.99);
  printRow({
    what: "receipts that wait until the event is stored, one after the other",
    measured: `p50 ${percentile(took, 0.5).toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`,
    ratio: `${(p99 / 100).toFixed(2)} of the target`,
    target: "p99 < 100 ms",
    isMet: p99 < 100,
  });
}

/** Sends 1,000 events a second, in batches of 10, and answers how many it sent once all are acknowledged. */
async function send(
  { ingest }: TailPlatform,
  source: string,
  seconds: number,
  sent: (id: string) => void = () => undefined,
): Promise<number> {
  const calls: Promise<unknown>[] = [];
  const began = performance.now();
  for (let batch = 0; batch < seconds * 100; batch += 1) {
    const early = began + batch * 10 - performance.now();
    if (early > 0) await sleep(early);
    const events = Array.from({ length: 10 }, () => eventOf(source));
    for (const { id } of events) sent(id);
    calls.push(ingest.batchCreateEvents({ events }));
  }
  await Promise.all(calls);
  return calls.length * 10;
}

interface Viewer {
  /** Resolves when the stream is open. */
  readonly opened: Promise<void>;
  /** Resolves when the stream has ended. */
  readonly ended: Promise<void>;
  readonly count: number;
}

/** Reads a tail until the signal is raised. */
function view(
  client: Client<typeof TailService>,
  filter: string,
  signal: AbortSignal,
  seen: (id: string) => void = () => undefined,
): Viewer {
  const opened = Promise.withResolvers<void>();
  let count = 0;
  const read = async (): Promise<void> => {
    for await (const { message } of client.tailEvents({ filter }, { signal })) {
      if (message.case === "opened") opened.resolve();
      if (message.case === "gap") throw new Error("A gap that nobody asked for.");
      if (message.case !== "batch") continue;
      count += message.value.events.length;
      for (const { cloudEvent } of message.value.events) seen(cloudEvent!.id);
    }
  };
  const ended = read().catch((error: unknown) => {
    opened.reject(error);
    if (!signal.aborted) throw error;
  });
  return {
    opened: opened.promise,
    ended,
    get count() {
      return count;
    },
  };
}

async function until(isSo: () => boolean): Promise<void> {
  const deadline = performance.now() + 60_000;
  while (!isSo()) {
    if (performance.now() > deadline) throw new Error("Not all events were seen within a minute.");
    await sleep(20);
  }
}

async function measureLatency(platform: TailPlatform, seconds: number): Promise<void> {
  const end = new AbortController();
  const sentAt = new Map<string, number>();
  const took: number[] = [];
  const viewer = view(platform.tails(1)[0]!, "source = /latency", end.signal, (id) =>
    took.push(performance.now() - sentAt.get(id)!),
  );
  await viewer.opened;
  const sent = await send(platform, "/latency", seconds, (id) => sentAt.set(id, performance.now()));
  await until(() => viewer.count === sent);
  end.abort();
  await viewer.ended;
  const [p50, p99] = [percentile(took, 0.5), percentile(took, 0.99)];
  printRow({
    what: `from the call to the message of a tail, at 1,000 events/s in batches of 10, ${sent} events`,
    measured: `p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`,
    ratio: `${(p50 / 60).toFixed(2)} and ${(p99 / 250).toFixed(2)} of the targets`,
    target: "p50 < 60 ms, p99 < 250 ms",
    isMet: p50 < 60 && p99 < 250,
  });
}

async function measureOne(platform: TailPlatform, count: number): Promise<void> {
  const [client] = platform.tails(1);
  const first = client!.tailEvents({ filter: "type = nothing" })[Symbol.asyncIterator]();
  const { value } = await first.next();
  const cursor = value?.message.value?.cursor ?? "";
  await first.return?.();
  for (let done = 0; done < count; done += 5_000) {
    const batches = Array.from({ length: 20 }, () =>
      platform.ingest.batchCreateEvents(
        { events: Array.from({ length: 250 }, () => eventOf("/one")), waitFor: Stage.STORED },
        { timeoutMs: 60_000 },
      ),
    );
    await Promise.all(batches);
  }
  const rates: number[] = [];
  for (let round = 0; round < 3; round += 1) {
    let [seen, began] = [0, performance.now()];
    for await (const { message } of client!.tailEvents({ start: { case: "cursor", value: cursor } })) {
      if (message.case === "opened") began = performance.now();
      if (message.case === "batch") seen += message.value.events.length;
      if (seen >= count) break;
    }
    rates.push((seen * 1_000) / (performance.now() - began));
  }
  const rate = percentile(rates, 0.5);
  printRow({
    what: `one viewer without a filter that catches up with ${count} events`,
    measured: `${rate.toFixed(0)} events/s`,
    ratio: `${(rate / 10_000).toFixed(2)} of 10,000`,
    target: "10,000 events/s",
    isMet: rate >= 10_000,
  });
}

async function measureMany(platform: TailPlatform, count: number, seconds: number): Promise<void> {
  const end = new AbortController();
  const clients = platform.tails(Math.ceil(count / STREAMS_OF_CONNECTION));
  const viewers = Array.from({ length: count }, (_, index) => {
    const filter = `source = /many subject = "${index % FILTERS}"`;
    return view(clients[index % clients.length]!, filter, end.signal);
  });
  await Promise.all(viewers.map(({ opened }) => opened));
  const reads = (by: string): Promise<number> => platform.metric(`weir_tail_reads_total{by="${by}"}`);
  const [readsBefore, catchUpsBefore, cpuBefore] = [
    await reads("reader"),
    await reads("catch_up"),
    await cpuOf(platform),
  ];
  const began = performance.now();
  const sent = await send(platform, "/many", seconds);
  await until(() => viewers.every((viewer) => viewer.count === sent / FILTERS));
  const took = (performance.now() - began) / 1_000;
  const cpu = ((await cpuOf(platform)) - cpuBefore) / took;
  end.abort();
  await Promise.all(viewers.map(({ ended }) => ended));
  const [byReader, byOthers] = [
    (await reads("reader")) - readsBefore,
    (await reads("catch_up")) - catchUpsBefore,
  ];
  printRow({
    what: `${count} viewers with ${FILTERS} different filters at 1,000 events/s in, ${sent} events`,
    measured: `each complete after ${took.toFixed(1)} s; ${(byReader / took).toFixed(1)} statements/s of the one reader, ${byOthers} of viewers`,
    ratio: `${(took / seconds).toFixed(2)} of the time of sending`,
    target: "each complete, one statement a wake",
    isMet: took < seconds * 1.2 && byOthers === 0,
    notes: [`${(cpu * 100).toFixed(0)} % of a core for the server`],
  });
}

async function measureIdle(platform: TailPlatform, count: number, seconds: number): Promise<void> {
  const alone = (await platform.metric("process_memory_usage")) / MEBIBYTE;
  const end = new AbortController();
  const clients = platform.tails(Math.ceil(count / STREAMS_OF_CONNECTION));
  const viewers: Viewer[] = [];
  for (let index = 0; index < count; index += 1) {
    viewers.push(view(clients[index % clients.length]!, "", end.signal));
    if (index % 250 === 249) await Promise.all(viewers.slice(-250).map(({ opened }) => opened));
  }
  await Promise.all(viewers.map(({ opened }) => opened));
  await sleep(5_000);
  const [began, before] = [performance.now(), await cpuOf(platform)];
  // Long enough for each to be sent a heartbeat.
  await sleep(Math.max(seconds, 20) * 1_000);
  const cpu = ((await cpuOf(platform)) - before) / ((performance.now() - began) / 1_000);
  const memory = (await platform.metric("process_memory_usage")) / MEBIBYTE;
  end.abort();
  await Promise.all(viewers.map(({ ended }) => ended));
  printRow({
    what: `${count} idle viewers of one server process`,
    measured: `${memory.toFixed(0)} MiB resident, ${(cpu * 100).toFixed(1)} % of a core`,
    ratio: `${(memory / 381).toFixed(2)} and ${(cpu / 0.2).toFixed(2)} of the targets`,
    target: "< 400 MB (381 MiB), < 20 % of a core",
    isMet: memory < 381 && cpu < 0.2,
    notes: [`${alone.toFixed(0)} MiB before the first`],
  });
}

async function cpuOf(platform: TailPlatform): Promise<number> {
  const of = (mode: string): Promise<number> => platform.metric(`process_cpu_time{mode="${mode}"}`);
  return (await of("user")) + (await of("system"));
}
