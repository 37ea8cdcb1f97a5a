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
   * terms, or numbers, by their index, and are in the window, by that of the order; they are sorted then. "sift": the events that
   * have the needed terms, by their index, in all of the months of the window; what is outside of it is left out as it is seen.
   */
  readonly way: "walk" | "gather" | "sift";
}

/** What windows are chosen for. */
export interface WindowQuery {
  /** undefined: the index of terms has no say. */
  readonly needs: TermNeeds | undefined;
  /** The keys of the paths whose numbers are compared, which may have an index. */
  readonly numberPaths: readonly string[];
  readonly isNewestFirst: boolean;
  readonly from: bigint | undefined;
  readonly before: bigint | undefined;
  /** How many events are wanted. */
  readonly limit: number;
}

// What it takes, in µs: to go on to the next event of the order and look at it; to find a candidate in the index of terms; to
// find in the index of the order that an event is in a window; to look at a candidate and sort it.
const WALK = 0.45;
const FIND = 0.12;
const PLACE = 0.1;
const GATHER = 2.5;

/** What takes no longer than so many candidates is gathered at once, without looking whether fewer would do. */
const FEW = 1_500;
/** Candidates that are gathered at once where the first window of a month had too few. */
const SOME = 8_000;
/** Deviations from the expected number that a first window allows for, and as much again for what the statistics do not know. */
const SPREAD = 8;
/** Events that are walked over before more is gathered. */
const WALKED = 10_000;
/** How many windows there are at most; each costs planning, and is looked into only where those before it had too few. */
const MAX_WINDOWS = 6;

/**
 * Parts the time that is asked about into windows, in the order asked for, by how often the needed terms are. It says nothing
 * about what the answer is, only about how long it takes: whatever the statistics say, the windows cover all of the time.
 */
export function chooseWindows(query: WindowQuery, statistics: StoreStatistics): readonly Window[] {
  const { needs, numberPaths, isNewestFirst, limit } = query;
  if (needs === undefined && numberPaths.length === 0)
    return [{ from: query.from, before: query.before, way: "walk" }];
  const windows: { end: bigint; readonly way: Window["way"] }[] = [];
  const add = (end: bigint, way: Window["way"]): void => {
    const last = windows.at(-1);
    // A walk ends where there are enough, however long its window is.
    if (last?.way === "walk" && way === "walk") last.end = end;
    else windows.push({ end, way });
  };
  let gathered = 0;
  for (const month of isNewestFirst ? statistics.toReversed() : statistics) {
    const part = partOf(month, query);
    if (part === undefined) continue;
    const frequency = shareOf(query, month);
    const candidates = frequency * part.rows;
    if (gatherCost(frequency, month, part.rows) <= FEW * GATHER) {
      gathered += candidates;
      if (gathered < 2 * limit && gathered < FEW) continue;
      add(part.end, "gather");
      gathered = 0;
      continue;
    }
    if (gathered > 0) add(part.start, "gather");
    gathered = 0;
    // So many that there are nearly always enough; the fewer are wanted, the more chance is in it.
    const wanted = limit / frequency;
    const enough = wanted * (1 + SPREAD / Math.sqrt(limit));
    const wayOf = (walked: number, rows: number): Window["way"] =>
      frequency === 1 || WALK * walked <= gatherCost(frequency, month, rows) ? "walk" : "gather";
    // Of how many numbers compare so nothing is known: if too few do among the first, the index finds them.
    const isNumber = numberPaths.some((path) => month.numberPaths.has(path));
    if (windows.length === 0) {
      const way = wayOf(wanted, enough);
      const first = way === "walk" && !isNumber ? Math.max(2 * enough, WALKED) : enough;
      // Where the first had too few, fewer of the candidates match than was thought: of the next all is looked at.
      for (const rows of candidates > SOME ? [first, 8 * first] : [first]) {
        const end = part.after(rows);
        if (rows < part.rows / 2 && part.start !== end && part.end !== end)
          add(end, rows === first ? way : isNumber ? "gather" : wayOf(rows, rows));
      }
    }
    // Where a window went before, it comes to this one where few of the candidates match: then all of it is walked over.
    const walked = windows.length === 0 ? Math.min(wanted, part.rows) : part.rows;
    add(part.end, isNumber ? "gather" : wayOf(walked, part.rows));
  }
  // The last one goes on to the end of what is asked about, as does the last of those that are too many.
  const chosen = windows.slice(0, MAX_WINDOWS);
  const rest = gathered > 0 || chosen.length === 0 ? (["gather"] as const) : [];
  const ways = [...chosen.map(({ way }) => way), ...rest];
  return ways.map((way, index) => {
    const start = chosen[index - 1]?.end;
    const end = index === ways.length - 1 ? undefined : chosen[index]?.end;
    const [from, before] = isNewestFirst
      ? [end ?? query.from, start ?? query.before]
      : [start ?? query.from, end ?? query.before];
    return {
      from,
      before,
      way: way === "gather" && isSifted({ ...query, from, before }, statistics) ? "sift" : way,
    };
  });
}

/** Whether it takes less to look at all candidates of the months than to find out which of them are in the stretch of time. */
function isSifted(
  query: Pick<WindowQuery, "needs" | "numberPaths" | "from" | "before">,
  statistics: StoreStatistics,
): boolean {
  if (query.needs === undefined) return false;
  let [placed, outside] = [0, 0];
  for (const month of statistics) {
    const part = partOf(month, { ...query, isNewestFirst: true });
    if (part === undefined || part.rows >= month.rows) continue;
    placed += PLACE * part.rows;
    outside += GATHER * shareOf(query, month) * (month.rows - part.rows);
  }
  return outside < placed;
}

/** The best way to find all events of a stretch of time. */
export function chooseWay(
  query: Pick<WindowQuery, "needs" | "numberPaths" | "from" | "before">,
  statistics: StoreStatistics,
): Window["way"] {
  let [walk, gather] = [0, 0];
  for (const month of statistics) {
    const part = partOf(month, { ...query, isNewestFirst: true });
    if (part === undefined) continue;
    walk += WALK * part.rows;
    gather += gatherCost(shareOf(query, month), month, part.rows);
  }
  if (walk <= gather) return "walk";
  return isSifted(query, statistics) ? "sift" : "gather";
}

/** How many of a month's events an index finds, of 0 to 1; 1 where none narrows it. */
function shareOf(
  { needs, numberPaths }: Pick<WindowQuery, "needs" | "numberPaths">,
  month: MonthStatistics,
): number {
  const indexed = numberPaths.filter((path) => month.numberPaths.has(path));
  return together([
    ...(needs === undefined ? [] : [frequencyOf(needs, month)]),
    ...indexed.map(() => COMPARED),
  ]);
}

/** The share of events whose number compares so: nothing is known of it. */
const COMPARED = 0.1;

/** Of so many rows of a month. */
function gatherCost(frequency: number, month: MonthStatistics, rows: number): number {
  const apart = Math.min(PLACE * rows, GATHER * frequency * (month.rows - rows));
  return FIND * frequency * month.rows + apart + GATHER * frequency * rows;
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

/** What of a month is asked about, in the order asked for. */
interface Part {
  readonly start: bigint;
  readonly end: bigint;
  readonly rows: number;
  /** The moment until which there are that many events from the start. */
  after(rows: number): bigint;
}

function partOf(
  month: MonthStatistics,
  query: Pick<WindowQuery, "from" | "before" | "isNewestFirst">,
): Part | undefined {
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
