import { type Admin } from "#kafka/ports.ts";
import {
  type Accounts,
  emptyRanges,
  MAX_RANGES,
  type OffsetRange,
  type PassedRange,
} from "#postgres/log-audit.ts";
import { type Database } from "#postgres/pool.ts";

/** What looking at the log itself changes in the accounts of a stretch. */
export interface Checked {
  readonly unaccounted: bigint;
  readonly unaccountedRanges: OffsetRange[];
  readonly contradictedRanges: OffsetRange[];
  /** Offsets without a record, by the books, that were not looked at on the log: there are too many. */
  readonly unchecked: bigint;
}

/** Of one partition: how many ranges are looked at, and how many fetches that may take in all. */
const MAX_LOOKED_AT = 200;
const MAX_FETCHES = 500;
/** A fetch brings at least one record batch whole, which is all that is asked for. */
const FETCH_BYTES = 65_536;

/**
 * Holds what was passed as "no record" against the log: where it has one there all the same, and nothing else accounts for
 * that, the offset is unaccounted for. Looks at all ranges, or at some from everywhere where they are too many.
 */
export async function checkEmpty(
  { database, admin }: { readonly database: Database; readonly admin: Pick<Admin, "readFrom"> },
  range: PassedRange,
  accounts: Accounts,
  signal: AbortSignal,
): Promise<Checked> {
  const { offsets, ranges } = await emptyRanges(database, range, MAX_LOOKED_AT);
  const found: bigint[] = [];
  let fetches = 0;
  let looked = 0n;
  for (const { from, to } of ranges) {
    let at = from;
    while (at < to && fetches < MAX_FETCHES) {
      signal.throwIfAborted();
      fetches += 1;
      const fetched = await admin.readFrom(range, at, FETCH_BYTES);
      found.push(...(fetched?.records ?? []).map(({ offset }) => offset).filter((each) => each < to));
      // Nothing of the log is left from there on.
      at = fetched === undefined || fetched.next <= at ? to : fetched.next;
    }
    looked += (at < to ? at : to) - from;
  }
  const doubled = ({ from, to }: OffsetRange, offset: bigint): boolean => offset >= from && offset < to;
  const missing = found.filter(
    (offset) => !accounts.contradictedRanges.some((each) => doubled(each, offset)),
  );
  return {
    unaccounted: accounts.unaccounted + BigInt(missing.length),
    unaccountedRanges: [...accounts.unaccountedRanges, ...asRanges(missing)]
      .toSorted((a, b) => Number(a.from - b.from))
      .slice(0, MAX_RANGES),
    contradictedRanges: [...accounts.contradictedRanges],
    unchecked: offsets - looked,
  };
}

/** Offsets in their order as ranges. */
function asRanges(offsets: readonly bigint[]): OffsetRange[] {
  const ranges: OffsetRange[] = [];
  for (const offset of offsets) {
    const last = ranges.at(-1);
    if (last?.to === offset) ranges[ranges.length - 1] = { from: last.from, to: offset + 1n };
    else ranges.push({ from: offset, to: offset + 1n });
  }
  return ranges;
}
