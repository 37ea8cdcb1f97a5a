import { encodeTailCursor, type LogOffsets } from "#core/tail-cursor.ts";

/** The cursor of a place, made once for each: tails share places. */
export type CursorOf = (place: LogOffsets) => string;

/** Cursors of a topic. */
export function createCursorOf(topic: string): CursorOf {
  const cursors = new WeakMap<LogOffsets, string>();
  return (place) => {
    let cursor = cursors.get(place);
    if (cursor === undefined) {
      cursor = encodeTailCursor(place, topic);
      cursors.set(place, cursor);
    }
    return cursor;
  };
}
