import { type LogOffsets } from "#core/tail-cursor.ts";

/** Whether a place has come to another in every partition, or past it. */
export function hasReached(place: LogOffsets, other: LogOffsets): boolean {
  for (const [partition, offset] of other) if ((place.get(partition) ?? 0n) < offset) return false;
  return true;
}

/** The later of two places in each partition: one of them, where it is so in all. */
export function furthest(a: LogOffsets, b: LogOffsets): LogOffsets {
  if (hasReached(b, a)) return b;
  if (hasReached(a, b)) return a;
  const place = new Map(a);
  for (const [partition, offset] of b) {
    if ((place.get(partition) ?? 0n) < offset) place.set(partition, offset);
  }
  return place;
}

/** How many records lie between a place and a later one. */
export function distance(from: LogOffsets, to: LogOffsets): bigint {
  let sum = 0n;
  for (const [partition, offset] of to) {
    const behind = offset - (from.get(partition) ?? 0n);
    if (behind > 0n) sum += behind;
  }
  return sum;
}
