import { parseFilter } from "#core/filter/parse.ts";
import { printFilter } from "#core/filter/print.ts";
import { type Filter } from "#core/filter/tree.ts";
import { type Fault, type Result } from "#core/reason.ts";

/** A filter of a request. */
export interface AskedFilter {
  /** undefined where it is empty: all match. */
  readonly filter: Filter | undefined;
  /** In canonical form, which page tokens are bound to; "" where it is empty. */
  readonly canonical: string;
}

/**
 * Reads the field `filter` of a request, or says all that is wrong with it: INVALID_FILTER, each fault with its position, what
 * was expected there and what may be meant.
 *
 * @param only the fields that it can be about, where not all are.
 */
export function readFilter(text: string, only?: readonly string[]): Result<AskedFilter> {
  const parsed = parseFilter(text, only);
  if (parsed.ok) return { ok: true, value: { filter: parsed.value, canonical: printFilter(parsed.value) } };
  const [first, ...more] = parsed.faults;
  return { ok: false, faults: [withExpected(first), ...more.map(withExpected)] };
}

/** A field violation has no metadata, but for the first one's in ErrorInfo. */
function withExpected(fault: Fault): Fault {
  const expected = fault.metadata?.["expected"];
  return expected === undefined || fault.description.includes(expected)
    ? fault
    : { ...fault, description: `${fault.description} Expected: ${expected}.` };
}
