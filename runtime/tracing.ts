import { type Logger } from "./log.ts";
import { type TracingConfig } from "./settings/tracing.ts";
import { type SpanAttributes } from "./spans.ts";
import { type Telemetry } from "./telemetry.ts";
import { type TraceContext } from "./trace-context.ts";

/** A span that has begun. After its end nothing more can be said of it. */
export interface Span<K extends keyof SpanAttributes = keyof SpanAttributes> {
  /** The span as the parent of what happens elsewhere. It travels on whether or not the span is recorded. */
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
  /** The parent where it is in another process. Without one it is the span that this runs within; without that, none. */
  readonly parent?: TraceContext;
  /** Other spans that led to this one. A span without a parent is recorded where one of them is. */
  readonly links?: readonly TraceContext[];
}

/**
 * Makes spans. Where tracing is off there is no tracer, so that nothing is spent; the trace context of a request then
 * travels on as it came.
 */
export interface Tracer extends AsyncDisposable {
  /** Begins a span (see spans.ts for its kind). */
  start<K extends keyof SpanAttributes>(kind: K, start: SpanStart<K>): Span<K>;
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
