import { type MonthStatistics, type StoreStatistics } from "./store-statistics.ts";
import { type TermNeeds } from "./term-needs.ts";

/** How the events of a stretch of time are found. */
export interface Window {
  /** The first moment of it, in microseconds since 1970; undefined: none is too early. */
  readonly from: bigint | undefined;
  /** The first moment after it; undefined: none is too late. */
  readonly before: bigint | undefined;
  /**
   * "walk": one event after another in the order asked for, until there are enough. "gather": the events that have the needed
   * terms, by their index, which are then sorted.
   */
  readonly way: "walk" | "gather";
}

/** What windows are chosen for. */
export interface WindowQuery {
  /** undefined: the index of terms has no say. */
  readonly needs: TermNeeds | undefined;
  readonly isNewestFirst: boolean;
  readonly from: bigint | undefined;
  readonly before: bigint | undefined;
  /** How many events are wanted. */
  readonly limit: number;
}

/** Candidates that are gathered at once, without looking whether fewer would do. */
const GATHERED = 1_500;
/** Events that are rather walked over than gathered. */
const WALKED = 2_500;
/** A smaller share of a month's events is rather gathered than found by walking over all of them. */
const GATHERED_SHARE = 0.25;
/** How many windows there are at most; each costs planning, and is looked into only where those before it had too few. */
const MAX_WINDOWS = 10;

/**
 * Parts the time that is asked about into windows, in the order asked for, by how often the needed terms are. It says nothing
 * about what the answer is, only about how long it takes: whatever the statistics say, the windows cover all of the time.
 */
export function chooseWindows(query: WindowQuery, statistics: StoreStatistics): readonly Window[] {
  const { needs, isNewestFirst, limit } = query;
  if (needs === undefined) return [{ from: query.from, before: query.before, way: "walk" }];
  const windows: { readonly end: bigint; readonly way: Window["way"] }[] = [];
  let gathered = 0;
  for (const month of isNewestFirst ? statistics.toReversed() : statistics) {
    const part = partOf(month, query);
    if (part === undefined) continue;
    const frequency = frequencyOf(needs, month);
    const candidates = frequency * part.rows;
    if (candidates <= GATHERED) {
      gathered += candidates;
      if (gathered < 2 * limit && gathered < GATHERED) continue;
      windows.push({ end: part.end, way: "gather" });
      gathered = 0;
      continue;
    }
    if (gathered > 0) windows.push({ end: part.start, way: "gather" });
    gathered = 0;
    const wanted = limit / frequency;
    const way = wanted <= WALKED ? "walk" : "gather";
    for (const times of [3, 24]) {
      const end = part.after(wanted * times);
      if (wanted * times < part.rows / 2 && part.start !== end && part.end !== end)
        windows.push({ end, way });
    }
    // It comes to this where few of the candidates match.
    windows.push({ end: part.end, way: frequency < GATHERED_SHARE ? "gather" : way });
  }
  // The last one goes on to the end of what is asked about, as does the last of those that are too many.
  const chosen = windows.slice(0, MAX_WINDOWS);
  const ways = [
    ...chosen.map(({ way }) => way),
    ...(gathered > 0 || chosen.length === 0 ? ["gather" as const] : []),
  ];
  return ways.map((way, index) => {
    const start = chosen[index - 1]?.end;
    const end = index === ways.length - 1 ? undefined : chosen[index]?.end;
    return isNewestFirst
      ? { from: end ?? query.from, before: start ?? query.before, way }
      : { from: start ?? query.from, before: end ?? query.before, way };
  });
}

/** How many events of a month have the terms, of 0 to 1. */
export function frequencyOf(needs: TermNeeds, month: Pick<MonthStatistics, "frequencyOf">): number {
  switch (needs.kind) {
    case "terms":
      return together(needs.all.map((term) => month.frequencyOf(term)));
    case "and":
      return together(needs.of.map((each) => frequencyOf(each, month)));
    case "or":
      return Math.min(
        1,
        needs.of.reduce((sum, each) => sum + frequencyOf(each, month), 0),
      );
  }
}

/** How often all come together: more often than by chance, so each counts less than the one before, the rarest in full. */
function together(frequencies: readonly number[]): number {
  return frequencies
    .toSorted((a, b) => a - b)
    .reduce((product, frequency, index) => product * frequency ** (1 / 2 ** index), 1);
}

/** As {@link frequencyOf}, of all months. */
export function overallFrequency(needs: TermNeeds, statistics: StoreStatistics): number {
  const rows = statistics.reduce((sum, month) => sum + month.rows, 0);
  return statistics.reduce(
    (sum, month) => sum + (frequencyOf(needs, month) * month.rows) / Math.max(1, rows),
    0,
  );
}

/** What of a month is asked about, in the order asked for. */
interface Part {
  readonly start: bigint;
  readonly end: bigint;
  readonly rows: number;
  /** The moment until which there are that many events from the start. */
  after(rows: number): bigint;
}

function partOf(month: MonthStatistics, query: WindowQuery): Part | undefined {
  const from = query.from !== undefined && query.from > month.from ? query.from : month.from;
  const before = query.before !== undefined && query.before < month.before ? query.before : month.before;
  if (from >= before || month.rows === 0) return undefined;
  const curve = curveOf(month);
  const [first, last] = [rowsUntil(curve, from), rowsUntil(curve, before)];
  const within = (moment: bigint): bigint => (moment < from ? from : moment > before ? before : moment);
  return query.isNewestFirst
    ? { start: before, end: from, rows: last - first, after: (rows) => within(momentOf(curve, last - rows)) }
    : {
        start: from,
        end: before,
        rows: last - first,
        after: (rows) => within(momentOf(curve, first + rows)),
      };
}

/** How many events there are until a moment, at some moments of a month, both rising. */
type Curve = readonly { readonly time: bigint; readonly rows: number }[];

function curveOf({ from, before, times, rows, added }: MonthStatistics): Curve {
  const [first, last] = [times[0], times.at(-1)];
  if (first === undefined || last === undefined || times.length < 2 || first >= last)
    return [
      { time: from, rows: 0 },
      { time: before, rows },
    ];
  const known = times.map((time, index) => ({ time, rows: ((rows - added) * index) / (times.length - 1) }));
  // What came since is taken to be later, and as dense.
  const more = BigInt(Math.ceil((Number(last - first) * added) / Math.max(1, rows - added)));
  const end = last + more < before ? last + more : before;
  return added > 0 && end > last ? [...known, { time: end, rows }] : known;
}

function rowsUntil(curve: Curve, moment: bigint): number {
  const next = curve.findIndex(({ time }) => time >= moment);
  if (next < 0) return curve.at(-1)!.rows;
  const [a, b] = [curve[next - 1], curve[next]!];
  if (a === undefined) return b.rows;
  return a.rows + ((b.rows - a.rows) * Number(moment - a.time)) / Number(b.time - a.time);
}

function momentOf(curve: Curve, rows: number): bigint {
  const next = curve.findIndex((point) => point.rows >= rows);
  if (next < 0) return curve.at(-1)!.time;
  const [a, b] = [curve[next - 1], curve[next]!];
  if (a === undefined) return b.time;
  return a.time + BigInt(Math.round((Number(b.time - a.time) * (rows - a.rows)) / (b.rows - a.rows)));
}
