import { COUNTERS, GAUGES, HISTOGRAMS, type Instrument } from "./instruments.ts";
import { type SpanKindOf, SPANS } from "./spans.ts";

type AnyInstrument = Instrument<Readonly<Record<string, string | number>>>;

/** docs/telemetry.md. */
export function telemetryPage(): string {
  return [
    HEAD,
    ...table("Counters", COUNTERS),
    ...table("Histograms", HISTOGRAMS),
    ...table("Gauges", GAUGES),
    TRACES,
    ...Object.entries(SPANS).flatMap(([name, span]) => spanSection(name, span as SpanKindOf<never>)),
    "",
  ].join("\n");
}

function table(title: string, instruments: Readonly<Record<string, unknown>>): string[] {
  const rows = Object.entries(instruments as Readonly<Record<string, AnyInstrument>>).map(
    ([name, { unit, help, labels }]) => `| \`${name}\` | ${unit} | ${labelsCell(labels)} | ${help} |`,
  );
  return ["", `### ${title}`, "", "| Name | Unit | Labels | Meaning |", "| --- | --- | --- | --- |", ...rows];
}

function labelsCell(labels: AnyInstrument["labels"]): string {
  const cells = Object.entries(labels).map(([label, values]) => {
    const text = typeof values === "string" ? values : values.map((value) => `\`${value}\``).join(", ");
    return `\`${label}\`: ${text}`;
  });
  return cells.length === 0 ? "–" : cells.join("; ");
}

function spanSection(name: string, { kind, name: title, help, attributes }: SpanKindOf<never>): string[] {
  const rows = Object.entries<string>(attributes).map(([key, text]) => `| \`${key}\` | ${text} |`);
  return [
    "",
    `### ${name}: ${kind}, named by ${title}`,
    "",
    help,
    "",
    "| Attribute | What it holds |",
    "| --- | --- |",
    ...rows,
  ];
}

const HEAD = `# Telemetry

This page is written by \`npm run config -- --markdown\` out of [runtime/instruments.ts](../runtime/instruments.ts) and
[runtime/spans.ts](../runtime/spans.ts), the only places where a metric or a span is named.

## Metrics

Every process shows its metrics at \`GET /metrics\` in Prometheus' text format: the server on its port, or on
\`WEIR_METRICS_PORT\`, the workers on \`WEIR_WORKERS_PORT\` where that is set. A dot in a name is an underscore there, and a
counter ends in \`_total\`: \`weir_ingest_events_total\`. A label takes its values from a closed set or from a registry of
ours, never from what a request brings. Durations are seconds, sizes bytes.`;

const TRACES = `
## Traces

With \`WEIR_OTLP_ENDPOINT\` set, every process sends spans to it by OTLP over HTTP in protobuf. One trace leads from the
client's span (\`traceparent\` and \`tracestate\` of the request, W3C Trace Context) to the transaction of the event's row:

    client → rpc or http → publish → consume → transaction
                              │
                              └ traceparent on the record, trace_parent of the row

- A request whose traceparent says sampled is recorded, one that says it is not is not; \`WEIR_TRACE_SAMPLING\` is the part
  that is recorded of those without one. What is not recorded costs next to nothing; its trace context goes to its record
  as it came.
- Spans wait in a queue of 2,048 and go out within a second. An endpoint that is away or slow costs spans, never a request:
  \`weir.trace.spans\` counts them, the log tells the outage and its end. A stop sends what is left, for at most 3 s.
- Unset, nothing is made or loaded for tracing, and the trace context of a request goes to its record as it came.
- \`npm run bench telemetry\` says what it costs. Names follow OpenTelemetry's semantic conventions 1.45. A span that
  failed has the status ERROR, and in \`error.type\` what failed.`;
