import { setTimeout as sleep } from "node:timers/promises";

import { DEAD_LETTER_REASONS, type DeadLetterReason } from "#core/dead-letter.ts";
import { type StoredEvent } from "#core/event.ts";
import { type Fault } from "#core/reason.ts";
import { type SetAside } from "#kafka/dead-letters.ts";
import { type ReceivedRecord } from "#kafka/ports.ts";
import { decodeRecord } from "#kafka/record.ts";
import { type Claim, persistBatch, type PersistResult } from "#postgres/claims.ts";
import { classify } from "#postgres/failures.ts";
import { type Database } from "#postgres/pool.ts";
import { type Logger } from "#runtime/log.ts";
import { type Telemetry } from "#runtime/telemetry.ts";

import { FencedError } from "./fenced.ts";

/** What storing batches needs. */
export interface BatchStoreOptions {
  readonly db: Database;
  readonly setAside: SetAside;
  readonly telemetry: Telemetry;
  readonly log: Logger;
}

/** A record with the event that it holds. */
interface Item {
  readonly record: ReceivedRecord;
  readonly event: StoredEvent;
}

/** A stretch of the log; records without an item are dead letters already. */
interface Part {
  readonly items: readonly Item[];
  readonly records: number;
  readonly nextOffset: bigint;
}

/** Tries of one transaction, and the pause between them in milliseconds (design § 6). */
const TRIES = 3;
const PAUSE_MS = 200;

/**
 * Stores the records of a claimed partition, one or more: when it resolves, every one of them is a row, a duplicate or a
 * dead letter, and the checkpoint is past them, at the offset that it answers. Dead letters are durable before the
 * checkpoint passes them.
 *
 * Rejects with a FencedError where another member has taken the partition over (nothing was written), and with what
 * failed where the database or the dead-letter topic is away: the same records may then be given again.
 */
export type StoreBatch = (
  claim: Claim,
  records: readonly ReceivedRecord[],
  signal: AbortSignal,
) => Promise<bigint>;

/** See {@link StoreBatch}. */
export function createBatchStore({ db, setAside, telemetry, log }: BatchStoreOptions): StoreBatch {
  async function deadLetter(
    record: ReceivedRecord,
    reason: DeadLetterReason,
    detail: string,
    signal: AbortSignal,
  ): Promise<void> {
    await setAside(record, reason, detail, signal);
    telemetry.count("weir.dead_letters", { reason });
    const { topic, partition, offset } = record;
    log.warn("A record became a dead letter", { topic, partition, offset, reason, detail });
  }

  async function storePart(claim: Claim, part: Part, signal: AbortSignal): Promise<void> {
    try {
      await commit(claim, part, signal);
    } catch (error) {
      const [first, ...others] = part.items;
      if (classify(error) !== "data" || first === undefined) throw error;
      if (others.length === 0) {
        const detail = `PostgreSQL refused it: ${error instanceof Error ? error.message : String(error)}`;
        await deadLetter(first.record, "UNPERSISTABLE", detail, signal);
        return commit(claim, { ...part, items: [] }, signal);
      }
      // One of them cannot be stored: halve until it is alone. Each half moves the checkpoint by itself.
      const left = part.items.slice(0, part.items.length >> 1);
      const right = part.items.slice(left.length);
      const nextOffset = right[0]!.record.offset;
      await storePart(claim, { items: left, records: left.length, nextOffset }, signal);
      await storePart(claim, { ...part, items: right, records: part.records - left.length }, signal);
    }
  }

  /** One transaction, tried again where that can help. */
  async function commit(claim: Claim, part: Part, signal: AbortSignal): Promise<void> {
    const { items, records, nextOffset } = part;
    for (let attempt = 1; ; attempt += 1) {
      const began = performance.now();
      const ended = (outcome: "stored" | "fenced" | "failed"): void => {
        telemetry.count("weir.persist.batches", { outcome });
        telemetry.record("weir.persist.batch.duration", { outcome }, (performance.now() - began) / 1000);
      };
      try {
        const events = items.map(({ event }) => event);
        const result = await persistBatch(db, claim, { events, records, nextOffset });
        ended(result.outcome);
        if (result.outcome === "stored" && events.length > 0)
          telemetry.record("weir.persist.age", {}, ageOf(events));
        return account(claim, part, result);
      } catch (error) {
        if (error instanceof FencedError) throw error;
        ended("failed");
        if (classify(error) === "data" || attempt === TRIES) throw error;
        log.warn("A batch could not be stored and is tried again", { attempt, records, error });
        await sleep(PAUSE_MS, undefined, { signal });
      }
    }
  }

  function account(claim: Claim, { items, records }: Part, result: PersistResult): void {
    if (result.outcome === "fenced") throw new FencedError(claim);
    telemetry.record("weir.persist.batch.size", {}, records);
    telemetry.count("weir.persist.records", { outcome: "written" }, result.written);
    telemetry.count("weir.persist.records", { outcome: "duplicate" }, result.duplicates);
    telemetry.count("weir.persist.records", { outcome: "dead_lettered" }, records - items.length);
  }

  return async (claim, records, signal) => {
    const items: Item[] = [];
    for (const record of records) {
      const decoded = decodeRecord(record);
      if (decoded.ok) items.push({ record, event: decoded.value });
      else await deadLetter(record, reasonOf(decoded.faults), detailOf(decoded.faults), signal);
    }
    const nextOffset = records[records.length - 1]!.offset + 1n;
    await storePart(claim, { items, records: records.length, nextOffset }, signal);
    return nextOffset;
  };
}

/** How long ago the oldest was accepted, in seconds. */
function ageOf(events: readonly StoredEvent[]): number {
  const accepted = events.reduce((oldest, { acceptTime }) => Math.min(oldest, acceptTime), Infinity);
  return Math.max(0, Date.now() - accepted) / 1_000;
}

/** The reason of the first fault that can be one of a dead letter; a decoder that gives another is itself at fault. */
function reasonOf(faults: readonly Fault[]): DeadLetterReason {
  const reasons = faults.map(({ reason }) => DEAD_LETTER_REASONS.find((known) => known === reason));
  return reasons.find((reason) => reason !== undefined) ?? "DECODER_FAULT";
}

function detailOf(faults: readonly Fault[]): string {
  return faults.map(({ description }) => description).join(" ");
}
