import { type Fault } from "#core/reason.ts";

const DEFAULT = 50;
const MOST = 200;

/** The page size that a request to list something asks for: 50 where it says none, 200 at most, and every fault of it. */
export function readPageSize(asked: number): { readonly value: number; readonly faults: readonly Fault[] } {
  const value = Math.min(asked === 0 ? DEFAULT : asked, MOST);
  if (asked >= 0) return { value, faults: [] };
  const description = `A page cannot have ${asked} entries: give 1 to ${MOST}, or 0 for ${DEFAULT}.`;
  return { value, faults: [{ field: "page_size", reason: "INVALID_PAGE_SIZE", description }] };
}
