import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

import { type PublishError } from "../sdk/index.ts";
import { connect, CONNECTION_HELP, CONNECTION_OPTIONS } from "./connection.ts";
import { createOutageNotice } from "./outage.ts";
import { count, rate, showProgress } from "./progress.ts";
import { stopOnSignals } from "./stop.ts";
import { createTraffic, TRAFFIC_TYPES } from "./traffic.ts";
import { UsageError } from "./usage-error.ts";

/** The command's help. */
export const GENERATE_HELP: string = `Usage: weir generate [options]

Makes the events of a shop with a warehouse, at the rate asked for, until Ctrl-C. What has no answer then is waited for
another two seconds.

  --rate N           events a second; 10 by default
  --count N          ends after so many events
  --duration TIME    ends after this time, such as 30s, 5m or 1h
  --types LIST       types of events, separated by commas; all of these by default:
                     ${TRAFFIC_TYPES.join("\n                     ")}
                     (any other type has plain events)
${CONNECTION_HELP}
At the end it says how many were acknowledged, and how long that took from the making of an event: the median, and
what 99 of 100 were below.

Exit code: 0 every event was acknowledged; 1 some were not; 2 it could not begin.
`;

/** How often events are made, in milliseconds: those that are due, together. */
const TICK_MS = 10;
/** So long events without an answer are waited for after a signal. */
const GRACE_MS = 2_000;
const CHECK_MS = 250;
/** So many of the latest times are kept. */
const MAX_TIMES = 100_000;
const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000 };

/** `weir generate`. Resolves with the exit code. */
export async function generate(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      ...CONNECTION_OPTIONS,
      rate: { type: "string", default: "10" },
      count: { type: "string" },
      duration: { type: "string" },
      types: { type: "string" },
    },
  });
  const perSecond = positive("--rate", values.rate);
  const most = values.count === undefined ? Infinity : positive("--count", values.count);
  const lastMs = values.duration === undefined ? Infinity : duration(values.duration);
  const types = values.types?.split(",").filter((type) => type !== "") ?? TRAFFIC_TYPES;
  if (types.length === 0) throw new UsageError("--types: there is none.");
  const { url, weir } = connect(values);
  const make = createTraffic(types);

  using stop = stopOnSignals();
  const started = performance.now();
  const times: number[] = [];
  let [made, acknowledged, refused] = [0, 0, 0];
  let first: PublishError | undefined;
  const elapsed = (): number => performance.now() - started;
  const line = (): string =>
    `${count(acknowledged)} events acknowledged, ${count(refused)} refused, ${rate(acknowledged, elapsed())}`;
  const outage = createOutageNotice(process.stderr, url);
  const ended = new AbortController();
  {
    using _ = showProgress(process.stderr, line);
    await using publisher = weir.publisher({ signal: ended.signal });
    const checking = setInterval(() => outage.check(publisher.buffered.events > 0), CHECK_MS);
    stop.signal.addEventListener("abort", () => setTimeout(() => ended.abort(), GRACE_MS).unref());
    while (made < most && elapsed() < lastMs && !stop.signal.aborted) {
      const due = Math.min(most, Math.floor((elapsed() / 1_000) * perSecond) + 1);
      while (made < due && !stop.signal.aborted) {
        await publisher.ready();
        const at = performance.now();
        made += 1;
        publisher.publish(make()).then(
          () => {
            times[acknowledged % MAX_TIMES] = performance.now() - at;
            acknowledged += 1;
            outage.heard();
          },
          (error: PublishError) => {
            refused += 1;
            first ??= error;
          },
        );
      }
      await sleep(TICK_MS);
    }
    await publisher.close();
    clearInterval(checking);
  }
  const sorted = times.toSorted((a, b) => a - b);
  const within = (part: number): string => count(sorted[Math.floor(sorted.length * part)] ?? 0);
  process.stdout.write(`${line()}, median ${within(0.5)} ms, 99 % within ${within(0.99)} ms\n`);
  if (first !== undefined) process.stderr.write(`The first refusal: ${first.message}\n`);
  return refused > 0 ? 1 : 0;
}

function positive(option: string, text: string): number {
  const value = Number(text);
  if (text.trim() !== "" && value > 0 && Number.isFinite(value)) return value;
  throw new UsageError(`${option} must be a number above 0, not ${JSON.stringify(text)}.`);
}

function duration(text: string): number {
  const [, digits, unit] = /^(\d+(?:\.\d+)?)([smh])$/.exec(text) ?? [];
  if (digits !== undefined && unit !== undefined) return Number(digits) * UNITS[unit]!;
  throw new UsageError(`--duration must be a time such as 30s, 5m or 1h, not ${JSON.stringify(text)}.`);
}
