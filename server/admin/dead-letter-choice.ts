import { DEAD_LETTER_REASONS } from "#core/dead-letter.ts";
import { type DeadLetterIdentity, parseDeadLetterName } from "#core/dead-letter-name.ts";
import { quote } from "#core/faults.ts";
import { decodePageToken, type PageQuestion } from "#core/page-token.ts";
import { type Fault } from "#core/reason.ts";
import { type LetterCursor, type LetterSelection } from "#postgres/dead-letters.ts";
import { failureOf, toConnectError } from "../errors.ts";

/** Which dead letters a request chooses, with the question that its page tokens are bound to. */
export interface Choice {
  readonly value: Pick<LetterSelection, "order" | "reason" | "after">;
  readonly question: PageQuestion;
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
  const faults: Fault[] = [];
  if (filter.trim() !== "") {
    const description = "Filters are not served yet: leave it empty, which takes all dead letters.";
    faults.push({ field: "filter", reason: "FILTER_UNSUPPORTED", description });
  }
  if (reason !== "" && !DEAD_LETTER_REASONS.some((each) => each === reason)) {
    const description = `${quote(reason)} is no reason of a dead letter: give one of ${DEAD_LETTER_REASONS.join(", ")}, or none.`;
    faults.push({ field: "reason", reason: "INVALID_REQUEST", description });
  }
  const question = { filter: "", order: `dead letters, ${order} first, ${reason}` };
  const after = pageToken === "" ? undefined : decodePageToken(pageToken, question);
  if (after?.ok === false) faults.push(...after.faults);
  const cursor: LetterCursor | undefined = after?.ok
    ? { ...after.value, topic: after.value.topic ?? "" }
    : undefined;
  return { value: { order, reason: reason === "" ? undefined : reason, after: cursor }, question, faults };
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
