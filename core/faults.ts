import { type Fault, type Reason, type Result } from "./reason.ts";

/** How many faults of one input are kept one by one; the others are counted. Hostile input must not make a huge answer. */
export const MAX_FAULTS = 100;

/** Gathers the faults of one input. */
export interface Faults {
  /** Notes one fault. */
  add(field: string, reason: Reason, description: string, metadata?: Readonly<Record<string, string>>): void;
  /** The value where nothing was noted, else every fault; the value is only made where there is none. */
  result<T>(value: () => T): Result<T>;
}

/** An empty gathering of faults. */
export function createFaults(): Faults {
  const kept: Fault[] = [];
  let further = 0;
  return {
    add(field, reason, description, metadata) {
      if (kept.length >= MAX_FAULTS) further += 1;
      else kept.push({ field: printable(field), reason, description, ...(metadata && { metadata }) });
    },
    result(value) {
      const [first, ...rest] = kept;
      if (first === undefined) return { ok: true, value: value() };
      if (further > 0)
        rest.push({ field: "", reason: first.reason, description: `${further} further faults.` });
      return { ok: false, faults: [first, ...rest] };
    },
  };
}

/** A refusal for one fault. */
export function refuse(
  field: string,
  reason: Reason,
  description: string,
  metadata?: Readonly<Record<string, string>>,
): Result<never> {
  return { ok: false, faults: [{ field, reason, description, ...(metadata && { metadata }) }] };
}

/** The refusal of a batch for its number of events. */
export function tooManyEvents(events: number, limit: number): Result<never> {
  const description = `The batch has ${events} events; at most ${limit} are taken.`;
  const metadata = { limit: String(limit), actual: String(events), unit: "events" };
  return refuse("", "TOO_LARGE", description, metadata);
}

/** A text in quotes for a message: escaped, and cut where it is long. Never give it a payload. */
export function quote(text: string): string {
  return JSON.stringify(shorten(text));
}

// A field may be a name that the sender made up; it goes to logs, headers and database columns.
function printable(text: string): string {
  return shorten(text).replace(/\p{Cc}/gu, "\ufffd");
}

function shorten(text: string): string {
  return (text.length <= 60 ? text : `${text.slice(0, 60)}…`).toWellFormed();
}
