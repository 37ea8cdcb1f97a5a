import { asciiSet, consistsOf, LETTERS_AND_DIGITS } from "./ascii.ts";
import { refuse } from "./faults.ts";
import { percentDecode, percentEncode, UNRESERVED } from "./percent.ts";
import { type Result } from "./reason.ts";

const ENCODED = asciiSet(`${LETTERS_AND_DIGITS}-._~%`);

/** What identifies an event. */
export interface EventIdentity {
  readonly source: string;
  readonly id: string;
}

/**
 * The resource name of an event: `events/{source}:{id}`, each part percent-encoded (the unreserved characters of RFC 3986
 * stand, every other byte of the UTF-8 is %XX in capitals).
 */
export function formatEventName(source: string, id: string): string {
  return `events/${percentEncode(source, UNRESERVED)}:${percentEncode(id, UNRESERVED)}`;
}

/**
 * The source and id of a resource name. Encodings in lower case and needless ones are taken too; a character that should
 * have been encoded is not. Refused with INVALID_NAME, field "name".
 */
export function parseEventName(name: string): Result<EventIdentity> {
  const [source, id, ...more] = name.startsWith("events/") ? name.slice("events/".length).split(":", 3) : [];
  const decoded = [source, id].map((part) =>
    part && consistsOf(part, ENCODED) ? percentDecode(part) : undefined,
  );
  if (more.length > 0 || decoded[0] === undefined || decoded[1] === undefined) {
    return refuse(
      "name",
      "INVALID_NAME",
      "An event's name is events/{source}:{id}, where every byte of the two parts but letters, digits, - . _ and ~ is written %XX.",
    );
  }
  return { ok: true, value: { source: decoded[0], id: decoded[1] } };
}
