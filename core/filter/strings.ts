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

/** Finds where a string first occurs in a text, at an offset or after it; -1 where it does not. */
export type Finder = (text: string, from: number) => number;

/** The engine's own search is fast, but multiplies the lengths where the text nearly matches all along. */
const LONG = 32;

/** Makes the search for a string, which takes time linear in the text, whatever both hold. */
export function createFinder(part: string): Finder {
  if (part.length <= LONG) return (text, from) => text.indexOf(part, from);
  const fallbacks = fallbacksOf(part);
  return (text, from) => {
    let matched = 0;
    for (let at = from; at < text.length; at += 1) {
      const unit = text.charCodeAt(at);
      while (matched > 0 && part.charCodeAt(matched) !== unit) matched = fallbacks[matched - 1]!;
      if (part.charCodeAt(matched) === unit) matched += 1;
      if (matched === part.length) return at + 1 - matched;
    }
    return -1;
  };
}

// Knuth, Morris and Pratt: how much of the part's beginning still matches where the next unit after so much does not.
function fallbacksOf(part: string): Uint16Array {
  const fallbacks = new Uint16Array(part.length);
  for (let at = 1, matched = 0; at < part.length; at += 1) {
    while (matched > 0 && part.charCodeAt(matched) !== part.charCodeAt(at)) matched = fallbacks[matched - 1]!;
    if (part.charCodeAt(matched) === part.charCodeAt(at)) matched += 1;
    fallbacks[at] = matched;
  }
  return fallbacks;
}

/**
 * Makes the test whether a text consists of the runs in their order with anything between them. Each is taken where it first
 * occurs, which never loses a match, so nothing is tried twice.
 */
export function createGlob(runs: readonly string[]): (text: string) => boolean {
  const first = runs[0] ?? "";
  const last = runs.at(-1) ?? "";
  const between = runs.slice(1, -1).map((run) => ({ length: run.length, find: createFinder(run) }));
  return (text) => {
    if (text.length < first.length + last.length || !text.startsWith(first) || !text.endsWith(last))
      return false;
    const end = text.length - last.length;
    let at = first.length;
    for (const { length, find } of between) {
      const found = find(text, at);
      if (found < 0 || found + length > end) return false;
      at = found + length;
    }
    return true;
  };
}
