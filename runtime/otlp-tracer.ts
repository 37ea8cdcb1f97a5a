import { AsyncLocalStorage } from "node:async_hooks";
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";

import {
  type Attributes,
  type Context,
  createTraceState,
  type Link,
  ROOT_CONTEXT,
  type Span as OtelSpan,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import {
  AlwaysOnSampler,
  BatchSpanProcessor,
  type SpanExporter,
  type SpanProcessor,
  TracerProvider,
} from "@opentelemetry/sdk-trace";

import { type Logger } from "./log.ts";
import { SPANS } from "./spans.ts";
import { isSampled, type TraceContext } from "./trace-context.ts";
import { type Span, type Tracer, type TracerOptions } from "./tracing.ts";

const QUEUE_SPANS = 2_048;
const EXPORT_SPANS = 512;
const EXPORT_DELAY_MS = 1_000;
const EXPORT_TIMEOUT_MS = 5_000;
const CLOSE_TIMEOUT_MS = 3_000;
/** As many as a batch may have records (WEIR_PERSIST_BATCH). */
const LINKS = 10_000;

/** A tracer that exports to an OTLP endpoint. Nothing of it is global, so a process may have several. */
export function createOtlpTracer(options: TracerOptions & { readonly otlpEndpoint: string }): Tracer {
  const { serviceName, sampling, log } = options;
  const provider = new TracerProvider({
    resource: resourceFromAttributes({
      "service.name": serviceName,
      "service.namespace": "weir",
      "service.instance.id": randomUUID(),
    }),
    // What is not sampled does not come as far as the SDK.
    sampler: new AlwaysOnSampler(),
    spanLimits: { linkCountLimit: LINKS },
    spanProcessors: [createQueue(options)],
  });
  const tracer = provider.getTracer("weir");
  const active = new AsyncLocalStorage<Context>();

  return {
    start(kind, { name, attributes, parent, links = [] }) {
      const hasParent = parent?.traceParent !== undefined;
      const above = hasParent ? undefined : active.getStore();
      const isRecorded = hasParent ? isSampled(parent) : above !== undefined || links.some(isSampled);
      const mayBegin = !hasParent && SPANS[kind].kind === "SERVER";
      if (!isRecorded && !(mayBegin && Math.random() < sampling)) return undefined;
      const span = tracer.startSpan(
        name,
        {
          kind: SpanKind[SPANS[kind].kind],
          attributes: attributes as Attributes,
          links: links.flatMap(toLink),
        },
        above ?? (parent && remoteContext(parent)) ?? ROOT_CONTEXT,
      );
      return toSpan(span);
    },
    within: (span, work) => active.run((span as OtlpSpan).inside, work),
    async [Symbol.asyncDispose]() {
      const sent = provider.shutdown().then(
        () => "sent",
        () => "failed",
      );
      const late = delay(CLOSE_TIMEOUT_MS, "late", { ref: false });
      if ((await Promise.race([sent, late])) !== "sent") log.warn("The last spans could not be sent");
    },
  };
}

/** Every span of this tracer is one. */
interface OtlpSpan extends Span {
  /** What runs within the span is run in. */
  readonly inside: Context;
}

function toSpan(span: OtelSpan): OtlpSpan {
  return {
    get inside() {
      return trace.setSpan(ROOT_CONTEXT, span);
    },
    get context() {
      return toTraceContext(span.spanContext());
    },
    set: (attributes) => void span.setAttributes(attributes as Attributes),
    end(error) {
      if (error !== undefined) {
        span.setAttribute("error.type", error);
        span.setStatus({ code: SpanStatusCode.ERROR });
      }
      span.end();
    },
  };
}

function toTraceContext({ traceId, spanId, traceFlags, traceState }: SpanContext): TraceContext {
  const flags = traceFlags.toString(16).padStart(2, "0");
  const state = traceState?.serialize();
  return {
    traceParent: `00-${traceId}-${spanId}-${flags}`,
    traceState: state === "" ? undefined : state,
  };
}

/** The context that a traceparent names, which is of version 00 and well-formed (traceContextOf). */
function toSpanContext({ traceParent, traceState }: TraceContext): SpanContext | undefined {
  const [, traceId, spanId, flags] = traceParent?.split("-") ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  const context = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
  return traceState === undefined ? context : { ...context, traceState: createTraceState(traceState) };
}

function remoteContext(parent: TraceContext): Context | undefined {
  const context = toSpanContext(parent);
  return context && trace.setSpanContext(ROOT_CONTEXT, context);
}

function toLink(linked: TraceContext): Link[] {
  const context = toSpanContext(linked);
  return context === undefined ? [] : [{ context }];
}

/** The bounded queue and the exporter behind it, with what becomes of every span counted. */
function createQueue({
  otlpEndpoint,
  telemetry,
  log,
}: TracerOptions & { readonly otlpEndpoint: string }): SpanProcessor {
  const url = `${otlpEndpoint.replace(/\/+$/, "")}/v1/traces`;
  const exporter = new OTLPTraceExporter({ url, timeoutMillis: EXPORT_TIMEOUT_MS });
  let waiting = 0;
  const hear = createOutageLog(url, log);
  const counting: SpanExporter = {
    export(spans, done) {
      waiting -= spans.length;
      exporter.export(spans, (result) => {
        const outcome = result.code === 0 ? "exported" : "failed";
        telemetry.count("weir.trace.spans", { outcome }, spans.length);
        hear(result.code === 0 ? undefined : (result.error ?? new Error("The export failed")));
        // The failure is told here; the processor would tell it once more, of nowhere and every time.
        done({ code: 0 });
      });
    },
    shutdown: () => exporter.shutdown(),
  };
  const batches = new BatchSpanProcessor({
    exporter: counting,
    maxQueueSize: QUEUE_SPANS,
    maxExportBatchSize: EXPORT_SPANS,
    scheduledDelayMillis: EXPORT_DELAY_MS,
    exportTimeoutMillis: EXPORT_TIMEOUT_MS + 1_000,
  });
  return {
    onStart() {},
    onEnd(span) {
      if (waiting >= QUEUE_SPANS) return telemetry.count("weir.trace.spans", { outcome: "dropped" });
      waiting += 1;
      batches.onEnd(span);
    },
    forceFlush: () => batches.forceFlush(),
    shutdown: () => batches.shutdown(),
  };
}

/** Tells an outage once, and its end. */
function createOutageLog(url: string, log: Logger): (error: Error | undefined) => void {
  let isAway = false;
  return (error) => {
    if (error !== undefined && !isAway) log.warn("Spans cannot be sent and are lost", { url, error });
    if (error === undefined && isAway) log.info("Spans are sent again", { url });
    isAway = error !== undefined;
  };
}
