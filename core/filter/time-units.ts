/** The units of relative times and how many milliseconds they have, the largest first. */
export const TIME_UNITS: readonly (readonly [unit: string, ms: number])[] = [
  ["w", 604_800_000],
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
];
