/** Something that waits to be sent. */
export interface Waiting {
  /** What has the same key keeps its order. */
  readonly key: string;
  readonly bytes: number;
}

/** How much a batch may have. */
export interface BatchLimits {
  events: number;
  bytes: number;
}

/**
 * What waits to be sent, a lane for each key. A lane of which something was taken is closed until it is opened again, so
 * that nothing of it is under way twice.
 */
export interface Lanes<T extends Waiting> {
  /** How much waits in open lanes. */
  readonly open: Readonly<BatchLimits>;
  /** To the end of its lane. */
  add(item: T): void;
  /**
   * The next batch, out of the open lanes in turn, whole lanes first come first served; these are closed then. Within the
   * limits, but for a single larger item; empty where no lane is open.
   */
  take(limits: Readonly<BatchLimits>): T[];
  /** To the front of their lanes, in the order given: what was taken and is to be taken again. */
  putBack(items: readonly T[]): void;
  /** Opens the lanes of these keys. */
  reopen(keys: Iterable<string>): void;
  /** Takes something out for good, wherever it waits; nothing happens where it does not. */
  withdraw(item: T): void;
}

interface Lane<T> extends BatchLimits {
  /** In order, with what was withdrawn since they were last sifted. */
  items: T[];
  isOpen: boolean;
}

/** Lanes, all empty and open. */
export function createLanes<T extends Waiting>(): Lanes<T> {
  const lanes = new Map<string, Lane<T>>();
  const waiting = new Set<T>();
  /** The open lanes in which something waits, the longest open first. */
  const turns = new Set<Lane<T>>();
  const open: BatchLimits = { events: 0, bytes: 0 };

  const laneOf = (key: string): Lane<T> => {
    let lane = lanes.get(key);
    if (lane === undefined) lanes.set(key, (lane = { items: [], events: 0, bytes: 0, isOpen: true }));
    return lane;
  };
  const count = (lane: Lane<T>, item: T, sign: 1 | -1): void => {
    const { bytes } = item;
    if (sign > 0) waiting.add(item);
    else waiting.delete(item);
    for (const sum of lane.isOpen ? [lane, open] : [lane]) {
      sum.events += sign;
      sum.bytes += sign * bytes;
    }
  };
  const close = (lane: Lane<T>): void => {
    lane.isOpen = false;
    turns.delete(lane);
    open.events -= lane.events;
    open.bytes -= lane.bytes;
  };
  /** A lane that is open and empty is as good as none. */
  const tidy = (key: string, lane: Lane<T>): void => {
    if (!lane.isOpen) return;
    if (lane.events > 0) turns.add(lane);
    else {
      turns.delete(lane);
      lanes.delete(key);
    }
  };

  return {
    open,
    add(item) {
      const lane = laneOf(item.key);
      lane.items.push(item);
      count(lane, item, 1);
      tidy(item.key, lane);
    },
    take(limits) {
      const batch: T[] = [];
      let bytes = 0;
      for (const lane of turns) {
        let [taken, passed] = [0, 0];
        for (const item of lane.items) {
          if (!waiting.has(item)) {
            passed += 1;
            continue;
          }
          if (batch.length >= limits.events || (batch.length > 0 && bytes + item.bytes > limits.bytes)) break;
          batch.push(item);
          bytes += item.bytes;
          taken += 1;
          passed += 1;
          count(lane, item, -1);
        }
        lane.items.splice(0, passed);
        if (taken === 0) break;
        close(lane);
      }
      return batch;
    },
    putBack(items) {
      for (const item of items.toReversed()) {
        const lane = laneOf(item.key);
        lane.items.unshift(item);
        count(lane, item, 1);
      }
    },
    reopen(keys) {
      for (const key of keys) {
        const lane = lanes.get(key);
        if (lane === undefined || lane.isOpen) continue;
        lane.isOpen = true;
        open.events += lane.events;
        open.bytes += lane.bytes;
        tidy(key, lane);
      }
    },
    withdraw(item) {
      const lane = lanes.get(item.key);
      if (lane === undefined || !waiting.has(item)) return;
      count(lane, item, -1);
      // Not each by itself: a buffer that is given up whole would take time by the square of its size.
      if (lane.items.length > 2 * lane.events) lane.items = lane.items.filter((each) => waiting.has(each));
      tidy(item.key, lane);
    },
  };
}
