import { type DescMethod } from "@bufbuild/protobuf";
import { ConnectError, type ContextKey, createContextKey } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import { type Telemetry } from "#runtime/telemetry.ts";
import { type HeldBody } from "./body-budget.ts";
import { clientGone } from "./deadlines.ts";
import { asInputFault, type ErrorFunnel } from "../error-funnel.ts";
import { reasonOf } from "../errors.ts";
import { type RequestSpan } from "./request-span.ts";

/** One call of an RPC method, from before the RPC library has read anything of it. */
export interface Call {
  /** By performance.now(). */
  readonly startedAt: number;
  /** undefined where the call is not traced. */
  readonly span: RequestSpan | undefined;
  /** Whether the client has gone away, as the failing of a write may say before any signal does. */
  readonly isClientGone: () => boolean;
  /** Raised when the call ends, however it does; the client's until the RPC library has its own. */
  signal: AbortSignal;
  /** What a compressed message of it takes until it is read. */
  readonly held: HeldBody;
  /** The request was read: what fails from now on is not of its bytes. */
  read: boolean;
}

/** The call, in its context values. */
export const callKey: ContextKey<Call | undefined> = createContextKey<Call | undefined>(undefined);

/** The method's full name, as rpc.method in OpenTelemetry: "weir.v1.IngestService/CreateEvent". */
export function methodName(method: DescMethod): string {
  return `${method.parent.typeName}/${method.name}`;
}

/**
 * What a call ended with, by the signal that the RPC library raises at the end of each: an error, or undefined where all
 * went well.
 */
export function outcomeOf(call: Call, signal: AbortSignal): unknown {
  const reason: unknown = signal.reason;
  if (call.isClientGone()) return clientGone();
  if (reason instanceof ConnectError) return call.read ? reason : asInputFault(reason);
  return reason instanceof DOMException ? undefined : reason;
}

/** Runs it when the signal is raised, or now where it is. */
export function onAbort(signal: AbortSignal, run: () => void): void {
  if (signal.aborted) run();
  else signal.addEventListener("abort", run, { once: true });
}

/** What the measuring of calls needs. */
export interface MeasureOptions {
  readonly telemetry: Telemetry;
  readonly funnel: ErrorFunnel;
}

/** Counts and times a call that has ended, ends its span, and logs what nobody expected. */
export function measureCall(
  { telemetry, funnel }: MeasureOptions,
  method: DescMethod,
  { startedAt, span }: Pick<Call, "startedAt" | "span">,
  outcome: unknown,
): void {
  const name = methodName(method);
  const error = outcome === undefined ? undefined : funnel(outcome, name);
  const reason = error && reasonOf(error);
  const code = error === undefined ? "ok" : codeToString(error.code);
  // Who has what it wanted may end a stream, as each `buf curl` by reflection does: that refuses nothing.
  if (reason !== undefined && reason !== "CANCELLED")
    telemetry.count("weir.request.refusals", { method: name, reason });
  telemetry.record("weir.request.duration", { method: name, code }, (performance.now() - startedAt) / 1000);
  span?.end({ code: error?.code, reason });
}
