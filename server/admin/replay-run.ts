import { type MessageInitShape } from "@bufbuild/protobuf";
import { type HandlerContext } from "@connectrpc/connect";
import { type DeadLetter } from "#core/dead-letter.ts";
import { formatDeadLetterName } from "#core/dead-letter-name.ts";
import { type LogPosition } from "#core/event.ts";
import { type Reason, type Result } from "#core/reason.ts";
import { planReplay } from "#core/replay.ts";
import { ReplayAction, ReplayOutcome, type ReplayStepSchema } from "#gen/weir/admin/v1/dead_letter_pb.ts";
import { replayRecord } from "#kafka/letter-reader.ts";
import { KafkaError, type Producer } from "#kafka/ports.ts";
import { type IndexedLetter, markingReplayed, type ReplayCause } from "#postgres/dead-letters.ts";
import { lockUnreplayed } from "#postgres/letter-locks.ts";
import { transaction } from "#postgres/tx.ts";
import { type Logger } from "#runtime/log.ts";
import { principalKey } from "../auth/auth.ts";
import { auditKey } from "./audit.ts";
import { abortable } from "../http/deadlines.ts";
import { type PlanOptions, readWhole, type Step } from "./replay-plan.ts";

/** What running a plan needs. */
export interface RunOptions extends PlanOptions {
  /** Of the topic of the events. */
  readonly producer: Producer;
  /** How long the topic of the events keeps a record, in milliseconds. */
  readonly retentionMs: number;
  readonly log: Logger;
}

/** What is left of a call's time when its run stops to answer. */
const ANSWER_MS = 1_000;
const MOST_RUN_MS = 3_600_000;

/** A step as a message. */
export type StepMessage = MessageInitShape<typeof ReplayStepSchema>;

/** How far a run came. */
export interface Run {
  readonly steps: StepMessage[];
  readonly published: number;
  /** Records that the log refused for their own sake. */
  readonly refused: number;
  readonly stoppedAt?: string;
  readonly stopReason?: Reason;
}

/**
 * Publishes one letter after another, each once the one before is on the log and noted. What is refused for its own sake is
 * passed over; what would befall the next one as well ends the run.
 */
export async function runPlan(
  options: RunOptions,
  plan: readonly Step[],
  context: HandlerContext,
): Promise<Run> {
  const note = context.values.get(auditKey);
  const by = { principal: context.values.get(principalKey), cause: note?.entry ?? "" };
  const signal = AbortSignal.any([context.signal, timeToAnswer(context)]);
  const steps: StepMessage[] = [];
  let published = 0;
  let refused = 0;
  let stop: { readonly at: string; readonly reason: Reason } | undefined;
  for (const step of plan) {
    const { letter, name } = step;
    const message = toMessage(step);
    steps.push(message);
    if (step.plan.action !== "REPLAY" || letter === undefined) continue;
    if (stop !== undefined) {
      message.outcome = ReplayOutcome.NOT_REACHED;
      continue;
    }
    const done = signal.aborted
      ? timeUsedUp
      : await replay({ ...options, by }, letter, step.plan.attempt, signal);
    Object.assign(message, done.message);
    if (done.message.outcome === ReplayOutcome.PUBLISHED) published += 1;
    if (done.message.outcome === ReplayOutcome.REFUSED && done.stop === undefined) refused += 1;
    if (done.stop !== undefined) stop = { at: name, reason: done.stop };
    // However the call ends, this much was done.
    if (note !== undefined) note.outcome = { published, refused };
  }
  if (note !== undefined && stop !== undefined) note.result = stop.reason;
  return { steps, published, refused, ...(stop && { stoppedAt: stop.at, stopReason: stop.reason }) };
}

function timeToAnswer(context: HandlerContext): AbortSignal {
  const left = context.timeoutMs() ?? Number.POSITIVE_INFINITY;
  return AbortSignal.timeout(Math.min(Math.max(0, Math.floor(left - ANSWER_MS)), MOST_RUN_MS));
}

/** What became of one letter, and why the run stops with it, where it does. */
interface Done {
  readonly message: Pick<StepMessage, "action" | "attempt" | "outcome" | "why" | "position">;
  readonly stop?: Reason;
  /** Where the record stands since, where it was published. */
  readonly position?: LogPosition;
}

/** A run with who had it done. */
interface CausedRun extends RunOptions {
  readonly by: ReplayCause;
}

const timeUsedUp: Done = {
  message: { outcome: ReplayOutcome.NOT_REACHED, why: "The call's time was used up." },
  stop: "DEADLINE_EXCEEDED",
};

function unavailable(why: string): Done {
  return { message: { outcome: ReplayOutcome.REFUSED, why }, stop: "PRODUCER_UNAVAILABLE" };
}

/**
 * Publishes a letter's record and notes that, with its row locked: of several replays of one letter at a time each sees
 * what the one before did, and none publishes what another has.
 */
async function replay(
  options: CausedRun,
  letter: IndexedLetter,
  attempt: number,
  signal: AbortSignal,
): Promise<Done> {
  let done: Done | undefined;
  let isLocked = false;
  try {
    return await transaction(options.database, async (tx) => {
      if (!(await lockUnreplayed(tx, [letter])).has(letter)) return superseded;
      isLocked = true;
      done = await publish(options, letter, attempt, signal);
      const { position } = done;
      if (position) await tx.query(markingReplayed([{ letter, attempt, position }], options.by));
      return done;
    });
  } catch (error) {
    if (isLocked && done === undefined) throw error;
    return notNoted(options, letter, done, error);
  }
}

const superseded: Done = {
  message: {
    outcome: ReplayOutcome.SUPERSEDED,
    why: "Another call, or a redrive, has replayed it since it was planned: this one published nothing.",
  },
};

async function publish(
  options: CausedRun,
  letter: IndexedLetter,
  attempt: number,
  signal: AbortSignal,
): Promise<Done> {
  let read: Result<DeadLetter> | undefined;
  try {
    read = await abortable(readWhole(options, letter), signal);
  } catch (error) {
    if (signal.aborted) return timeUsedUp;
    if (error instanceof KafkaError) return unavailable(`The letter could not be read: ${error.message}`);
    throw error;
  }
  // The letter may have left the topic since the plan was made, and what is published is what was judged.
  const plan = planReplay(letter, read, options.owner);
  if (plan.action !== "REPLAY" || !read?.ok) {
    const why = "why" in plan ? plan.why : "";
    return { message: { action: ACTIONS[plan.action], attempt: 0, outcome: ReplayOutcome.REFUSED, why } };
  }
  const record = replayRecord(read.value, attempt, options.owner, options.retentionMs);
  const result = await options.producer.publish(record, signal);
  switch (result.outcome) {
    case "acknowledged": {
      const { position } = result;
      return { message: { outcome: ReplayOutcome.PUBLISHED, position }, position };
    }
    case "refused":
      return result.isOfRecord
        ? { message: { outcome: ReplayOutcome.REFUSED, why: `Kafka refused the record: ${result.detail}` } }
        : unavailable(`Nothing was published: ${result.detail}`);
    case "unknown": {
      const why = `It was sent and not acknowledged, so it may be on the log: ${result.detail}`;
      return { message: { outcome: ReplayOutcome.UNKNOWN, why }, stop: "PUBLISH_OUTCOME_UNKNOWN" };
    }
  }
}

/** What is to be said where the database failed, before a letter was published or after. */
function notNoted({ log }: RunOptions, letter: IndexedLetter, done: Done | undefined, error: unknown): Done {
  const detail = error instanceof Error ? error.message : String(error);
  if (done === undefined) {
    const why = `Nothing was published, for its row could not be locked: ${detail}`;
    return { message: { outcome: ReplayOutcome.NOT_REACHED, why }, stop: "DATABASE_UNAVAILABLE" };
  }
  if (done.message.outcome !== ReplayOutcome.PUBLISHED) return done;
  log.error("A dead letter was replayed and that could not be noted: it may be replayed again", {
    name: formatDeadLetterName(letter),
    error,
  });
  const why = `It was published, and that could not be noted: ${detail}`;
  return { message: { ...done.message, why }, stop: "DATABASE_UNAVAILABLE" };
}

const ACTIONS: Readonly<Record<Step["plan"]["action"], ReplayAction>> = {
  REPLAY: ReplayAction.REPLAY,
  UNDECODABLE: ReplayAction.UNDECODABLE,
  FOREIGN_TOPIC: ReplayAction.FOREIGN_TOPIC,
  BUDGET_EXHAUSTED: ReplayAction.BUDGET_EXHAUSTED,
  NOT_FOUND: ReplayAction.NOT_FOUND,
  TOO_LARGE: ReplayAction.TOO_LARGE,
};

/** A step as a message, before anything is done. */
export function toMessage({ name, plan }: Step): StepMessage {
  return {
    name,
    action: ACTIONS[plan.action],
    ...("attempt" in plan ? { attempt: plan.attempt } : { why: plan.why }),
  };
}
