import { type Reason } from "#core/reason.ts";

// The tables are closed, so that a misspelt name or label does not compile and nothing out of a request becomes a
// label. A label of type string stands for a name out of a registry of ours: a method, a topic, a consumer group.

/** What only grows, with its labels. */
export interface Counters {
  "weir.request.refusals": { readonly method: string; readonly reason: Reason };
  "weir.ingest.events": { readonly protocol: "rpc" | "http"; readonly outcome: "accepted" | Reason };
  "weir.publish.records": {
    readonly topic: string;
    readonly outcome: "acknowledged" | "refused" | "unknown";
  };
  "weir.persist.records": { readonly outcome: "written" | "duplicate" | "dead_lettered" };
  "weir.persist.batches": { readonly outcome: "stored" | "fenced" | "failed" };
  "weir.persist.gaps": { readonly topic: string };
  "weir.dead_letters": { readonly reason: Reason };
}

/** What is measured again and again, with its labels. */
export interface Histograms {
  "weir.request.duration": { readonly method: string; readonly code: string };
  "weir.ingest.event.size": { readonly protocol: "rpc" | "http" };
  "weir.publish.duration": { readonly topic: string };
  "weir.publish.batch.size": { readonly topic: string };
  "weir.persist.batch.size": Unlabelled;
  "weir.persist.batch.duration": { readonly outcome: "stored" | "fenced" | "failed" };
  "weir.search.duration": { readonly method: "search" | "get"; readonly outcome: "ok" | Reason };
}

/** What is so at the moment when the page is read, with its labels. */
export interface Gauges {
  "weir.connections.active": { readonly protocol: "http/1.1" | "h2" };
  "weir.streams.active": Unlabelled;
  "weir.producer.queue.records": Unlabelled;
  "weir.producer.queue.size": Unlabelled;
  "weir.consumer.lag": { readonly group: string; readonly topic: string; readonly partition: number };
  "weir.consumer.partitions": { readonly group: string; readonly state: "assigned" | "stopped" | "failed" };
  "weir.store.default_partition.rows": Unlabelled;
  "weir.store.partitions.ahead": Unlabelled;
  "weir.search.waiting": Unlabelled;
  "weir.database.connections": {
    readonly pool: "write" | "read";
    readonly state: "idle" | "used" | "waiting";
  };
  "process.memory.usage": Unlabelled;
  "process.cpu.time": { readonly mode: "user" | "system" };
  "nodejs.eventloop.delay": { readonly statistic: "p50" | "p99" | "max" };
}

type Unlabelled = Readonly<Record<never, never>>;

/** What an instrument says of itself. */
export interface Instrument {
  /** UCUM, as OpenTelemetry's conventions have it: s, By, {event}. */
  readonly unit: string;
  /** What it counts or measures, a sentence for an operator. */
  readonly help: string;
}

/** Every counter. Names follow OpenTelemetry; Prometheus shows them with underscores and ends counters in _total. */
export const COUNTERS: Readonly<Record<keyof Counters, Instrument>> = {
  "weir.request.refusals": { unit: "{request}", help: "Requests that ended in an error, by reason." },
  "weir.ingest.events": { unit: "{event}", help: "Events that were sent to Weir, by what became of them." },
  "weir.publish.records": { unit: "{record}", help: "Records handed to the producer, by outcome." },
  "weir.persist.records": { unit: "{record}", help: "Records that left the log, by what became of them." },
  "weir.persist.batches": { unit: "{batch}", help: "Transactions of the persist role, by outcome." },
  "weir.persist.gaps": {
    unit: "{record}",
    help: "Records that left the log before they were stored. Above zero: the store has lost them.",
  },
  "weir.dead_letters": { unit: "{record}", help: "Records written to the dead-letter topic, by reason." },
};

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const BYTES = [256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576];
const RECORDS = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000];

/** Every histogram, with the upper bounds of its buckets. */
export const HISTOGRAMS: Readonly<
  Record<keyof Histograms, Instrument & { readonly buckets: readonly number[] }>
> = {
  "weir.request.duration": {
    unit: "s",
    help: "The time of a call or HTTP request, by method and Connect code.",
    buckets: SECONDS,
  },
  "weir.ingest.event.size": { unit: "By", help: "The encoded size of accepted events.", buckets: BYTES },
  "weir.publish.duration": {
    unit: "s",
    help: "The time of a record from the producer's queue to its acknowledgement.",
    buckets: SECONDS,
  },
  "weir.publish.batch.size": { unit: "{record}", help: "Records in one produce request.", buckets: RECORDS },
  "weir.persist.batch.size": { unit: "{record}", help: "Records in one transaction.", buckets: RECORDS },
  "weir.persist.batch.duration": { unit: "s", help: "The time of one transaction.", buckets: SECONDS },
  "weir.search.duration": {
    unit: "s",
    help: "The time of a read with its wait; failed ones are timed too.",
    buckets: SECONDS,
  },
};

/** Every gauge. */
export const GAUGES: Readonly<Record<keyof Gauges, Instrument>> = {
  "weir.connections.active": { unit: "{connection}", help: "Open connections." },
  "weir.streams.active": { unit: "{stream}", help: "Open server streams." },
  "weir.producer.queue.records": { unit: "{record}", help: "Records waiting or in flight." },
  "weir.producer.queue.size": { unit: "By", help: "Bytes waiting or in flight." },
  "weir.consumer.lag": {
    unit: "{record}",
    help: "Records on the log that are not accounted for yet. A partition that was not read yet has no value.",
  },
  "weir.consumer.partitions": {
    unit: "{partition}",
    help: "Partitions of this member: assigned and read, stopped (tried again by itself), or failed.",
  },
  "weir.store.default_partition.rows": {
    unit: "{row}",
    help: "Rows in the default partition. Above zero: a month's partition was missing when they came.",
  },
  "weir.store.partitions.ahead": {
    unit: "{partition}",
    help: "Monthly partitions after the current one. Under three: the maintain role does not run.",
  },
  "weir.search.waiting": { unit: "{search}", help: "Reads that wait for their turn." },
  "weir.database.connections": { unit: "{connection}", help: "Connections of a pool, by state." },
  "process.memory.usage": { unit: "By", help: "The resident memory of the process." },
  "process.cpu.time": { unit: "s", help: "The CPU time that the process has used." },
  "nodejs.eventloop.delay": { unit: "s", help: "How late the event loop ran since the page was last read." },
};
