/** Negative, 0 or positive, by the order of UTF-8 bytes, which is that of code points (not JavaScript's own). */
export function compareStrings(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let at = 0; at < length; at += 1) {
    const [unitA, unitB] = [a.charCodeAt(at), b.charCodeAt(at)];
    if (unitA !== unitB) return rankOf(unitA) - rankOf(unitB);
  }
  return a.length - b.length;
}

/** Surrogates stand for the code points above all others, yet their units lie below U+E000. */
function rankOf(unit: number): number {
  return unit >= 0xd800 && unit < 0xe000 ? unit + 0x10000 : unit;
}

/**
 * Whether the text consists of the runs in their order with anything between them. Each is taken where it first occurs, which
 * never loses a match, so nothing is tried twice.
 */
export function matchesRuns(text: string, runs: readonly string[]): boolean {
  const first = runs[0] ?? "";
  const last = runs.at(-1) ?? "";
  if (text.length < first.length + last.length || !text.startsWith(first) || !text.endsWith(last))
    return false;
  const end = text.length - last.length;
  let at = first.length;
  for (let index = 1; index < runs.length - 1; index += 1) {
    const run = runs[index] ?? "";
    const found = text.indexOf(run, at);
    if (found < 0 || found + run.length > end) return false;
    at = found + run.length;
  }
  return true;
}
