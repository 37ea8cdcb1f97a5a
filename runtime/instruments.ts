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
  "weir.persist.records": {
    readonly outcome: "written" | "duplicate" | "conflict" | "redelivered" | "dead_lettered";
  };
  "weir.persist.batches": { readonly outcome: "stored" | "fenced" | "failed" };
  "weir.persist.skipped": { readonly kind: "NO_RECORD" | "LOST" | "ELSEWHERE" };
  "weir.persist.gaps": { readonly topic: string };
  "weir.dead_letters": { readonly reason: Reason };
  "weir.redrive.letters": {
    readonly outcome:
      | "replayed"
      | "undecodable"
      | "foreign_topic"
      | "budget_exhausted"
      | "too_large"
      | "refused";
  };
  "weir.redrive.chunks": { readonly outcome: "done" | "failed" | "fenced" };
  "weir.dead_letters.reconciled": { readonly outcome: "restored" | "moved" | "foreign" };
  "weir.store.retention.partitions": { readonly outcome: "detached" | "dropped" };
  "weir.store.retention.duplicates": Unlabelled;
  "weir.tail.events": { readonly source: "ring" | "store" };
  "weir.tail.reads": { readonly by: "reader" | "catch_up" };
  "weir.tail.gaps": { readonly reason: "LAG" | "EXPIRED" };
  "weir.trace.spans": { readonly outcome: "exported" | "failed" | "dropped" };
}

/** What is measured again and again, with its labels. */
export interface Histograms {
  "weir.request.duration": { readonly method: string; readonly code: string };
  "weir.ingest.event.size": { readonly protocol: "rpc" | "http" };
  "weir.ingest.batch.size": { readonly protocol: "rpc" | "http" };
  "weir.ingest.wait.duration": { readonly outcome: "reached" | "not_reached" | "capacity" };
  "weir.publish.duration": { readonly topic: string };
  "weir.publish.batch.size": { readonly topic: string };
  "weir.persist.batch.size": Unlabelled;
  "weir.persist.batch.duration": { readonly outcome: "stored" | "fenced" | "failed" };
  "weir.persist.age": Unlabelled;
  "weir.search.duration": {
    readonly method: "search" | "get" | "journey" | "facets" | "histogram" | "total" | "overview";
    readonly outcome: "ok" | Reason;
  };
}

/** What is so at the moment when the page is read, with its labels. */
export interface Gauges {
  "weir.connections.active": { readonly protocol: "http/1.1" | "h2" };
  "weir.streams.active": Unlabelled;
  "weir.request.bodies.size": Unlabelled;
  "weir.ingest.waiting": Unlabelled;
  "weir.producer.queue.records": Unlabelled;
  "weir.producer.queue.size": Unlabelled;
  "weir.consumer.lag": { readonly group: string; readonly topic: string; readonly partition: number };
  "weir.consumer.partitions": { readonly group: string; readonly state: "assigned" | "stopped" | "failed" };
  "weir.store.default_partition.rows": Unlabelled;
  "weir.store.terms.pending": Unlabelled;
  "weir.store.rollups.lag": Unlabelled;
  "weir.store.partitions.ahead": Unlabelled;
  "weir.store.partitions.detached": Unlabelled;
  "weir.search.waiting": Unlabelled;
  "weir.tail.streams": Unlabelled;
  "weir.tail.ring.size": Unlabelled;
  "weir.database.connections": {
    readonly pool: "write" | "read" | "export" | "tail";
    readonly state: "idle" | "used" | "waiting";
  };
  "process.memory.usage": Unlabelled;
  "process.cpu.time": { readonly mode: "user" | "system" };
  "nodejs.eventloop.delay": { readonly statistic: "p50" | "p99" | "max" };
}

type Unlabelled = Readonly<Record<never, never>>;

/** What an instrument says of itself. */
export interface Instrument<Labels> {
  /** UCUM, as OpenTelemetry's conventions have it: s, By, {event}. */
  readonly unit: string;
  /** What it counts or measures, a sentence for an operator. */
  readonly help: string;
  /** The values of each label, or what they are taken from. */
  readonly labels: { readonly [L in keyof Labels]: readonly Labels[L][] | string };
}

const METHOD = "an RPC method's full name or the path of a route";
const REASON = "a reason of core/reason.ts";
const TOPIC = "a topic's name";
const EDGE = ["rpc", "http"] as const;
const STORED = ["stored", "fenced", "failed"] as const;
const NONE = {} as const;

/** Every counter. Names follow OpenTelemetry; Prometheus shows them with underscores and ends counters in _total. */
export const COUNTERS: { readonly [N in keyof Counters]: Instrument<Counters[N]> } = {
  "weir.request.refusals": {
    unit: "{request}",
    help: "Requests that ended in an error, by reason. Not those that the client ended itself: the durations count them by the code canceled.",
    labels: { method: METHOD, reason: REASON },
  },
  "weir.ingest.events": {
    unit: "{event}",
    help: "Events that were sent to Weir, by what became of them.",
    labels: { protocol: EDGE, outcome: `accepted or ${REASON}` },
  },
  "weir.publish.records": {
    unit: "{record}",
    help: "Records handed to the producer, by outcome.",
    labels: { topic: TOPIC, outcome: ["acknowledged", "refused", "unknown"] },
  },
  "weir.persist.records": {
    unit: "{record}",
    help:
      "Records that left the log, by what became of them. Duplicate: the event was stored from another record; conflict: " +
      "so it was, and differs; redelivered: the record was read again.",
    labels: { outcome: ["written", "duplicate", "conflict", "redelivered", "dead_lettered"] },
  },
  "weir.persist.batches": {
    unit: "{batch}",
    help: "Transactions of the persist role, by outcome.",
    labels: { outcome: STORED },
  },
  "weir.persist.skipped": {
    unit: "{offset}",
    help: "Offsets that were passed without a record, by why. NO_RECORD: control records, aborted transactions, compaction.",
    labels: { kind: ["NO_RECORD", "LOST", "ELSEWHERE"] },
  },
  "weir.persist.gaps": {
    unit: "{record}",
    help: "Records that left the log before they were stored, or that only another database may have stored.",
    labels: { topic: TOPIC },
  },
  "weir.dead_letters": {
    unit: "{record}",
    help: "Records written to the dead-letter topic, by reason.",
    labels: { reason: REASON },
  },
  "weir.redrive.letters": {
    unit: "{letter}",
    help: "Dead letters that redrives have come past, by what became of them.",
    labels: {
      outcome: ["replayed", "undecodable", "foreign_topic", "budget_exhausted", "too_large", "refused"],
    },
  },
  "weir.redrive.chunks": {
    unit: "{chunk}",
    help: "Chunks of redrives, by outcome. Failed: it is tried again; fenced: another worker has taken the redrive over.",
    labels: { outcome: ["done", "failed", "fenced"] },
  },
  "weir.dead_letters.reconciled": {
    unit: "{record}",
    help:
      "Records of the dead-letter topic that put its index right. Restored: a letter had no row; moved: its row named " +
      "another place; foreign: it is no dead letter of Weir's.",
    labels: { outcome: ["restored", "moved", "foreign"] },
  },
  "weir.store.retention.partitions": {
    unit: "{partition}",
    help: "Monthly partitions that retention took out of the table.",
    labels: { outcome: ["detached", "dropped"] },
  },
  "weir.store.retention.duplicates": {
    unit: "{row}",
    help: "Rows of repeats that retention removed.",
    labels: NONE,
  },
  "weir.tail.events": {
    unit: "{event}",
    help: "Events that were sent to tails, by where they came from: the ring that all share, or the store, for those behind it.",
    labels: { source: ["ring", "store"] },
  },
  "weir.tail.reads": {
    unit: "{statement}",
    help: "Statements that brought events for tails: of the one reader, or of a tail that is behind.",
    labels: { by: ["reader", "catch_up"] },
  },
  "weir.tail.gaps": {
    unit: "{gap}",
    help: "Times that a tail was moved on, as it had asked for. LAG: it was too far behind; EXPIRED: retention was there.",
    labels: { reason: ["LAG", "EXPIRED"] },
  },
  "weir.trace.spans": {
    unit: "{span}",
    help: "Spans that were recorded, by outcome. Failed: the endpoint did not take them; dropped: the queue was full.",
    labels: { outcome: ["exported", "failed", "dropped"] },
  },
};

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const AGES = [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 3_600, 21_600, 86_400];
const BYTES = [256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576];
const RECORDS = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000];

/** Every histogram, with the upper bounds of its buckets. */
export const HISTOGRAMS: {
  readonly [N in keyof Histograms]: Instrument<Histograms[N]> & { readonly buckets: readonly number[] };
} = {
  "weir.request.duration": {
    unit: "s",
    help: "The time of a call or HTTP request, by method and Connect code.",
    labels: { method: METHOD, code: "ok or a code of Connect's" },
    buckets: SECONDS,
  },
  "weir.ingest.event.size": {
    unit: "By",
    help: "The encoded size of accepted events.",
    labels: { protocol: EDGE },
    buckets: BYTES,
  },
  "weir.ingest.batch.size": {
    unit: "{event}",
    help: "Events of a request that brings several.",
    labels: { protocol: EDGE },
    buckets: RECORDS,
  },
  "weir.ingest.wait.duration": {
    unit: "s",
    help:
      "How long an event was waited for whose sender asked for a later stage. Not reached: the deadline came first, or the " +
      "server's stop; capacity: WEIR_PROGRESS_WAITS were waited for already.",
    labels: { outcome: ["reached", "not_reached", "capacity"] },
    buckets: SECONDS,
  },
  "weir.publish.duration": {
    unit: "s",
    help: "The time of a record from the producer's queue to its acknowledgement.",
    labels: { topic: TOPIC },
    buckets: SECONDS,
  },
  "weir.publish.batch.size": {
    unit: "{record}",
    help: "Records in one produce request.",
    labels: { topic: TOPIC },
    buckets: RECORDS,
  },
  "weir.persist.batch.size": {
    unit: "{record}",
    help: "Records in one transaction.",
    labels: NONE,
    buckets: RECORDS,
  },
  "weir.persist.batch.duration": {
    unit: "s",
    help: "The time of one transaction.",
    labels: { outcome: STORED },
    buckets: SECONDS,
  },
  "weir.persist.age": {
    unit: "s",
    help: "How long ago the oldest event of a transaction was accepted when it was stored.",
    labels: NONE,
    buckets: AGES,
  },
  "weir.search.duration": {
    unit: "s",
    help: "The time of a read with its wait: of a page, an event, its journey, one of the summaries, or an overview; failed ones are timed too.",
    labels: {
      method: ["search", "get", "journey", "facets", "histogram", "total", "overview"],
      outcome: `ok or ${REASON}`,
    },
    buckets: SECONDS,
  },
};

/** Every gauge. */
export const GAUGES: { readonly [N in keyof Gauges]: Instrument<Gauges[N]> } = {
  "weir.connections.active": {
    unit: "{connection}",
    help: "Open connections.",
    labels: { protocol: ["http/1.1", "h2"] },
  },
  "weir.streams.active": { unit: "{stream}", help: "Open server streams.", labels: NONE },
  "weir.request.bodies.size": {
    unit: "By",
    help: "What request bodies hold that are being read. At WEIR_MAX_BODY_MEMORY further ones are refused.",
    labels: NONE,
  },
  "weir.ingest.waiting": {
    unit: "{event}",
    help: "Events whose senders wait for a later stage.",
    labels: NONE,
  },
  "weir.producer.queue.records": { unit: "{record}", help: "Records waiting or in flight.", labels: NONE },
  "weir.producer.queue.size": { unit: "By", help: "Bytes waiting or in flight.", labels: NONE },
  "weir.consumer.lag": {
    unit: "{record}",
    help: "Records on the log that are not accounted for yet. A partition that was not read yet has no value.",
    labels: { group: "a consumer group's name", topic: TOPIC, partition: "a partition's number" },
  },
  "weir.consumer.partitions": {
    unit: "{partition}",
    help: "Partitions of this member: assigned and read, stopped (tried again by itself), or failed.",
    labels: { group: "a consumer group's name", state: ["assigned", "stopped", "failed"] },
  },
  "weir.store.default_partition.rows": {
    unit: "{row}",
    help: "Rows in the default partition. Above zero: a month's partition was missing when they came.",
    labels: NONE,
  },
  "weir.store.terms.pending": {
    unit: "By",
    help: "What the last round of the index role found that was not merged yet. Searches read all of it: some megabytes under load.",
    labels: NONE,
  },
  "weir.store.rollups.lag": {
    unit: "{offset}",
    help: "Offsets that were stored and are not in the sums by hour yet, after the last step. Above zero for long: a backlog, or their rows come faster than they are summed up.",
    labels: NONE,
  },
  "weir.store.partitions.ahead": {
    unit: "{partition}",
    help: "Monthly partitions after the current one. Under three: the maintain role does not run.",
    labels: NONE,
  },
  "weir.store.partitions.detached": {
    unit: "{partition}",
    help: "Monthly tables that retention has detached and that nobody has dropped yet.",
    labels: NONE,
  },
  "weir.tail.streams": { unit: "{stream}", help: "Open tails.", labels: NONE },
  "weir.tail.ring.size": {
    unit: "By",
    help: "What the newest events take that are held for all tails, about.",
    labels: NONE,
  },
  "weir.search.waiting": { unit: "{search}", help: "Reads that wait for their turn.", labels: NONE },
  "weir.database.connections": {
    unit: "{connection}",
    help: "Connections of a pool, by state.",
    labels: { pool: ["write", "read", "export", "tail"], state: ["idle", "used", "waiting"] },
  },
  "process.memory.usage": { unit: "By", help: "The resident memory of the process.", labels: NONE },
  "process.cpu.time": {
    unit: "s",
    help: "The CPU time that the process has used.",
    labels: { mode: ["user", "system"] },
  },
  "nodejs.eventloop.delay": {
    unit: "s",
    help: "How late the event loop ran since the page was last read.",
    labels: { statistic: ["p50", "p99", "max"] },
  },
};
