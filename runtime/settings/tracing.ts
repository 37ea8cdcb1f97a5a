import { ratio, url } from "./forms.ts";
import { type Group } from "./setting.ts";

/** Where spans go, and how many are made. */
export interface TracingConfig {
  /** undefined: tracing is off. */
  readonly otlpEndpoint: string | undefined;
  /** From 0 to 1. */
  readonly sampling: number;
}

/** The settings behind {@link TracingConfig}. */
export const TRACING: Group<TracingConfig> = {
  title: "Tracing (every process)",
  settings: {
    otlpEndpoint: {
      name: "WEIR_OTLP_ENDPOINT",
      form: url("http:", "https:"),
      unit: "URL",
      meaning:
        "Where spans go, such as http://127.0.0.1:4318: OTLP over HTTP in protobuf, to /v1/traces below it. Unset: tracing is off.",
    },
    sampling: {
      name: "WEIR_TRACE_SAMPLING",
      form: ratio,
      default: "1",
      unit: "0 to 1",
      meaning:
        "The part of the traces that is recorded, of those that begin here. A request that brings a traceparent is recorded where that says sampled.",
    },
  },
  join: (values) => values,
};
