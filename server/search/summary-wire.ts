import { type MessageInitShape } from "@bufbuild/protobuf";
import { SEVERITY_NAMES } from "#core/severity.ts";
import { type FacetSchema, type HistogramSchema } from "#gen/weir/v1/search_pb.ts";
import { type Facet, type Histogram } from "#postgres/summaries.ts";
import { fromMicros, toSeverity } from "../wire.ts";

/** A facet as a message. */
export function toFacetMessage({ field, values, capped }: Facet): MessageInitShape<typeof FacetSchema> {
  const nameOf = (value: string): string =>
    field === "severity" ? (SEVERITY_NAMES[Math.floor((Number(value) - 1) / 4)] ?? value) : value;
  return {
    field,
    values: values.map(({ value, count }) => ({ value: nameOf(value), count: BigInt(count) })),
    capped,
  };
}

/** A histogram as a message. */
export function toHistogramMessage({
  interval,
  buckets,
}: Histogram): MessageInitShape<typeof HistogramSchema> {
  return {
    interval: { seconds: BigInt(interval), nanos: 0 },
    buckets: buckets.map(({ start, count, bySeverity }) => ({
      startTime: fromMicros(start),
      count: BigInt(count),
      countBySeverity: Array.from(bySeverity, ([number, of]) => ({
        severity: toSeverity(number),
        count: BigInt(of),
      })).toSorted((a, b) => a.severity - b.severity),
    })),
  };
}
