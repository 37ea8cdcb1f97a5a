import { DEAD_LETTER_REASONS } from "#core/dead-letter.ts";
import { type DeadLetterIdentity, parseDeadLetterName } from "#core/dead-letter-name.ts";
import { quote } from "#core/faults.ts";
import { decodePageToken, encodePageToken, faultsOfPageToken } from "#core/page-token.ts";
import { type Fault } from "#core/reason.ts";
import { LETTER_FIELDS, type LetterCursor, type LetterSelection } from "#postgres/dead-letters.ts";
import { failureOf, toConnectError } from "../errors.ts";
import { readFilter } from "../filter.ts";

/** Which dead letters a request chooses, with the page tokens that are bound to it. */
export interface Choice {
  readonly value: Pick<LetterSelection, "order" | "reason" | "filter" | "now" | "after">;
  /** The filter in its canonical form. */
  readonly canonical: string;
  /** The token to go on with after a letter; "" where there is none to go on after. */
  tokenAfter(this: void, letter: LetterCursor | undefined): string;
  readonly faults: readonly Fault[];
}

/** Reads what chooses dead letters in a request; the value is only good where there are no faults. */
export function readChoice({
  filter,
  reason,
  pageToken,
  order,
}: {
  readonly filter: string;
  readonly reason: string;
  readonly pageToken: string;
  readonly order: LetterSelection["order"];
}): Choice {
  const asked = readFilter(filter, LETTER_FIELDS);
  const faults: Fault[] = asked.ok ? [] : [...asked.faults];
  if (reason !== "" && !DEAD_LETTER_REASONS.some((each) => each === reason)) {
    const description = `${quote(reason)} is no reason of a dead letter: give one of ${DEAD_LETTER_REASONS.join(", ")}, or none.`;
    faults.push({ field: "reason", reason: "INVALID_REQUEST", description });
  }
  const canonical = asked.ok ? asked.value.canonical : "";
  const question = { filter: canonical, order: `dead letters, ${order} first, ${reason}` };
  // Beside a filter that is none, a token may belong to any.
  if (!asked.ok && pageToken !== "") faults.push(...faultsOfPageToken(pageToken));
  const after = asked.ok && pageToken !== "" ? decodePageToken(pageToken, question) : undefined;
  if (after?.ok === false) faults.push(...after.faults);
  const place = after?.ok ? after.value : undefined;
  const now = place?.askedAt ?? Date.now();
  const cursor: LetterCursor | undefined = place && { ...place, topic: place.topic ?? "" };
  const value = {
    order,
    reason: reason === "" ? undefined : reason,
    filter: asked.ok ? asked.value.filter : undefined,
    now,
    after: cursor,
  };
  const tokenAfter = (letter: LetterCursor | undefined): string =>
    letter === undefined ? "" : encodePageToken({ ...letter, askedAt: now }, question);
  return { value, canonical, tokenAfter, faults };
}

/** @throws ConnectError with every fault, where there is one. */
export function refuseFaults(faults: readonly Fault[]): void {
  const [first, ...rest] = faults;
  if (first !== undefined) throw toConnectError(failureOf([first, ...rest]));
}

/** Names as identities, each once, and every fault of them. */
export function readNames(names: readonly string[]): {
  readonly value: readonly DeadLetterIdentity[];
  readonly faults: readonly Fault[];
} {
  const parsed = names.map((name, index) => ({
    result: parseDeadLetterName(name),
    field: `names[${index}]`,
  }));
  const faults = parsed.flatMap(({ result, field }) =>
    result.ok ? [] : result.faults.map((fault) => ({ ...fault, field })),
  );
  const value = parsed.flatMap(({ result }) => (result.ok ? [result.value] : []));
  return { value, faults };
}
