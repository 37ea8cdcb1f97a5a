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
  /** Takes something out, wherever it waits; nothing happens where it does not. */
  withdraw(item: T): void;
}

interface Lane<T> extends BatchLimits {
  items: T[];
  isOpen: boolean;
}

/** Lanes, all empty and open. */
export function createLanes<T extends Waiting>(): Lanes<T> {
  const lanes = new Map<string, Lane<T>>();
  /** The open lanes in which something waits, the longest open first. */
  const turns = new Set<Lane<T>>();
  const open: BatchLimits = { events: 0, bytes: 0 };

  const laneOf = (key: string): Lane<T> => {
    let lane = lanes.get(key);
    if (lane === undefined) lanes.set(key, (lane = { items: [], events: 0, bytes: 0, isOpen: true }));
    return lane;
  };
  const count = (lane: Lane<T>, { bytes }: T, sign: 1 | -1): void => {
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
        let taken = 0;
        for (const item of lane.items) {
          if (batch.length >= limits.events || (batch.length > 0 && bytes + item.bytes > limits.bytes)) break;
          batch.push(item);
          bytes += item.bytes;
          taken += 1;
        }
        if (taken === 0) break;
        for (const item of lane.items.splice(0, taken)) count(lane, item, -1);
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
      const at = lane?.items.indexOf(item) ?? -1;
      if (lane === undefined || at < 0) return;
      lane.items.splice(at, 1);
      count(lane, item, -1);
      tidy(item.key, lane);
    },
  };
}
