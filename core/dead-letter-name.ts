import { asciiSet, consistsOf, LETTERS_AND_DIGITS } from "./ascii.ts";
import { type LogPosition } from "./event.ts";
import { refuse } from "./faults.ts";
import { percentDecode, percentEncode, UNRESERVED } from "./percent.ts";
import { type Result } from "./reason.ts";

const ENCODED = asciiSet(`${LETTERS_AND_DIGITS}-._~%`);
const MAX_PARTITION = 2 ** 31 - 1;
const MAX_OFFSET = 2n ** 63n - 1n;

/** What identifies a dead letter: where the record stands that failed, and the group that failed on it. */
export interface DeadLetterIdentity extends LogPosition {
  /** The consumer group; "" for a record of the dead-letter topic that is no dead letter of Weir's. */
  readonly group: string;
}

/**
 * The resource name of a dead letter: `deadLetters/{group}:{topic}:{partition}:{offset}`, group and topic percent-encoded
 * as in the name of an event.
 */
export function formatDeadLetterName({ group, topic, partition, offset }: DeadLetterIdentity): string {
  const parts = [percentEncode(group, UNRESERVED), percentEncode(topic, UNRESERVED), partition, offset];
  return `deadLetters/${parts.join(":")}`;
}

/** What a resource name identifies. Refused with INVALID_NAME, field "name". */
export function parseDeadLetterName(name: string): Result<DeadLetterIdentity> {
  const parts = name.startsWith("deadLetters/") ? name.slice("deadLetters/".length).split(":", 5) : [];
  const [group, topic] = parts.slice(0, 2).map((part) => {
    const text = consistsOf(part, ENCODED) ? percentDecode(part) : undefined;
    // PostgreSQL has no text with a NUL, and no name has one either.
    return text?.includes("\0") === true ? undefined : text;
  });
  const [partition, offset] = parts
    .slice(2)
    .map((part) => (/^(0|[1-9]\d{0,18})$/.test(part) ? BigInt(part) : undefined));
  if (
    parts.length !== 4 ||
    group === undefined ||
    !topic ||
    partition === undefined ||
    partition > MAX_PARTITION ||
    offset === undefined ||
    offset > MAX_OFFSET
  ) {
    return refuse(
      "name",
      "INVALID_NAME",
      "A dead letter's name is deadLetters/{group}:{topic}:{partition}:{offset}, as ListDeadLetters gives it.",
    );
  }
  return { ok: true, value: { group, topic, partition: Number(partition), offset } };
}
