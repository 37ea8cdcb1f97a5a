/** What repeated measurements came to. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** The median, least and greatest of at least one value. */
export function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  const [low = Number.NaN, high = Number.NaN] = [sorted[Math.floor(middle)], sorted[Math.ceil(middle)]];
  return { median: (low + high) / 2, min: sorted[0] ?? Number.NaN, max: sorted.at(-1) ?? Number.NaN };
}

/** The spread of what is undefined nowhere; undefined where it is somewhere. */
export function spreadOfAll(values: readonly (number | undefined)[]): Spread | undefined {
  const known = values.filter((value) => value !== undefined);
  return known.length === values.length && known.length > 0 ? spreadOf(known) : undefined;
}

/** The value that this share of at least one value does not exceed. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}
