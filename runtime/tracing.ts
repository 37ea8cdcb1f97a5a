import { type Logger } from "./log.ts";
import { type TracingConfig } from "./settings/tracing.ts";
import { type SpanAttributes } from "./spans.ts";
import { type Telemetry } from "./telemetry.ts";
import { type TraceContext } from "./trace-context.ts";

/** A span that has begun. After its end nothing more can be said of it. */
export interface Span<K extends keyof SpanAttributes = keyof SpanAttributes> {
  /** The span as the parent of what happens elsewhere. */
  readonly context: TraceContext;
  /** Adds attributes. */
  set(attributes: Partial<SpanAttributes[K]>): void;
  /** Ends the span: well, or with what went wrong, a word of a closed set (error.type). */
  end(error?: string): void;
}

/** Where a span stands. */
export interface SpanStart<K extends keyof SpanAttributes> {
  readonly name: string;
  readonly attributes: Partial<SpanAttributes[K]>;
  /** The parent, where it is known by its headers. Without a traceparent it is the span that this runs within. */
  readonly parent?: TraceContext;
  /** Other spans that led to this one. */
  readonly links?: readonly TraceContext[];
}

/**
 * Makes spans of what is recorded, and of nothing else: where tracing is off there is no tracer, and what is not sampled
 * has no span. Nothing is spent then, and the trace context of a request travels on as it came.
 */
export interface Tracer extends AsyncDisposable {
  /**
   * Begins a span (see spans.ts for its kind), where it is recorded: below a parent that is, or linked to a span that is.
   * Only a request may begin a trace without either; the ratio decides on it.
   */
  start<K extends keyof SpanAttributes>(kind: K, start: SpanStart<K>): Span<K> | undefined;
  /** Runs the work, and what it awaits, within the span. */
  within<T>(span: Span, work: () => T): T;
}

/** What a tracer needs. */
export interface TracerOptions extends TracingConfig {
  /** What spans give as service.name. */
  readonly serviceName: string;
  readonly telemetry: Pick<Telemetry, "count">;
  readonly log: Logger;
}

/**
 * The tracer of this process; undefined where no endpoint is set, and then OpenTelemetry's SDK is not even loaded.
 *
 * Spans wait in a queue of 2,048 for at most a second and go out by themselves, up to 512 at once. An endpoint that is
 * away or slow costs spans, never a request: what does not fit is dropped, and both are counted (weir.trace.spans).
 * Disposing sends what is left, for at most 3 s.
 */
export async function createTracer({ otlpEndpoint, ...options }: TracerOptions): Promise<Tracer | undefined> {
  if (otlpEndpoint === undefined) return undefined;
  const { createOtlpTracer } = await import("./otlp-tracer.ts");
  return createOtlpTracer({ ...options, otlpEndpoint });
}
