import { type ServiceImpl } from "@connectrpc/connect";
import { type Filter } from "#core/filter/tree.ts";
import { type Fault } from "#core/reason.ts";
import { type GetOverviewRequest, type OverviewService } from "#gen/weir/v1/overview_pb.ts";
import { readOverview, type TopValues } from "#postgres/overview.ts";
import { type Database } from "#postgres/pool.ts";
import { searchEvents } from "#postgres/search.ts";
import { MAX_BUCKETS } from "#postgres/summaries.ts";
import { failureOf, toConnectError } from "./errors.ts";
import { createInReadTurn, type ReadsOptions } from "./search/reads.ts";
import { toHistogramMessage } from "./search/summary-wire.ts";
import { fromMicros, toEventMessage, toMicros } from "./wire.ts";

/** What OverviewService needs. */
export interface OverviewServiceOptions extends ReadsOptions {
  /** For reading alone, with a bound on every statement. */
  readonly database: Database;
}

const HOUR = 3_600_000_000n;
const DEFAULT_HOURS = 24;
const MAX_HOURS = 400 * 24;
/** The lengths of an interval, in hours. */
const INTERVALS: readonly number[] = [1, 3, 6, 12, 24, 7 * 24, 30 * 24];
const VALUES = 20;
const ALERTS = 20;
/** The severity numbers of ERROR, from which on an event is an alert. */
const ERROR = { kind: "severity", low: 17, high: 20 } as const;

/** weir.v1.OverviewService over the sums by hour. */
export function createOverviewService(options: OverviewServiceOptions): ServiceImpl<typeof OverviewService> {
  const { database } = options;
  const inReadTurn = createInReadTurn(options);
  return {
    async getOverview(request, { signal }) {
      const now = Date.now();
      const range = readRange(request, now);
      const { firstHour, endHour } = range;
      const intervalHours = INTERVALS.find(
        (each) => Math.ceil(endHour / each) - Math.floor(firstHour / each) <= MAX_BUCKETS,
      )!;
      const advice = "Ask for a shorter range.";
      const [sums, alerts] = await inReadTurn({ method: "overview", signal, advice }, async () => [
        await readOverview(database, { ...range, intervalHours, values: VALUES }, signal),
        await searchEvents(
          database,
          { filter: alertsOf(range), now, order: "time desc", after: undefined, limit: ALERTS },
          signal,
        ),
      ]);
      const { buckets } = sums.histogram;
      const errors = buckets.map(({ bySeverity }) =>
        [...bySeverity].reduce((sum, [from = 0, count]) => (from >= ERROR.low ? sum + count : sum), 0),
      );
      return {
        startTime: fromMicros(BigInt(firstHour) * HOUR),
        endTime: fromMicros(BigInt(endHour) * HOUR),
        count: BigInt(buckets.reduce((sum, { count }) => sum + count, 0)),
        errorCount: BigInt(errors.reduce((sum, count) => sum + count, 0)),
        histogram: toHistogramMessage(sums.histogram),
        types: toValueMessages(sums.types),
        sources: toValueMessages(sums.sources),
        otherTypesCount: BigInt(sums.types.notApart),
        otherSourcesCount: BigInt(sums.sources.notApart),
        alerts: alerts.map((event) => toEventMessage(event)),
        ...(sums.stalenessMs !== undefined && { staleness: toDuration(sums.stalenessMs) }),
      };
    },
  };
}

/** Whole hours since 1970. */
interface HourRange {
  readonly firstHour: number;
  /** One past the last. */
  readonly endHour: number;
}

/** @throws ConnectError with every fault of the request. */
function readRange({ startTime, endTime }: GetOverviewRequest, now: number): HourRange {
  const faults: Fault[] = [];
  const microsOf = (field: string, time: typeof startTime): bigint | undefined => {
    const micros = time && toMicros(time);
    if (time !== undefined && micros === undefined) {
      const description = "The time must lie in the years 0001 to 9999, with nanos from 0 to 999,999,999.";
      faults.push({ field, reason: "INVALID_REQUEST", description });
    }
    return micros;
  };
  const [start, end] = [microsOf("start_time", startTime), microsOf("end_time", endTime)];
  const endHour = -floorHour(-(end ?? BigInt(now) * 1_000n));
  const firstHour = start === undefined ? endHour - DEFAULT_HOURS : floorHour(start);
  if (faults.length === 0 && (endHour <= firstHour || endHour - firstHour > MAX_HOURS)) {
    const description =
      endHour <= firstHour
        ? "The range is empty: start_time must lie before end_time, which is now where it is not given."
        : `The range is longer than 400 days: it has ${Math.ceil((endHour - firstHour) / 24)}.`;
    faults.push({ field: "start_time", reason: "INVALID_REQUEST", description });
  }
  const [first, ...others] = faults;
  if (first !== undefined) throw toConnectError(failureOf([first, ...others]));
  return { firstHour, endHour };
}

/** The hours since 1970 of a time in microseconds, rounded towards the past. */
function floorHour(micros: bigint): number {
  return Number((micros - (((micros % HOUR) + HOUR) % HOUR)) / HOUR);
}

function alertsOf({ firstHour, endHour }: HourRange): Filter {
  const time = { kind: "time", name: "time" } as const;
  const at = (hour: number) => ({ kind: "time", micros: BigInt(hour) * HOUR }) as const;
  return {
    kind: "and",
    of: [
      { kind: "compare", field: { kind: "severity" }, op: ">=", value: ERROR },
      { kind: "compare", field: time, op: ">=", value: at(firstHour) },
      { kind: "compare", field: time, op: "<", value: at(endHour) },
    ],
  };
}

function toValueMessages({ values }: TopValues) {
  return values.map(({ value, count }) => ({ value, count: BigInt(count) }));
}

function toDuration(ms: number) {
  const whole = Math.max(0, Math.ceil(ms));
  return { seconds: BigInt(Math.floor(whole / 1_000)), nanos: (whole % 1_000) * 1_000_000 };
}
