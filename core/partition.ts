import { type CloudEvent } from "./event.ts";
import { encodeUtf8 } from "./utf8.ts";

/**
 * What places an event on its partition: events of one key stay in order. The `partitionkey` extension where the event
 * has one that is not empty (CloudEvents Kafka binding § 3.1), else `source`, or `source#subject` where there is a
 * subject. Changing this breaks the order of what is on the log, as changing the partition count does.
 */
export function partitionKey(event: CloudEvent): string {
  const key = event.extensions.get("partitionkey");
  if (key) return key;
  return event.subject === undefined ? event.source : `${event.source}#${event.subject}`;
}

/** The partition of a key among `count`, as Kafka's Java client chooses it. */
export function partitionFor(key: string, count: number): number {
  return partitionForKey(encodeUtf8(key), count);
}

/** As {@link partitionFor}, for a key that need not be text. */
export function partitionForKey(key: Uint8Array, count: number): number {
  return (murmur2(key) & 0x7fffffff) % count;
}

/** MurmurHash2, 32 bits, with the seed of Kafka's Java client; signed, as Java has it. */
export function murmur2(bytes: Uint8Array): number {
  const multiplier = 0x5bd1e995;
  const rest = bytes.length % 4;
  const whole = bytes.length - rest;
  let hash = 0x9747b28c ^ bytes.length;
  for (let at = 0; at < whole; at += 4) {
    let word = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
    word = Math.imul(word, multiplier);
    word ^= word >>> 24;
    hash = Math.imul(hash, multiplier) ^ Math.imul(word, multiplier);
  }
  if (rest === 3) hash ^= bytes[whole + 2]! << 16;
  if (rest >= 2) hash ^= bytes[whole + 1]! << 8;
  if (rest >= 1) hash = Math.imul(hash ^ bytes[whole]!, multiplier);
  hash ^= hash >>> 13;
  hash = Math.imul(hash, multiplier);
  return hash ^ (hash >>> 15);
}
