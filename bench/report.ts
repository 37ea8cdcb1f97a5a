import { availableParallelism, loadavg } from "node:os";

import { type Spread } from "./statistics.ts";

/** A line of the table: one of the targets. */
export interface Row {
  readonly what: string;
  /** What Weir came to, with its unit. */
  readonly measured: string;
  /** What the limit came to in the same run; undefined where there is none. */
  readonly limit?: string | undefined;
  /** Of the medians of each round, or the measurement itself where there is no limit. */
  readonly ratio: string;
  readonly target: string;
  readonly isMet: boolean;
  /** What else was seen, such as CPU time an event. */
  readonly notes?: readonly string[];
}

/** "12,300 (11,900–12,800)": the median with the least and the greatest, to so many decimals. */
export function describeSpread({ median, min, max }: Spread, decimals = 0): string {
  const numbers = new Intl.NumberFormat("en", { maximumFractionDigits: decimals });
  const format = (value: number): string => numbers.format(value);
  return `${format(median)} (${format(min)}–${format(max)})`;
}

/** "85.1 % (80.0–90.2)". */
export function describeRatio({ median, min, max }: Spread): string {
  const [middle, low, high] = [median, min, max].map((value) => (value * 100).toFixed(1));
  return `${middle} % (${low}–${high})`;
}

/** Prints a line of the table as soon as it is known. */
export function printRow(row: Row): void {
  const lines = [
    `${row.isMet ? "met   " : "MISSED"}  ${row.what}`,
    `          Weir    ${row.measured}`,
    ...(row.limit === undefined ? [] : [`          limit   ${row.limit}`]),
    `          ratio   ${row.ratio}, target ${row.target}`,
    ...(row.notes ?? []).map((note) => `          ${note}`),
    `          load    ${describeLoad()}`,
  ];
  process.stdout.write(`${lines.join("\n")}\n\n`);
}

/** How busy the machine is; what else runs on it takes from the figures. */
export function describeLoad(): string {
  const [minute = 0] = loadavg();
  return `${minute.toFixed(1)} in the last minute on ${availableParallelism()} processors`;
}
