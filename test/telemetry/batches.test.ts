import { afterAll, beforeAll, expect, it } from "vitest";

import { type ConsumerHandler, type ReceivedRecord } from "#kafka/ports.ts";
import { traceHandler } from "#kafka/traced.ts";
import { createTracer, type Tracer } from "#runtime/tracing.ts";

import { silentLogger } from "../support/logger.ts";
import { type OtlpSink, type ReceivedSpan, startOtlpSink } from "./otlp-sink.ts";

// A batch of several records, which a broker would not be made to bring together.

let sink: OtlpSink;
const stack = new AsyncDisposableStack();
beforeAll(async () => void (sink = stack.use(await startOtlpSink())));
afterAll(() => stack.disposeAsync());

const A = { trace: "a".repeat(32), span: "1".repeat(16) };
const B = { trace: "b".repeat(32), span: "2".repeat(16) };
const [SAMPLED, UNSAMPLED] = ["01", "00"];
const PARTITION = { topic: "events", partition: 7 };

function recordOf(traceParent: string | undefined, index: number): ReceivedRecord {
  return {
    ...PARTITION,
    offset: 40n + BigInt(index),
    key: null,
    value: null,
    timestamp: 0,
    headers: traceParent === undefined ? [] : [["traceparent", Buffer.from(traceParent)]],
  };
}

/** The spans of one batch whose records have these contexts. */
async function spansOf(
  traceParents: readonly (string | undefined)[],
  records: ConsumerHandler["records"] = async () => {},
): Promise<readonly ReceivedSpan[]> {
  const before = sink.spans.length;
  const tracer: Tracer | undefined = await createTracer({
    otlpEndpoint: sink.url,
    sampling: 1,
    serviceName: "test",
    telemetry: { count() {} },
    log: silentLogger,
  });
  const handler = traceHandler(
    { assigned: async () => 0n, records, passed: async () => {}, revoked() {} },
    "group",
    tracer,
  );
  const { signal } = new AbortController();
  await handler.records(PARTITION, traceParents.map(recordOf), signal).catch(() => undefined);
  await tracer?.[Symbol.asyncDispose]();
  return sink.spans.slice(before);
}

const context = ({ trace, span }: typeof A, flags = SAMPLED): string => `00-${trace}-${span}-${flags}`;
const link = ({ trace, span }: typeof A) => ({ traceId: trace, spanId: span });

it("begins a trace of its own where its records are of several, with a link to each that is recorded", async () => {
  const spans = await spansOf([context(A), undefined, context(B, UNSAMPLED), "not a traceparent"]);
  expect(spans).toHaveLength(1);
  const [span] = spans;
  expect(span).toMatchObject({
    kind: "CONSUMER",
    parentSpanId: "",
    links: [link(A)],
    attributes: {
      "messaging.destination.name": "events",
      "messaging.destination.partition.id": "7",
      "messaging.consumer.group.name": "group",
      "messaging.batch.message_count": 4,
      "kafka.offset": 40,
    },
  });
  expect([A.trace, B.trace]).not.toContain(span?.traceId);
});

it("is a part of the trace that all its records are of", async () => {
  const other = { ...A, span: "3".repeat(16) };
  const [span] = await spansOf([context(A), context(other)]);
  expect(span).toMatchObject({ traceId: A.trace, parentSpanId: A.span, links: [link(A), link(other)] });
});

it("has no span where none of its records has, whatever the ratio is", async () => {
  const batches: string[] = [];
  const handle: ConsumerHandler["records"] = async (_, records) => void batches.push(`${records.length}`);
  expect(await spansOf([context(A, UNSAMPLED), context(B, UNSAMPLED)], handle)).toEqual([]);
  expect(await spansOf([undefined], handle)).toEqual([]);
  expect(batches).toEqual(["2", "1"]);
});

it("links a batch of the largest size whole", async () => {
  const traceParents = Array.from(
    { length: 10_000 },
    (_, index) => `00-${String(index + 1).padStart(32, "0")}-${A.span}-01`,
  );
  const [span] = await spansOf(traceParents);
  expect(span?.links).toHaveLength(10_000);
});

it("says what it failed for", async () => {
  const [span] = await spansOf([context(A)], () => Promise.reject(new RangeError("no")));
  expect(span).toMatchObject({ isError: true, attributes: { "error.type": "RangeError" } });
});
