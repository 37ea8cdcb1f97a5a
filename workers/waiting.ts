import { type LogRange } from "#kafka/ports.ts";
import { type Logger } from "#runtime/log.ts";

import { type Persist, type Underway } from "./persist.ts";

/** Why partitions are not stored although nothing has failed. */
export interface Waiting {
  /** Takes what the brokers say of the log; to be called again and again. An empty map: they do not answer. */
  look(ranges: ReadonlyMap<number, Pick<LogRange, "end" | "stable">>): void;
  /** Notes in the log what has begun to wait for too long, once. To be called again and again. */
  tell(): void;
  /** What waits, since when, and the likely cause; undefined where nothing has waited for long. */
  readonly fault: string | undefined;
}

/** How long it may be waited for PostgreSQL or the dead-letter topic, with all tries, before that is said. */
const SLOW_MS = 8_000;
/** How long an open transaction may hold a partition back before that is said. */
const HELD_MS = 4_000;

interface Held {
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
  /** Since when it was seen, in milliseconds since 1970. */
  readonly since: number;
}

/** Watches what the persist role waits for. */
export function createWaiting(persist: Pick<Persist, "progress" | "underway">, log: Logger): Waiting {
  let held: readonly Held[] = [];
  const told = new Set<string>();

  function slow(): string[] {
    return persist.underway.filter(({ since }) => Date.now() - since >= SLOW_MS).map(describeSlow);
  }

  function heldBack(): string[] {
    return held.filter(({ since }) => Date.now() - since >= HELD_MS).map(describeHeld);
  }

  return {
    look(ranges) {
      held = persist.progress.flatMap(({ topic, partition, nextOffset: offset, state }) => {
        const range = ranges.get(partition);
        if (state !== "assigned" || offset === undefined || range === undefined) return [];
        if (offset < range.stable || offset >= range.end) return [];
        const before = held.find((each) => each.partition === partition && each.offset === offset);
        return [{ topic, partition, offset, since: before?.since ?? Date.now() }];
      });
    },
    tell() {
      const now = [...slow(), ...heldBack()];
      for (const reason of now) if (!told.has(reason)) log.warn("Records wait to be stored", { reason });
      told.clear();
      for (const reason of now) told.add(reason);
    },
    get fault() {
      const reasons = [...slow(), ...heldBack()];
      return reasons.length === 0 ? undefined : reasons.join("; ");
    },
  };
}

function describeSlow({ topic, partition, from, since }: Underway): string {
  const what =
    from === undefined
      ? `${topic} partition ${partition} has been waiting to be taken over`
      : `${topic} partition ${partition}: records from offset ${from} on have been waiting to be stored`;
  return `${what} since ${timeOf(since)}: PostgreSQL does not answer (a lock, or it is slow), or the dead-letter topic does not`;
}

function describeHeld({ topic, partition, offset, since }: Held): string {
  return (
    `${topic} partition ${partition}: records from offset ${offset} on have been waiting since ${timeOf(since)} for the end of ` +
    `an open transaction of another producer; nothing after its first record is handed out until then`
  );
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString();
}
