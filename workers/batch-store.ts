import { setTimeout as sleep } from "node:timers/promises";

import { DEAD_LETTER_REASONS, type DeadLetterReason } from "#core/dead-letter.ts";
import { type StoredEvent } from "#core/event.ts";
import { type Fault } from "#core/reason.ts";
import { type SetAside } from "#kafka/dead-letters.ts";
import { type ReceivedRecord } from "#kafka/ports.ts";
import { decodeRecord, principalOf } from "#kafka/record.ts";
import { type SetAsideRecord, type Skip } from "#postgres/accounting.ts";
import { type Claim, persistBatch, type PersistResult } from "#postgres/claims.ts";
import { classify } from "#postgres/failures.ts";
import { type Database } from "#postgres/pool.ts";
import { findRefused } from "#postgres/refused.ts";
import { type ProgressHints } from "#postgres/progress-hints.ts";
import { type Logger } from "#runtime/log.ts";
import { type Telemetry } from "#runtime/telemetry.ts";

import { FencedError } from "./fenced.ts";

/** What storing batches needs. */
export interface BatchStoreOptions {
  readonly db: Database;
  readonly setAside: SetAside;
  /** Told of every checkpoint that has moved. */
  readonly hints: ProgressHints;
  readonly telemetry: Telemetry;
  readonly log: Logger;
}

/** A record with the event that it holds. */
interface Item {
  readonly record: ReceivedRecord;
  readonly event: StoredEvent;
}

/** A stretch of the log: its events, the records that were set aside already, and what it has no records for. */
interface Part {
  readonly items: readonly Item[];
  readonly deadLetters: readonly SetAsideRecord[];
  readonly skips: readonly Skip[];
  readonly nextOffset: bigint;
}

/** A record that cannot be stored, and why. */
interface Refused {
  readonly record: ReceivedRecord;
  readonly event: StoredEvent | undefined;
  readonly reason: DeadLetterReason;
  readonly detail: string;
}

/** How many dead letters of a partition are on their way at once: the producer's queue is for all partitions. */
const LETTERS_AT_ONCE = 16;
/** Tries of one transaction, and the pause between them in milliseconds (design § 6). */
const TRIES = 3;
const PAUSE_MS = 200;

/** Stores stretches of claimed partitions. */
export interface BatchStore {
  /**
   * Stores the records of a stretch, one or more, from the offset that it begins with: when it resolves, every offset of it
   * is a row, a duplicate, a dead letter or a skip, and the checkpoint is past them, at the offset that it answers. Dead
   * letters are durable before the checkpoint passes them.
   *
   * Rejects with a FencedError where another member has taken the partition over (nothing was written), and with what
   * failed where the database or the dead-letter topic is away: the same records may then be given again.
   */
  store(claim: Claim, from: bigint, records: readonly ReceivedRecord[], signal: AbortSignal): Promise<bigint>;
  /** Passes a stretch without records, as `store` does. */
  skip(claim: Claim, skip: Skip, signal?: AbortSignal): Promise<void>;
}

/** See {@link BatchStore}. */
export function createBatchStore({ db, setAside, hints, telemetry, log }: BatchStoreOptions): BatchStore {
  async function deadLetter(
    record: ReceivedRecord,
    event: StoredEvent | undefined,
    reason: DeadLetterReason,
    detail: string,
    signal: AbortSignal,
  ): Promise<SetAsideRecord> {
    const letter = await setAside(record, reason, detail, signal);
    telemetry.count("weir.dead_letters", { reason });
    const { topic, partition, offset, timestamp, value } = record;
    log.warn("A record became a dead letter", { topic, partition, offset, reason, detail });
    return {
      position: { topic, partition, offset },
      reason,
      detail,
      time: letter.time,
      recordTime: timestamp,
      attempt: letter.attempt,
      value,
      event: event?.event,
      principal: event?.principal ?? principalOf(record),
      letter: letter.position,
    };
  }

  /** The letters of records in their order, several on their way at once; all are durable when it resolves. */
  async function setAllAside(
    refused: readonly Refused[],
    signal: AbortSignal,
  ): Promise<readonly SetAsideRecord[]> {
    const letters: SetAsideRecord[] = [];
    for (let at = 0; at < refused.length; at += LETTERS_AT_ONCE) {
      const next = refused.slice(at, at + LETTERS_AT_ONCE);
      letters.push(
        ...(await Promise.all(
          next.map(({ record, event, reason, detail }) => deadLetter(record, event, reason, detail, signal)),
        )),
      );
    }
    return letters;
  }

  async function storePart(claim: Claim, part: Part, signal?: AbortSignal): Promise<void> {
    try {
      await commit(claim, part, signal);
    } catch (error) {
      if (classify(error) !== "data" || part.items.length === 0 || signal === undefined) throw error;
      // Some of them cannot be stored; what is left mostly can, as one transaction.
      const errors = await findRefused(
        db,
        part.items.map(({ event }) => event),
        signal,
      );
      await storeParts(claim, await without(part, errors, signal), signal);
    }
  }

  /** As few transactions as it takes, where records can be stored alone and not all together. */
  async function storeParts(claim: Claim, part: Part, signal: AbortSignal): Promise<void> {
    try {
      await commit(claim, part, signal);
    } catch (error) {
      const [first, ...others] = part.items;
      if (classify(error) !== "data" || !(error instanceof Error) || first === undefined) throw error;
      if (others.length === 0) {
        const rest = await without(part, new Map([[first.event, error]]), signal);
        return commit(claim, rest, signal);
      }
      // Each half moves the checkpoint by itself.
      const [left, right] = halve(part);
      await storeParts(claim, left, signal);
      await storeParts(claim, right, signal);
    }
  }

  /** The part with dead letters in the place of those that are refused. */
  async function without(
    part: Part,
    errors: ReadonlyMap<StoredEvent, Error>,
    signal: AbortSignal,
  ): Promise<Part> {
    const refused = part.items.flatMap(({ record, event }): Refused[] => {
      const error = errors.get(event);
      const detail = `PostgreSQL refused it: ${error?.message}`;
      return error === undefined ? [] : [{ record, event, reason: "UNPERSISTABLE", detail }];
    });
    const letters = await setAllAside(refused, signal);
    const items = part.items.filter(({ event }) => !errors.has(event));
    return { ...part, items, deadLetters: [...part.deadLetters, ...letters] };
  }

  /** One transaction, tried again where that can help. */
  async function commit(claim: Claim, part: Part, signal?: AbortSignal): Promise<void> {
    const { items, ...rest } = part;
    const records = items.length + part.deadLetters.length;
    for (let attempt = 1; ; attempt += 1) {
      const began = performance.now();
      const ended = (outcome: "stored" | "fenced" | "failed"): void => {
        telemetry.count("weir.persist.batches", { outcome });
        telemetry.record("weir.persist.batch.duration", { outcome }, (performance.now() - began) / 1000);
      };
      try {
        const events = items.map(({ event }) => event);
        const result = await persistBatch(db, claim, { ...rest, events });
        ended(result.outcome);
        if (result.outcome === "stored") hints.passed(claim.partition, part.nextOffset);
        if (result.outcome === "stored" && events.length > 0)
          telemetry.record("weir.persist.age", {}, ageOf(events));
        return account(claim, part, result);
      } catch (error) {
        if (error instanceof FencedError) throw error;
        ended("failed");
        if (classify(error) === "data" || attempt === TRIES) throw error;
        log.warn("A batch could not be stored and is tried again", { attempt, records, error });
        await sleep(PAUSE_MS, undefined, signal && { signal });
      }
    }
  }

  function account(claim: Claim, { items, deadLetters, skips }: Part, result: PersistResult): void {
    if (result.outcome === "fenced") throw new FencedError(claim);
    const { written, duplicates, conflicts, redelivered } = result;
    if (items.length + deadLetters.length > 0)
      telemetry.record("weir.persist.batch.size", {}, items.length + deadLetters.length);
    telemetry.count("weir.persist.records", { outcome: "written" }, written);
    telemetry.count("weir.persist.records", { outcome: "duplicate" }, duplicates);
    telemetry.count("weir.persist.records", { outcome: "conflict" }, conflicts);
    telemetry.count("weir.persist.records", { outcome: "redelivered" }, redelivered);
    telemetry.count("weir.persist.records", { outcome: "dead_lettered" }, deadLetters.length);
    for (const { from, to, kind } of skips)
      telemetry.count("weir.persist.skipped", { kind }, Number(to - from));
    if (conflicts > 0) {
      const { topic, partition } = claim;
      log.warn("Events have the name and time of others that differ from them, and are not stored", {
        topic,
        partition,
        conflicts,
      });
    }
  }

  return {
    async store(claim, from, records, signal) {
      const items: Item[] = [];
      const unreadable: Refused[] = [];
      for (const record of records) {
        const decoded = decodeRecord(record);
        if (decoded.ok) items.push({ record, event: decoded.value });
        else {
          const { faults } = decoded;
          unreadable.push({ record, event: undefined, reason: reasonOf(faults), detail: detailOf(faults) });
        }
      }
      const deadLetters = await setAllAside(unreadable, signal);
      const nextOffset = records[records.length - 1]!.offset + 1n;
      await storePart(claim, { items, deadLetters, skips: holesOf(from, records), nextOffset }, signal);
      return nextOffset;
    },
    skip: (claim, skip, signal) =>
      storePart(claim, { items: [], deadLetters: [], skips: [skip], nextOffset: skip.to }, signal),
  };
}

/** The offsets before and between records, which the log has no record for: it gave all that it has. */
function holesOf(from: bigint, records: readonly ReceivedRecord[]): readonly Skip[] {
  const holes: Skip[] = [];
  let expected = from;
  for (const { offset } of records) {
    if (offset > expected) holes.push({ from: expected, to: offset, kind: "NO_RECORD" });
    expected = offset + 1n;
  }
  return holes;
}

/** Two stretches in place of one, each with half of its events and with what else lies in it. */
function halve({ items, deadLetters, skips, nextOffset }: Part): readonly [Part, Part] {
  const middle = items.length >> 1;
  const border = items[middle]!.record.offset;
  const left: Part = {
    items: items.slice(0, middle),
    deadLetters: deadLetters.filter(({ position }) => position.offset < border),
    skips: skips.filter(({ from }) => from < border),
    nextOffset: border,
  };
  const right: Part = {
    items: items.slice(middle),
    deadLetters: deadLetters.filter(({ position }) => position.offset > border),
    skips: skips.filter(({ from }) => from > border),
    nextOffset,
  };
  return [left, right];
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
