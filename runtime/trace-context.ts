import { createTraceState } from "@opentelemetry/api";

/** The trace that a request belongs to, as its headers say. */
export interface TraceContext {
  /** W3C traceparent, always of version 00. */
  readonly traceParent: string | undefined;
  /** W3C tracestate; only beside a traceparent. */
  readonly traceState: string | undefined;
}

/** Whether the span is recorded, by the flags of its traceparent (W3C Trace Context § 3.2.2.5). */
export function isSampled({ traceParent = "" }: TraceContext): boolean {
  return (Number.parseInt(traceParent.slice(-2), 16) & 1) !== 0;
}

const TRACE_PARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/**
 * The trace context of a request (W3C Trace Context § 3). A header that does not conform is left out and is no error: a
 * fault in tracing must not cost an event. A later version's traceparent is taken for what version 00 has of it.
 */
export function traceContextOf(header: (name: string) => string | null | undefined): TraceContext {
  const traceParent = readTraceParent(header("traceparent") ?? "");
  const traceState = traceParent && createTraceState(header("tracestate") ?? "").serialize();
  return { traceParent, traceState: traceState === "" ? undefined : traceState };
}

function readTraceParent(text: string): string | undefined {
  const [, version, traceId = "", parentId = "", flags, later] = TRACE_PARENT.exec(text.trim()) ?? [];
  if (version === undefined || version === "ff" || (version === "00" && later !== undefined))
    return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(parentId)) return undefined;
  return `00-${traceId}-${parentId}-${flags}`;
}
