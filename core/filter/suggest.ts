/** The name that is nearest to a mistyped one: equal but for case and separators, or one or two slips away. */
export function nearest(typed: string, names: readonly string[]): string | undefined {
  if (typed.length > MAX_LENGTH) return undefined;
  const plain = simplified(typed);
  let best: string | undefined;
  let fewest = Math.min(3, Math.ceil(plain.length / 2));
  for (const name of names) {
    const slips = slipsBetween(plain, simplified(name));
    if (slips < fewest) [best, fewest] = [name, slips];
  }
  return best;
}

/** Longer than any name with its slips. */
const MAX_LENGTH = 24;

function simplified(name: string): string {
  return name.toLowerCase().replaceAll(/[_-]/g, "");
}

/** How many letters must be put in, left out, replaced or swapped with the next one to come from one to the other. */
function slipsBetween(a: string, b: string): number {
  let [beforeLast, last] = [[] as number[], Array.from({ length: b.length + 1 }, (_, at) => at)];
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = (last[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      let slips = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, replaced);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        slips = Math.min(slips, (beforeLast[j - 2] ?? 0) + 1);
      row.push(slips);
    }
    [beforeLast, last] = [last, row];
  }
  return last[b.length] ?? 0;
}
