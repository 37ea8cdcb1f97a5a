import { type Attributes, type Counter, type Histogram } from "@opentelemetry/api";
import { PrometheusSerializer } from "@opentelemetry/exporter-prometheus";
import {
  AggregationTemporality,
  InstrumentType,
  MeterProvider,
  MetricReader,
} from "@opentelemetry/sdk-metrics";
import { COUNTERS, type Counters, GAUGES, type Gauges, HISTOGRAMS, type Histograms } from "./instruments.ts";
import { type Logger } from "./log.ts";

/** One value of a gauge with its labels. */
export type Observation<N extends keyof Gauges> = readonly [labels: Gauges[N], value: number];

/** The metrics of a process. Everything about an instrument but its values stands in instruments.ts. */
export interface Telemetry extends AsyncDisposable {
  /** Adds to a counter, 1 unless said otherwise. */
  count<N extends keyof Counters>(name: N, labels: Counters[N], by?: number): void;
  /** Adds a measurement to a histogram, in the instrument's unit: seconds, bytes. */
  record<N extends keyof Histograms>(name: N, labels: Histograms[N], value: number): void;
  /**
   * Gives a gauge its values: `read` is called whenever the page is asked for, must be quick, and answers nothing for
   * what it does not know. A gauge may have several readers, each for labels of its own. Disposing takes it away.
   */
  observe<N extends keyof Gauges>(name: N, read: () => Iterable<Observation<N>>): Disposable;
  /** The metrics in Prometheus' text format. */
  page(): Promise<{ readonly contentType: string; readonly body: string }>;
}

/** The metrics of this process. Disposing ends the collection; what is counted afterwards is ignored. */
export function createTelemetry(log: Logger): Telemetry {
  const reader = new PageReader();
  const provider = new MeterProvider({ readers: [reader] });
  const serializer = new PrometheusSerializer(undefined, false, undefined, true, true);
  const meter = provider.getMeter("weir");

  const counters = new Map<string, Counter>();
  for (const [name, { unit, help }] of Object.entries(COUNTERS)) {
    counters.set(name, meter.createCounter(name, { unit, description: help }));
  }
  const histograms = new Map<string, Histogram>();
  for (const [name, { unit, help, buckets }] of Object.entries(HISTOGRAMS)) {
    const advice = { explicitBucketBoundaries: [...buckets] };
    histograms.set(name, meter.createHistogram(name, { unit, description: help, advice }));
  }

  const readers = new Map<string, Set<() => Iterable<readonly [Attributes, number]>>>();
  for (const [name, { unit, help }] of Object.entries(GAUGES)) {
    const mine = new Set<() => Iterable<readonly [Attributes, number]>>();
    readers.set(name, mine);
    meter.createObservableGauge(name, { unit, description: help }).addCallback((result) => {
      for (const read of mine) {
        try {
          for (const [labels, value] of read()) result.observe(value, labels);
        } catch (error) {
          log.error("A gauge could not be read", { gauge: name, error });
        }
      }
    });
  }

  return {
    count: (name, labels, by = 1) => counters.get(name)?.add(by, labels as Attributes),
    record: (name, labels, value) => histograms.get(name)?.record(value, labels as Attributes),
    observe(name, read) {
      const mine = readers.get(name);
      const reads = read as () => Iterable<readonly [Attributes, number]>;
      mine?.add(reads);
      return { [Symbol.dispose]: () => void mine?.delete(reads) };
    },
    async page() {
      const { resourceMetrics, errors } = await reader.collect();
      for (const error of errors) log.error("Metrics could not be collected", { error });
      return {
        contentType: "text/plain; version=0.0.4; charset=utf-8",
        body: `${serializer.serialize(resourceMetrics)}\n`,
      };
    },
    [Symbol.asyncDispose]: () => provider.shutdown(),
  };
}

/**
 * Collects for the page. The exporter's own reader takes gauges as cumulative, so the SDK repeats the last value of
 * labels that no reader gives any more: a partition that has long been another member's would keep its lag.
 */
class PageReader extends MetricReader {
  constructor() {
    super({
      aggregationTemporalitySelector: (type) =>
        type === InstrumentType.OBSERVABLE_GAUGE
          ? AggregationTemporality.DELTA
          : AggregationTemporality.CUMULATIVE,
    });
  }

  // Nothing is held back or open: the page is made when it is asked for.
  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}
}
