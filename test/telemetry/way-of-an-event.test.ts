import { randomBytes } from "node:crypto";
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { partitionFor } from "#core/partition.ts";
import { type Receipt } from "#gen/weir/v1/event_pb.ts";
import { CreateEventResponseSchema } from "#gen/weir/v1/ingest_pb.ts";
import { type ReceivedRecord } from "#kafka/ports.ts";

import { createClients, refusalOf } from "../server/clients.ts";
import { sketch, toMessage, toStructured } from "../server/events.ts";
import { readTopic } from "../support/topic.ts";
import { startWeir, type Weir } from "../support/weir.ts";
import { type OtlpSink, type ReceivedSpan, startOtlpSink } from "./otlp-sink.ts";

const WAYS = ["Connect JSON", "Connect binary", "gRPC", "gRPC-Web", "HTTP"] as const;
const PARTITIONS = WAYS.length;
const KINDS = ["SERVER", "PRODUCER", "CONSUMER", "CLIENT"];
const CREATE_EVENT = "weir.v1.IngestService/CreateEvent";
const CONNECT = { "rpc.system.name": "connectrpc", "rpc.method": CREATE_EVENT };
const GRPC = { "rpc.system.name": "grpc", "rpc.method": CREATE_EVENT, "rpc.status_code": "OK" };
const SERVER_ATTRIBUTES = {
  "Connect JSON": CONNECT,
  "Connect binary": CONNECT,
  gRPC: GRPC,
  "gRPC-Web": GRPC,
  HTTP: {
    "http.request.method": "POST",
    "http.route": "/v1/events",
    "url.path": "/v1/events",
    "url.scheme": "http",
    "http.response.status_code": 200,
  },
};

let sink: OtlpSink;
let weir: Weir;
let token: string;
const stack = new AsyncDisposableStack();
beforeAll(async () => {
  sink = stack.use(await startOtlpSink());
  weir = stack.use(
    await startWeir({
      workers: true,
      env: {
        WEIR_OTLP_ENDPOINT: `${sink.url}/`,
        WEIR_TRACE_SAMPLING: "0",
        WEIR_TOPIC_EVENTS_PARTITIONS: String(PARTITIONS),
      },
    }),
  );
  token = await weir.token();
});
afterAll(() => stack.disposeAsync());

interface Caller {
  readonly traceId: string;
  readonly spanId: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** A client's span: nobody but its own headers knows of it. */
function createCaller(flags: "00" | "01" = "01"): Caller {
  const [traceId, spanId] = [randomBytes(16).toString("hex"), randomBytes(8).toString("hex")];
  return {
    traceId,
    spanId,
    headers: { traceparent: `00-${traceId}-${spanId}-${flags}`, tracestate: "vendor=opaque" },
  };
}

type Way = readonly [
  server: ReceivedSpan,
  producer: ReceivedSpan,
  consumer: ReceivedSpan,
  transaction: ReceivedSpan,
];

/** The spans of an event that was alone in its batch. */
async function wayOf({ traceId }: Caller): Promise<Way> {
  return await sink.until((spans) => {
    const mine = spans.filter((span) => span.traceId === traceId);
    const [server, producer, consumer, transaction, ...others] = KINDS.flatMap((kind) =>
      mine.filter((span) => span.kind === kind),
    );
    expect(others).toEqual([]);
    if (!server || !producer || !consumer || !transaction) return undefined;
    return [server, producer, consumer, transaction];
  });
}

async function recordOf(id: string): Promise<ReceivedRecord> {
  const records = await readTopic(weir.brokers, weir.topic);
  const found = records.find(({ headers }) => headerOf(headers, "ce_id") === id);
  if (found === undefined) throw new Error(`There is no record of event ${id}`);
  return found;
}

function headerOf(headers: ReceivedRecord["headers"], name: string): string | undefined {
  const value = headers.find(([other]) => other === name)?.[1];
  return value ? Buffer.from(value).toString() : undefined;
}

async function rowOf(id: string): Promise<{ trace_parent: string | null; trace_state: string | null }> {
  const client = new pg.Client({ connectionString: weir.databaseUrl });
  await client.connect();
  try {
    const { rows } = await client.query("select trace_parent, trace_state from events.event where id = $1", [
      id,
    ]);
    return rows[0] as Awaited<ReturnType<typeof rowOf>>;
  } finally {
    await client.end();
  }
}

/** A source whose events come into this partition, so that they share no batch with those of another. */
function sourceFor(partition: number): string {
  for (let i = 0; ; i++) if (partitionFor(`/source/${i}`, PARTITIONS) === partition) return `/source/${i}`;
}

interface Sent {
  readonly caller: Caller;
  readonly id: string;
  readonly position: { readonly partition: number; readonly offset: bigint };
}

function positionOf(receipt: Receipt | undefined): Sent["position"] {
  if (receipt?.position === undefined) throw new Error("The answer has no receipt");
  return receipt.position;
}

/** Sends an event that is alone in its partition. */
async function send(way: (typeof WAYS)[number]): Promise<Sent> {
  const [caller, event] = [createCaller(), sketch({ source: sourceFor(WAYS.indexOf(way)) })];
  const { id = "" } = event.attributes;
  if (way === "HTTP") {
    const { headers, body } = toStructured(event);
    const response = await fetch(`${weir.baseUrl}/v1/events`, {
      method: "POST",
      headers: { ...headers, ...caller.headers, authorization: `Bearer ${token}` },
      body,
    });
    const { receipt } = fromJson(CreateEventResponseSchema, (await response.json()) as JsonValue);
    return { caller, id, position: positionOf(receipt) };
  }
  const { ingest } = createClients(weir.baseUrl, token, way, caller.headers);
  const { receipt } = await ingest.createEvent({ event: toMessage(event) });
  return { caller, id, position: positionOf(receipt) };
}

let sent: readonly Sent[];
const refused: Caller[] = [];

describe("an event", () => {
  beforeAll(async () => {
    sent = await Promise.all(WAYS.map(send));
  });

  it.each(WAYS)("by %s is one trace from the client to the transaction of its row", async (way) => {
    const { caller, id, position } = sent[WAYS.indexOf(way)]!;
    const [server, producer, consumer, transaction] = await wayOf(caller);
    expect(server).toMatchObject({
      service: "weir-server",
      parentSpanId: caller.spanId,
      traceState: "vendor=opaque",
      name: way === "HTTP" ? "POST /v1/events" : CREATE_EVENT,
      attributes: SERVER_ATTRIBUTES[way],
      isError: false,
    });

    expect(producer).toMatchObject({
      service: "weir-server",
      parentSpanId: server.spanId,
      name: `send ${weir.topic}`,
      isError: false,
    });
    // The offset is known by the acknowledgement alone, and what is said of a span after its end is not kept.
    expect(producer.attributes).toEqual({
      "messaging.system.name": "kafka",
      "messaging.operation.name": "send",
      "messaging.operation.type": "send",
      "messaging.destination.name": weir.topic,
      "messaging.destination.partition.id": String(position.partition),
      "messaging.message.body.size": 0,
      "kafka.offset": Number(position.offset),
    });

    const traceParent = `00-${caller.traceId}-${producer.spanId}-01`;
    const { headers } = await recordOf(id);
    expect(headerOf(headers, "traceparent")).toBe(traceParent);
    expect(headerOf(headers, "tracestate")).toBe("vendor=opaque");

    expect(consumer).toMatchObject({
      service: "weir-workers",
      parentSpanId: producer.spanId,
      name: `process ${weir.topic}`,
      links: [{ traceId: caller.traceId, spanId: producer.spanId }],
      isError: false,
    });
    expect(consumer.attributes).toMatchObject({
      "messaging.destination.partition.id": String(position.partition),
      "messaging.batch.message_count": 1,
      "kafka.offset": Number(position.offset),
    });

    const database = new URL(weir.databaseUrl).pathname.slice(1);
    expect(transaction).toMatchObject({
      service: "weir-workers",
      parentSpanId: consumer.spanId,
      name: `TRANSACTION ${database}`,
      attributes: { "db.system.name": "postgresql", "db.namespace": database },
      isError: false,
    });
    expect(await rowOf(id)).toEqual({ trace_parent: traceParent, trace_state: "vendor=opaque" });

    expectWithin(producer, server);
    expectWithin(transaction, consumer);
  });
});

/** Spans begin at a whole millisecond and end by a finer clock, so that one may seem to outlast the other. */
const CLOCK_NS = 1_000_000n;

function expectWithin(inner: ReceivedSpan, outer: ReceivedSpan): void {
  expect(inner.start).toBeGreaterThanOrEqual(outer.start);
  expect(inner.end).toBeGreaterThanOrEqual(inner.start);
  expect(inner.end).toBeLessThan(outer.end + CLOCK_NS);
}

it("tells why a request was refused, and what is the sender's fault from what is ours", async () => {
  const [sender, ours] = [createCaller(), createCaller()];
  refused.push(sender, ours);
  const connect = createClients(weir.baseUrl, token, "Connect binary", sender.headers);
  await refusalOf(connect.ingest.createEvent({ event: toMessage(sketch({ time: undefined })) }));
  const grpc = createClients(weir.baseUrl, token, "gRPC", ours.headers);
  await refusalOf(grpc.ingest.createEvent({ event: toMessage(sketch()), waitFor: 3 }));

  const spanOf = async ({ traceId }: Caller): Promise<ReceivedSpan> =>
    await sink.until((spans) => spans.find((span) => span.traceId === traceId));
  const theirs = await spanOf(sender);
  expect(theirs.attributes).toMatchObject({
    "rpc.status_code": "invalid_argument",
    "weir.reason": "INVALID_ATTRIBUTES",
  });
  expect(theirs.isError).toBe(false);
  expect(await spanOf(ours)).toMatchObject({
    attributes: {
      "rpc.status_code": "UNIMPLEMENTED",
      "error.type": "UNIMPLEMENTED",
      "weir.reason": "STAGE_UNSUPPORTED",
    },
    isError: true,
  });
});

it("records nothing of what is not sampled, by the caller or by the ratio, or open to all", async () => {
  const [unsampled, anybody, sampled] = [createCaller("00"), createCaller(), createCaller()];
  for (const path of ["/healthz", "/readyz", "/metrics"])
    await fetch(`${weir.baseUrl}${path}`, { headers: anybody.headers });
  // The sampled one shares no batch with the others, for the span of a batch is a trace of its own.
  const inPartition = (partition: number): ReturnType<typeof sketch> =>
    sketch({ source: sourceFor(partition) });
  const [theirs, own, other] = [inPartition(0), inPartition(0), inPartition(1)];
  const ingestOf = (caller?: Caller) =>
    createClients(weir.baseUrl, token, "Connect binary", caller?.headers).ingest;
  await ingestOf(unsampled).createEvent({ event: toMessage(theirs) });
  await ingestOf().createEvent({ event: toMessage(own) });
  await ingestOf(sampled).createEvent({ event: toMessage(other) });
  await sink.until((spans) => spans.find(({ traceId }) => traceId === sampled.traceId));

  // Their trace context goes on as it came.
  const traceParentOf = async ({ attributes }: typeof own): Promise<string | undefined> =>
    headerOf((await recordOf(attributes["id"] ?? "")).headers, "traceparent");
  expect(await traceParentOf(theirs)).toBe(unsampled.headers["traceparent"]);
  expect(await traceParentOf(own)).toBeUndefined();
  // What came before the sampled one would have been sent before it, by the same queue.
  const callers = new Set(
    [...sent.map(({ caller }) => caller), ...refused, sampled].map(({ traceId }) => traceId),
  );
  expect(sink.spans.filter(({ traceId }) => !callers.has(traceId))).toEqual([]);
});

it("counts the spans", async () => {
  const page = await (await fetch(`${weir.baseUrl}/metrics`)).text();
  expect(Number(/^weir_trace_spans_total\{outcome="exported"\} (\d+)$/m.exec(page)?.[1])).toBeGreaterThan(0);
});

it("costs no request anything while its endpoint does not answer, nor the process its stop", async () => {
  const { ingest } = createClients(weir.baseUrl, token, "gRPC", createCaller().headers);
  const send = async (): Promise<number> => {
    const began = performance.now();
    await ingest.createEvent({ event: toMessage(sketch()) });
    return performance.now() - began;
  };
  const asked = sink.fallSilent();
  await send();
  await asked;
  // An export is under way, and stays so for 5 s.
  const times = await Promise.all(Array.from({ length: 50 }, send));
  expect(Math.max(...times)).toBeLessThan(4_000);

  await weir.server.stop();
  expect(weir.server.exit()).toEqual({ code: 0, signal: null });
  expect(weir.log().map(({ message }) => message)).toContain("The last spans could not be sent");
});
