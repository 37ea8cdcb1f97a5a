import { setTimeout as sleep } from "node:timers/promises";

import { type DeadLetterIdentity, formatDeadLetterName } from "#core/dead-letter-name.ts";
import { KafkaError, type Producer, type PublishResult } from "#kafka/ports.ts";
import { type ReplayedLetter } from "#postgres/dead-letters.ts";
import {
  claimRedrive,
  type Redrive,
  type RedriveCounts,
  type RedriveOutcome,
  type RedriveProgress,
  type RedriveState,
  releaseClaim,
  renewClaim,
  saveProgress,
  saveProgressIn,
} from "#postgres/redrives.ts";
import { lockUnreplayed } from "#postgres/letter-locks.ts";
import { transaction } from "#postgres/tx.ts";
import { type Logger } from "#runtime/log.ts";
import { type Telemetry } from "#runtime/telemetry.ts";

import { type Chunk, type ChunkOptions, chunksOf, type ChunkStep } from "./redrive-chunks.ts";
import { type Role } from "./role.ts";

/** What the redrive role needs. */
export interface RedriveRoleOptions extends ChunkOptions {
  /** Of the topic of the events. */
  readonly producer: Pick<Producer, "publish">;
  /** Who runs redrives, for people to read: a host and a process. No other worker has it. */
  readonly name: string;
  readonly telemetry: Telemetry;
  readonly log: Logger;
  /** How long a claim lasts that is not renewed, in milliseconds; 30 s by default. More than publishing a chunk takes. */
  readonly leaseMs?: number;
  /** How often to look for a redrive, in milliseconds; a second by default. */
  readonly pollMs?: number;
}

const LEASE_MS = 30_000;
const POLL_MS = 1_000;
/** A chunk that failed is tried again after this, doubling up to the last. */
const [FIRST_WAIT_MS, LAST_WAIT_MS] = [1_000, 30_000];

/** How a worker's work on a redrive ended: by a state that is wanted of it, or for a reason of the worker's own. */
type End = Exclude<RedriveState, "RUNNING"> | "fenced" | "failed" | "stopping";

/**
 * Runs the group's redrive, where there is one: chunk by chunk, each published whole and then noted in one transaction with
 * the cursor, so that what a crash leaves is taken up by the next worker and at most one chunk is published twice. A claim
 * with an epoch keeps workers apart. What Kafka refuses for its own sake is counted and passed over; where Kafka takes
 * nothing, or does not answer, the redrive waits.
 */
export function createRedriveRole(options: RedriveRoleOptions): Role {
  const { db, owner, name, producer, telemetry, log, leaseMs = LEASE_MS, pollMs = POLL_MS } = options;
  let fault: string | undefined;

  async function work(redrive: Redrive, signal: AbortSignal): Promise<void> {
    const about = { redrive: redrive.id, epoch: redrive.epoch };
    log.info("A redrive is run", { ...about, counts: redrive.counts });
    const end = await runChunks(redrive, signal);
    if (end === "PAUSED" || end === "stopping") await releaseClaim(db, redrive);
    log.info("A redrive is let go", { ...about, end });
  }

  async function runChunks(redrive: Redrive, signal: AbortSignal): Promise<End> {
    const counts: Partial<Record<RedriveOutcome, number>> = { ...redrive.counts };
    let { cursor, failures } = redrive;
    let claimedAt = performance.now();
    let due = performance.now();
    const failing = (error: string, replayed: readonly ReplayedLetter[] = []): RedriveProgress => {
      telemetry.count("weir.redrive.chunks", { outcome: "failed" });
      const waitMs = Math.min(FIRST_WAIT_MS * 2 ** failures, LAST_WAIT_MS) * (0.8 + Math.random() * 0.2);
      log.warn("A chunk of a redrive was not done and is tried again", {
        redrive: redrive.id,
        error,
        inMs: Math.round(waitMs),
      });
      const failure = { error, waitMs };
      return { replayed, counts: tally(counts, replayed.length), cursor, isLast: false, failure, leaseMs };
    };
    /** Publishes a chunk and notes it, with the rows of its letters locked: each is published by one replay at a time. */
    const run = (chunk: Chunk): Promise<ChunkEnd> =>
      transaction(db, async (tx) => {
        const letters = chunk.steps.flatMap(({ action, letter }) => (action === "REPLAY" ? [letter] : []));
        const unreplayed = await lockUnreplayed(tx, letters);
        const { replayed, refused, failure } = await publishAll(producer, chunk, unreplayed);
        due += (replayed.length / redrive.maxPerSecond) * 1_000;
        claimedAt = performance.now();
        if (failure !== undefined) {
          await saveProgressIn(tx, redrive, failing(failure, replayed));
          return { state: "failed", outcomes: [] };
        }
        for (const [letter, reason] of refused) {
          const about = { redrive: redrive.id, name: formatDeadLetterName(letter), reason };
          log.warn("Kafka refused the record of a dead letter, which a redrive passes over", about);
        }
        // What another replay has published meanwhile is that one's to count.
        const own = chunk.steps.filter(({ action, letter }) => action !== "REPLAY" || unreplayed.has(letter));
        const outcomes = own.map((step) => outcomeOf(step, refused));
        const state = await saveProgressIn(tx, redrive, {
          replayed,
          counts: addTo(counts, outcomes),
          cursor: chunk.cursor,
          isLast: chunk.isLast,
          failure: undefined,
          leaseMs,
        });
        return { state, outcomes };
      });
    const chunks = chunksOf(options, redrive);
    let ahead: Promise<IteratorResult<Chunk>> | undefined;
    try {
      ahead = chunks.next();
      for (;;) {
        const { value: chunk, done } = await ahead;
        if (done === true) return "COMPLETED";
        // Read while this one is published.
        ahead = chunks.next();
        ahead.catch(() => undefined);
        const waitMs = Math.max(0, due - performance.now());
        await sleep(waitMs, undefined, { signal }).catch(() => undefined);
        if (signal.aborted) return "stopping";
        // A claim that is lost by now publishes nothing; one that is fresh outlasts a chunk.
        if (waitMs > 0 || performance.now() - claimedAt > leaseMs / 3) {
          claimedAt = performance.now();
          const wanted = await renewClaim(db, redrive, leaseMs);
          if (wanted !== "RUNNING") return ended(wanted);
        }
        due = Math.max(due, performance.now());
        const { state, outcomes } = await run(chunk);
        if (state === "failed") return state;
        if (state === "fenced") return ended(state);
        telemetry.count("weir.redrive.chunks", { outcome: "done" });
        countLetters(telemetry, outcomes);
        cursor = chunk.cursor;
        failures = 0;
        if (state !== "RUNNING") return state;
      }
    } catch (error) {
      if (!(error instanceof KafkaError)) throw error;
      await saveProgress(db, redrive, failing(`A letter could not be read: ${error.message}`));
      return "failed";
    } finally {
      await ahead?.catch(() => undefined);
    }
  }

  function ended(state: Exclude<RedriveState, "RUNNING"> | "fenced"): End {
    if (state === "fenced") telemetry.count("weir.redrive.chunks", { outcome: "fenced" });
    return state;
  }

  return {
    name: "redrive",
    ready: Promise.resolve(),
    dependencies: ["kafka", "postgresql"],
    get fault() {
      return fault;
    },
    // What keeps it from its work is tried again.
    failed: false,
    async run(signal) {
      while (!signal.aborted) {
        try {
          const redrive = await claimRedrive(db, { group: owner.group, owner: name, leaseMs });
          fault = undefined;
          if (redrive !== undefined) await work(redrive, signal);
        } catch (error) {
          fault = error instanceof Error ? error.message : String(error);
          log.warn("Redrives cannot be run and are tried again", { error, inMs: pollMs });
        }
        await sleep(pollMs, undefined, { signal }).catch(() => undefined);
      }
    },
  };
}

/** How a chunk ended: with the state that is wanted of the redrive, and what became of its letters. */
interface ChunkEnd {
  readonly state: RedriveState | "fenced" | "failed";
  readonly outcomes: readonly RedriveOutcome[];
}

/** What became of a chunk's records. */
interface Published {
  readonly replayed: readonly ReplayedLetter[];
  /** What Kafka refused for its own sake, and why. */
  readonly refused: ReadonlyMap<DeadLetterIdentity, string>;
  /** Why the chunk is not done. */
  readonly failure: string | undefined;
}

/**
 * Publishes at once, in their order, a chunk's records that nobody else has replayed. Where Kafka takes none, those are given
 * up that have not been sent, so that what follows does not come before it when the chunk is tried again.
 */
async function publishAll(
  producer: Pick<Producer, "publish">,
  { steps }: Chunk,
  unreplayed: ReadonlySet<DeadLetterIdentity>,
): Promise<Published> {
  const giveUp = new AbortController();
  let failure: string | undefined;
  const publish = async ({ letter, record }: ReplayStep): Promise<PublishResult> => {
    const result = await producer.publish(record, giveUp.signal);
    if (result.outcome === "acknowledged" || isOfRecord(result) || failure !== undefined) return result;
    const what = result.outcome === "refused" ? "Kafka did not take" : "It is not known whether Kafka took";
    failure = `${what} the record of ${formatDeadLetterName(letter)}: ${result.detail}`;
    giveUp.abort();
    return result;
  };
  const sent = steps.flatMap((step) =>
    step.action === "REPLAY" && unreplayed.has(step.letter) ? [{ step, published: publish(step) }] : [],
  );
  const replayed: ReplayedLetter[] = [];
  const refused = new Map<DeadLetterIdentity, string>();
  for (const { step, published } of sent) {
    const result = await published;
    const { letter, attempt } = step;
    if (result.outcome === "acknowledged") replayed.push({ letter, attempt, position: result.position });
    else if (isOfRecord(result)) refused.set(letter, result.detail);
  }
  return { replayed, refused, failure };
}

type ReplayStep = Extract<ChunkStep, { readonly action: "REPLAY" }>;

function isOfRecord(result: PublishResult): boolean {
  return result.outcome === "refused" && result.isOfRecord;
}

function outcomeOf({ action, letter }: ChunkStep, refused: Published["refused"]): RedriveOutcome {
  if (action !== "REPLAY") return action;
  return refused.has(letter) ? "REFUSED" : "REPLAYED";
}

/** Adds the letters of a chunk, and answers all that there are by now. */
function addTo(
  counts: Partial<Record<RedriveOutcome, number>>,
  outcomes: readonly RedriveOutcome[],
): RedriveCounts {
  for (const outcome of outcomes) counts[outcome] = (counts[outcome] ?? 0) + 1;
  return counts;
}

/** The counts with the replayed ones of a chunk that is tried again without them. */
function tally(counts: RedriveCounts, replayed: number): RedriveCounts {
  return replayed === 0 ? counts : { ...counts, REPLAYED: (counts.REPLAYED ?? 0) + replayed };
}

const OUTCOMES = {
  REPLAYED: "replayed",
  UNDECODABLE: "undecodable",
  FOREIGN_TOPIC: "foreign_topic",
  BUDGET_EXHAUSTED: "budget_exhausted",
  TOO_LARGE: "too_large",
  REFUSED: "refused",
} as const;

function countLetters(telemetry: Telemetry, outcomes: readonly RedriveOutcome[]): void {
  for (const [outcome, own] of Map.groupBy(outcomes, (each) => each))
    telemetry.count("weir.redrive.letters", { outcome: OUTCOMES[outcome] }, own.length);
}
