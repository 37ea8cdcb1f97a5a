import { refuse } from "./faults.ts";
import { asciiSet, percentDecode, percentEncode } from "./percent.ts";
import { type Result } from "./reason.ts";

const UNRESERVED = asciiSet("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~");

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
  const decoded = [source, id].map((part) => (part && isEncoded(part) ? percentDecode(part) : undefined));
  if (more.length > 0 || decoded[0] === undefined || decoded[1] === undefined) {
    return refuse(
      "name",
      "INVALID_NAME",
      "An event's name is events/{source}:{id}, where every byte of the two parts but letters, digits, - . _ and ~ is written %XX.",
    );
  }
  return { ok: true, value: { source: decoded[0], id: decoded[1] } };
}

function isEncoded(part: string): boolean {
  for (let at = 0; at < part.length; at += 1) {
    const code = part.charCodeAt(at);
    if (code !== 0x25 && (code > 127 || UNRESERVED[code] === 0)) return false;
  }
  return true;
}
